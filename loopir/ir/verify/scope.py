"""The verifier's context: stage, names in scope, surroundings; and how it fails."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NoReturn

from loopir.errors import VerifyError
from loopir.ir.grammar import Buffer, Cond, Load, Loop, Monoid

Stage = Literal["schedule", "lowered", "flat", "meaning"]
"""At "meaning", that of an instruction, parameters may live in any memory."""
RESERVED = frozenset({"inf", "nan", *keyword.kwlist})


@dataclass(slots=True)
class VerifyContext:
    """What is known at a node: the stage, the names in scope, and what is around it."""

    stage: Stage
    bound: set[str] = field(default_factory=set[str])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    level: dict[str, int] = field(default_factory=dict[str, int])
    """How many loops are around the allocation of a buffer."""
    readonly: set[str] = field(default_factory=set[str])
    loops: tuple[Loop, ...] = ()
    guards: tuple[tuple[int, tuple[Cond, ...]], ...] = ()
    """The conditions around, each with how many loops are around it."""
    axes: frozenset[str] = frozenset()
    kernel: str | None = None
    names: set[str] = field(default_factory=set[str])
    labels: set[str] = field(default_factory=set[str])
    monoids: dict[str, Monoid] = field(default_factory=dict[str, Monoid])
    seen: set[int] = field(default_factory=set[int])
    used: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    written: dict[str, str] = field(default_factory=dict[str, str])
    """By buffer, a statement that writes it."""
    hints: bool = False
    """Whether a hint to a cache was met."""
    bindings: dict[str, str] = field(default_factory=dict[str, str])
    """By axis of a launch, a loop bound to it that was met."""
    outermost_fold: int = 1 << 30
    """How many loops are around the outermost loop that a reduction met so far folds over."""
    loads: list[Load] | None = None
    """What is loaded in the value that is looked at; None if that is more than operations on loads."""


@dataclass(frozen=True, slots=True)
class VerifiedNest:
    """A nest that was found legal: what it declares, and what it needs of its surroundings."""

    bound: frozenset[str]
    names: set[str]
    labels: set[str]
    monoids: dict[str, Monoid]
    used: dict[str, Buffer]
    own: dict[str, Buffer]
    """What it uses and declares itself."""
    written: dict[str, str]
    hints: bool
    bindings: dict[str, str]


def fail(message: str) -> NoReturn:
    raise VerifyError(message)


def declare_name(name: str, here: VerifyContext) -> None:
    if name in here.names:
        fail(f"the name {name!r} is used twice; sizes, buffers and loops have names of their own")
    require_usable(name)
    here.names.add(name)


NAMES = "an ASCII identifier that is no keyword, inf or nan, and does not start with lp_ or __"
"""What names are."""


def is_usable(name: str) -> bool:
    """Whether `name` is one that programs may use."""
    return name.isidentifier() and name.isascii() and name not in RESERVED and not name.startswith(("lp_", "__"))


@lru_cache(maxsize=4096)
def require_usable(name: str) -> None:
    """Refuse a name that programs may not use."""
    if not is_usable(name):
        fail(f"{name!r} is no usable name: {NAMES}")
