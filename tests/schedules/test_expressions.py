"""Random expressions over whole tensors under `schedules.auto`: on the CPU and lowered for a GPU, as NumPy says."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import exprs
from loopir.testing.generate.tensors import Expr

TYPES = ("int32", "int8", "int64", "int16")
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def inputs(e: Expr, rows: int, seed: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    shapes = [tuple(d if isinstance(d, int) else rows for d in x.shape) for x in e.inputs]
    return [rng.integers(-4, 5, s).astype(x.dtype.name) for s, x in zip(shapes, e.inputs, strict=True)]


def expressions(largest: int) -> st.SearchStrategy[Expr]:
    return st.sampled_from(TYPES).flatmap(lambda t: exprs(dtype=t, largest=largest))


@settings(SETTINGS, max_examples=30)
@given(expressions(40), st.sampled_from((17, 0, 1, 2, 33, 64)), st.integers(0, 99))
def test_on_a_cpu(e: Expr, rows: int, seed: int) -> None:
    arrays = inputs(e, rows, seed)
    with np.errstate(all="ignore"):
        wanted = e.reference(*arrays)
    s = lp.Schedule(e.tensor)
    found = schedules.auto(s, "llvm").build("llvm", threads=2)(*arrays)
    assert np.array_equal(found, wanted), lp.text(s.func)
