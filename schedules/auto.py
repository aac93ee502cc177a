"""A good schedule for a target, chosen from the structure of the nest."""

from __future__ import annotations

import loopir as lp
from schedules.cpu import cpu
from schedules.gpu import gpu


def auto(s: lp.Schedule, target: str = "auto", arch: str | None = None) -> lp.Schedule:
    """`s` scheduled for `target`: "cuda", "llvm", or "auto" for the one that is there; "interpret" leaves it alone.

    `arch` is the GPU's architecture, for schedules that depend on it, unless told that of the GPU in this machine: on
    "sm_90a" products of 16-bit floats are those of warpgroups. Raises TargetError for a target that there is not.
    """
    if not isinstance(s, lp.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"auto takes a Schedule, as lp.Schedule(A @ B), and is given a {type(s).__name__}")
    match lp.resolve_target(target):
        case "cuda":
            return gpu(s, arch=arch or _arch())
        case "llvm":
            return cpu(s)
        case _:
            return s


def _arch() -> str | None:
    """The architecture of the GPU that is here, if there is one."""
    try:
        return lp.describe_target("cuda").rpartition(", ")[2]
    except lp.TargetError:
        return None
