"""What an operation on values is: one record with its meaning and its spelling on every target.

The records themselves live in `loopir.intrinsics`, one file per family; they enter `REGISTRY` when made.
This file is below them so that the interpreter and the parser can use a record without knowing any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from loopir.ir.dtypes import DType
    from loopir.ir.grammar import Monoid, Value

REGISTRY: dict[str, Intrinsic] = {}
MONOIDS: dict[str, Callable[[tuple[DType, ...]], Monoid]] = {}
"""The monoids known by name: each makes the Monoid for the dtypes of its components."""


@dataclass(frozen=True, eq=False, slots=True)
class Intrinsic:
    """A pure scalar operation, once for every room that needs to know it.

    `kinds` are the dtype kinds it takes, its arguments all of one dtype; `result` is that dtype or bool.
    `meaning` is its value on NumPy arrays: what every backend is measured against.
    `cuda` and `llvm` map a dtype name or, failing that, a dtype kind to a spelling. For CUDA that is an expression
    with `{0}`, `{1}` for the arguments, `{T}` for their C type and `{U}` for an unsigned type that wraps as it does;
    `cuda_prelude` declares what the expression calls. For LLVM it is an instruction ("fadd"), a comparison
    ("icmp slt") or an intrinsic ("llvm.fma"). 16-bit floats compute in float32 on both and are rounded after.
    `expand` says the operation in terms of simpler ones, for a target with no spelling for that dtype.
    `ulp` bounds the error of a backend against the exact result, in units in the last place; 0 is exact.
    """

    name: str
    arity: int
    kinds: frozenset[str]
    meaning: Callable[..., Any]
    result: Literal["same", "bool"] = "same"
    cuda: Mapping[str, str] = field(default_factory=dict[str, str])
    cuda_prelude: str = ""
    llvm: Mapping[str, str] = field(default_factory=dict[str, str])
    expand: Callable[..., Value | None] | None = None
    infix: str | None = None
    ulp: float = 0.0
    doc: str = ""

    def __post_init__(self) -> None:
        if self.name in REGISTRY:
            raise ValueError(f"the intrinsic {self.name!r} is declared twice")
        REGISTRY[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Intrinsic], tuple[str]]:
        return _registered, (self.name,)


def _registered(name: str) -> Intrinsic:
    return REGISTRY[name]
