"""What a target can take: the limits that lowering checks before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterable
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
    max_cluster: int = 1
    instructions: bool = False
    """Whether its instructions are spelt; else they are the loops they mean."""
    hints: bool = False
    """Whether it is told what is about to be used."""
    branches: bool = False
    """Whether a test is a branch there, and not a predicate of what it guards: copies of one are then made one."""


CUDA = Target(
    "cuda",
    frozenset(AXES),
    max_threads=1024,
    shared_bytes=232448,  # sm_90; CUDA C++ Programming Guide, table of compute capabilities
    max_cluster=16,  # more than 8 are not on every GPU of sm_90 and later; the driver refuses them where they are not
    instructions=True,
)
LLVM = Target("llvm", frozenset({"parallel"}), hints=True, branches=True)
TARGETS = {t.name: t for t in (CUDA, LLVM)}


def target(name: str) -> Target:
    """The target called `name`; TargetError, with those there are, if there is none."""
    if name not in TARGETS:
        raise TargetError(f"there is no target {name!r}; there are {', '.join(TARGETS)}, interpret and auto")
    return TARGETS[name]


def require_arch(needs: Iterable[tuple[str, str]], arch: str) -> None:
    """TargetError unless `arch` has everything in `needs`: of each what it is, and the least architecture that has it.

    "sm_90" is that one and all later ones; "sm_90a", with a letter, is that one alone.
    """
    for what, least in needs:
        if least[-1].isalpha():
            fits = arch == least
        else:
            fits = int(arch.removeprefix("sm_").rstrip("af")) >= int(least.removeprefix("sm_"))
        if not fits:
            only = "is on" if least[-1].isalpha() else "is on a GPU of at least"
            raise TargetError(f"{what} {only} {least}, and this is {arch}; build another schedule for it")
