"""The table of ATen operators: one row each, a function from tensor expressions to tensor expressions.

A row is found by the operator's name, such as "aten.add.Tensor". It gets the call's arguments as torch has them, with
expressions in place of tensors and symbolic sizes in place of SymInts, and raises `Unsupported`, or any of loopir's
errors, for a use that it does not cover: that call stays with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from loopir.errors import ModelError
from loopir.tensor.tensor import Tensor

Promotion: TypeAlias = Literal["default", "float", "bool"]
"""How torch finds the type in which it computes from those of the arguments; "float" takes integers to float32."""


class Unsupported(ModelError):
    """A call of an operator that its row does not cover."""


@dataclass(frozen=True, slots=True)
class Result:
    """What torch says that a call gives: a shape of numbers and symbolic sizes, and a type."""

    shape: tuple[Any, ...]
    dtype: str
    rounded: frozenset[str] = frozenset()
    """The products, of "matmul" and "conv", whose factors torch allows to be rounded to TF32 there."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What torch checks when a call runs: where `outside` is true something is wrong, and an IndexError is raised."""

    outside: Tensor
    message: str


@dataclass(frozen=True, slots=True)
class AtenRow:
    """How a call becomes an expression.

    With `promotion`, tensors and numbers among the first `counted` arguments are converted to the type that torch
    computes in. With `informed`, the function gets the call's Result first, several in a tuple. A `view` shares the
    memory of its first argument.
    """

    make: Callable[..., Any]
    promotion: Promotion | None = None
    skipped: int = 0
    """How many arguments in front are not promoted, as the condition of `where`."""
    informed: bool = False
    view: bool = False
    creates: bool = False
    """Whether it reads no elements, so that it is not worth a kernel of its own."""


OPERATORS: dict[str, AtenRow] = {}


def operator(*names: str, **traits: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a row under all its names."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATORS[name] = AtenRow(make, **traits)
        return make

    return register


def pointwise(rows: Mapping[str, Callable[..., Any]], promotion: Promotion = "default") -> None:
    """Register rows of functions of elements, by the names of their operators."""
    for name, make in rows.items():
        for full in _overloads(name):
            OPERATORS[full] = AtenRow(make, promotion)


def _overloads(name: str) -> tuple[str, ...]:
    """An operator's full names: "add.Tensor|Scalar" are two overloads, and one without any is the default."""
    packet, _, listed = name.partition(".")
    return tuple(f"aten.{packet}.{overload}" for overload in (listed or "default").split("|"))
