"""A good schedule for a target, chosen from the structure of the nest."""

from __future__ import annotations

import loopir as lp

from .cpu import cpu
from .gpu import gpu


def auto(s: lp.Schedule, target: str = "auto", arch: str | None = None) -> lp.Schedule:
    """`s` scheduled for `target`: "cuda", "llvm", or "auto" for the one that is there; "interpret" leaves it alone.

    `arch` is the GPU's architecture, as `lp.machine` takes it ("sm_90a"; "sm_90" is the same): what is made fits it and
    uses what it has, on sm_90a products by warpgroups. Unless told, it is that of the GPU in this machine; without one,
    what is made runs on every GPU of sm_80 and later. Raises TargetError for a target or an
    architecture that there is not, and names those there are.
    """
    if not isinstance(s, lp.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"auto takes a Schedule, as lp.Schedule(A @ B), and is given a {type(s).__name__}")
    match lp.resolve_target(target):
        case "cuda":
            return gpu(s, arch=lp.local_machine() if arch is None else arch)
        case "llvm":
            return cpu(s)
        case _:
            return s
