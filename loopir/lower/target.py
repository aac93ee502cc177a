"""What a target can take: the limits that lowering checks before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from loopir.errors import TargetError
from loopir.ir.grammar import AXES
from loopir.machines import Machine, machine


@dataclass(frozen=True, slots=True)
class Target:
    """A backend: which loops start a kernel, and how many threads and bytes of shared memory a block may have."""

    name: str
    roots: frozenset[str]
    gpu: str = ""
    """The architecture whose limits these are."""
    max_threads: int = 1
    shared_bytes: int = 0
    max_cluster: int = 1
    instructions: bool = False
    """Whether instructions are emitted; otherwise they are expanded to loops."""
    hints: bool = False
    """Whether prefetch hints are emitted."""
    branches: bool = False
    """Whether a test is compiled to a branch, and not to predication; repeated tests are then merged."""
    checks: bool = False
    """Whether the first nan and the first subscript outside are recorded with their iteration."""


CUDA = Target(
    "cuda",
    frozenset(AXES),
    instructions=True,
)
LLVM = Target("llvm", frozenset({"parallel"}), hints=True, branches=True)
TARGETS = {t.name: t for t in (CUDA, LLVM)}


def no_target(name: str) -> TargetError:
    """The error for a target of that name, with those there are."""
    named = str(name).lower()
    meant = {"cpu": "; the CPU is llvm", "gpu": "; the GPU is cuda"}.get(named, "")
    meant = f'; write "{named}"' if named in TARGETS and named != name else meant
    return TargetError(f"there is no target {name!r}; there are {', '.join(TARGETS)}, interpret and auto{meant}")


def target(name: str, gpu: Machine | None = None) -> Target:
    """The target called `name`, with the limits of `gpu`, or of the machine that schedules are made for.

    Raises TargetError, with those there are, if there is none.
    """
    if name not in TARGETS:
        raise no_target(name)
    return TARGETS[name] if name != CUDA.name else _with_limits(gpu or machine())


def _with_limits(gpu: Machine) -> Target:
    return replace(
        CUDA,
        gpu=gpu.arch,
        max_threads=gpu.threads_per_block,
        shared_bytes=gpu.shared_per_block,
        max_cluster=gpu.max_cluster,
    )


def require_arch(needs: Iterable[tuple[str, str]], arch: str) -> None:
    """Raise TargetError unless `arch` has everything in `needs`, pairs of a feature and the least architecture for it.

    "sm_90" stands for sm_90 and all later ones; "sm_90a", with a letter, for that one alone.
    """
    for what, least in needs:
        if least[-1].isalpha():
            fits = arch == least
        else:
            fits = int(arch.removeprefix("sm_").rstrip("af")) >= int(least.removeprefix("sm_"))
        if not fits:
            only = "is on" if least[-1].isalpha() else "is on a GPU of at least"
            raise TargetError(f"{what} {only} {least}, and this is {arch}; build another schedule for it")
