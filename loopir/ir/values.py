"""Values: the scalar expressions of the language (`loopir.ir.grammar`), on what buffers hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopir.ir.dtypes import DType, bool_
from loopir.ir.index import Cond, Index, Node, node
from loopir.ir.ops import Intrinsic

if TYPE_CHECKING:
    from loopir.ir.grammar import Buffer


class Value(Node):
    """A scalar of an element type. Every Value has a `.dtype`."""

    __slots__ = ("_hash",)

    @property
    def dtype(self) -> DType:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Const(Value):
    """A literal. Two are equal when their bits are, so NaN equals NaN and 0.0 differs from -0.0."""

    value: int | float | bool
    type: DType

    def __post_init__(self) -> None:
        cast = {"float": float, "int": int, "uint": int, "bool": bool}[self.type.kind]
        value = cast(self.value)
        object.__setattr__(self, "value", float("nan") if value != value else value)

    @property
    def dtype(self) -> DType:
        return self.type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and (repr(self.value), self.type) == (repr(other.value), other.type)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.type))


@node
class Load(Value):
    buffer: Buffer
    at: tuple[Index, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@node
class IndexToValue(Value):
    """An index, or a condition, as a value."""

    of: Index | Cond
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@node
class Cast(Value):
    """Conversion. Float to integer truncates, saturates, and takes NaN to 0; to a narrower integer wraps.

    To a float it rounds to nearest, ties to even; to bfloat16 and to 8 bits by way of float32, as
    NumPy does with ml_dtypes.
    """

    value: Value
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@node
class Select(Value):
    """`a` where `cond` holds, else `b`; the other side is not evaluated, so it may be out of bounds."""

    cond: Cond
    a: Value
    b: Value

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@node
class Op(Value):
    fn: Intrinsic
    args: tuple[Value, ...]

    @property
    def dtype(self) -> DType:
        v: Value = self
        while isinstance(v, Op) and v.fn.result != "bool":  # down a sum of many terms, without recursion
            v = v.args[0]
        return bool_ if isinstance(v, Op) else v.dtype


@dataclass(frozen=True, slots=True)
class Param(Value):
    """A scalar that a monoid's `combine` takes: one side's old or new component."""

    name: str
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Monoid(Node):
    """An associative, commutative fold of `len(left)` values with its identity.

    `combine[k]` is component k of the fold of (left) with (right). That it is a commutative monoid is the
    declarer's word; `loopir.testing` can try it.
    """

    name: str
    left: tuple[Param, ...]
    right: tuple[Param, ...]
    combine: tuple[Value, ...]
    identity: tuple[Const, ...]
