"""What a target can take: the limits that lowering checks before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from loopir.errors import TargetError
from loopir.ir.grammar import AXES


@dataclass(frozen=True, slots=True)
class Target:
    """A backend: which loops start a kernel, and how many threads and bytes of shared memory a block may have."""

    name: str
    roots: frozenset[str]
    max_threads: int = 1
    shared_bytes: int = 0
    instructions: bool = False
    """Whether its instructions are spelt; else they are the loops they mean."""


CUDA = Target(
    "cuda",
    frozenset(AXES),
    max_threads=1024,
    shared_bytes=232448,  # sm_90; CUDA C++ Programming Guide, table of compute capabilities
    instructions=True,
)
LLVM = Target("llvm", frozenset({"parallel"}))
TARGETS = {t.name: t for t in (CUDA, LLVM)}


def target(name: str) -> Target:
    """The target called `name`; TargetError, with those there are, if there is none."""
    if name not in TARGETS:
        raise TargetError(f"there is no target {name!r}; there are {', '.join(TARGETS)}, interpret and auto")
    return TARGETS[name]
