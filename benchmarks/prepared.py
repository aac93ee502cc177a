"""Schedules made and compiled by all cores, before anything is timed: most of a run over many kernels would be that.

Processes are started before the GPU is touched, as a context does not outlive a fork. What they compile is kept on
disk, so that building it later takes no time; what they give back is the schedules.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence

import memory_rows

import loopir as lp
import loopir.build  # lends the schedules that come back their `build`
from loopir import schedules
from loopir.runtime.cuda import driver

Variant = tuple[memory_rows.Row, bool]
"""A kernel, and whether it is for all sizes."""


def prepared(wanted: Sequence[Variant]) -> list[lp.Schedule]:
    """`schedules.auto` of each, in order."""
    if not wanted:
        return []
    with multiprocessing.get_context("fork").Pool(min(len(wanted), os.cpu_count() or 1)) as pool:
        arch = driver.device().arch
        return pool.starmap(_made, [(row.name, symbolic, arch) for row, symbolic in wanted], chunksize=1)


def rows(names: Sequence[str]) -> list[memory_rows.Row]:
    """The rows whose name holds one of `names`; all, if there are none."""
    return [row for row in memory_rows.rows() if not names or any(n in row.name for n in names)]


def _made(name: str, symbolic: bool, arch: str) -> lp.Schedule:
    row = next(r for r in memory_rows.rows() if r.name == name)
    s = schedules.auto(row.ours(symbolic=symbolic), "cuda", arch=arch)
    lp.compile_source(s, arch)
    return s
