"""Integer expressions on loop variables and sizes, and conditions on them: what analysis understands.

Part of the language of `loopir.ir.grammar`, which says how the sorts of expressions fit together. Constructors fold
constants and drop neutral elements, and nothing else; `loopir.arith.simplify` simplifies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from loopir.ir.grammar import Value

CmpOp = Literal["<", "<=", "==", "!="]


class Node:
    """The base of all nodes: immutable, compared by structure. `loopir.ir.traverse.memo` keeps its cache in `_kept`."""

    __slots__ = ("_kept",)


C = TypeVar("C", bound=type[Any])
N = TypeVar("N", bound="type[Index] | type[Cond] | type[Value]")


@dataclass_transform(frozen_default=True)
def record(cls: C) -> C:
    """A frozen dataclass with slots, whose instances are made twice as fast: each field is stored by its slot.

    What `dataclass` writes for a frozen class goes through `object.__setattr__`; rewriting a nest is making nodes.
    """
    made = dataclass(frozen=True, slots=True)(cls)
    named = [f for f in fields(made) if f.init]
    scope: dict[str, Any] = {f"_{f.name}": getattr(made, f.name).__set__ for f in named}
    scope |= {f"_default_{f.name}": f.default for f in named if f.default is not MISSING}
    heads = (f.name if f.default is MISSING else f"{f.name}=_default_{f.name}" for f in named)
    stores = (f"    _{f.name}(self, {f.name})" for f in named)
    exec("\n".join([f"def __init__({', '.join(['self', *heads])}):", *stores]), scope)
    scope["__init__"].__annotations__ = made.__init__.__annotations__
    scope["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    made.__init__ = scope["__init__"]
    return made


@dataclass_transform(frozen_default=True)
def node(cls: N) -> N:
    """A `record` that computes its hash once: analyses keep indices and conditions as keys."""
    own = "__hash__" in vars(cls)  # asked first: a frozen dataclass is given one
    made = record(cls)
    names, kind = [f.name for f in fields(cast(Any, made))], hash(made.__name__)
    if own:
        return made
    structure = attrgetter(*names)
    keep: Callable[[Any, int], None] = cast(Any, made)._hash.__set__

    def __hash__(self: Any) -> int:
        found: int | None = getattr(self, "_hash", None)  # an exception costs more than the hash
        if found is None:
            found = hash(structure(self)) ^ kind
            keep(self, found)
        return found

    made.__hash__ = __hash__
    return made


# ---------------------------------------------------------------- index


class Index(Node):
    """Integer arithmetic on loop variables and sizes. Operators fold constants and drop neutral elements."""

    __slots__ = ("_hash",)

    def __add__(self, other: IndexLike) -> Index:
        return _add(self, index(other))

    def __radd__(self, other: IndexLike) -> Index:
        return _add(index(other), self)

    def __sub__(self, other: IndexLike) -> Index:
        return _add(self, _mul(Int(-1), index(other)))

    def __rsub__(self, other: IndexLike) -> Index:
        return _add(index(other), _mul(Int(-1), self))

    def __neg__(self) -> Index:
        return _mul(Int(-1), self)

    def __mul__(self, other: IndexLike) -> Index:
        return _mul(self, index(other))

    def __rmul__(self, other: IndexLike) -> Index:
        return _mul(index(other), self)

    def __floordiv__(self, other: IndexLike) -> Index:
        return _floordiv(self, index(other))

    def __mod__(self, other: IndexLike) -> Index:
        return _mod(self, index(other))

    def __xor__(self, other: IndexLike) -> Index:
        return _xor(self, index(other))

    def __rxor__(self, other: IndexLike) -> Index:
        return _xor(index(other), self)

    def __lt__(self, other: IndexLike) -> Cond:
        return Cmp("<", self, index(other))

    def __le__(self, other: IndexLike) -> Cond:
        return Cmp("<=", self, index(other))

    def __gt__(self, other: IndexLike) -> Cond:
        return Cmp("<", index(other), self)

    def __ge__(self, other: IndexLike) -> Cond:
        return Cmp("<=", index(other), self)


IndexLike: TypeAlias = "Index | int"


@node
class Int(Index):
    value: int

    def __hash__(self) -> int:
        return ~hash(self.value)  # cheaper than a tuple's; not the number, which may be a key beside it


@node
class Var(Index):
    """A loop variable or a size; names are unique in a Func."""

    name: str

    def __hash__(self) -> int:
        return ~hash(self.name)


@node
class Add(Index):
    a: Index
    b: Index


@node
class Mul(Index):
    a: Index
    b: Index


@node
class Min(Index):
    a: Index
    b: Index


@node
class Max(Index):
    a: Index
    b: Index


@node
class FloorDiv(Index):
    """Division rounded towards minus infinity, by a positive divisor."""

    a: Index
    b: Index


@node
class Mod(Index):
    """`a - b * (a // b)`, so 0 <= result < b, for a positive divisor."""

    a: Index
    b: Index


@node
class Xor(Index):
    """Bitwise exclusive or, on two's complement; swizzled layouts use it."""

    a: Index
    b: Index


@node
class ValueToIndex(Index):
    """An integer read from memory (a gather, a ragged bound); opaque to analysis."""

    value: Value


def index(x: object) -> Index:
    """`x` as an Index; an int, or what counts as one (`__index__`), becomes an Int."""
    if isinstance(x, Index):
        return x
    if type(x) is int:
        return Int(x)
    if isinstance(x, SupportsIndex) and not isinstance(x, bool):
        return Int(x.__index__())
    raise TypeError(f"{x!r} is not an index; use an int, a loop variable or a size")


def _add(a: Index, b: Index) -> Index:
    if isinstance(a, Int):
        if isinstance(b, Int):
            return Int(a.value + b.value)
        if a.value == 0:
            return b
    if isinstance(b, Int):
        if b.value == 0:
            return a
        if isinstance(a, Add) and isinstance(a.b, Int):
            return _add(a.a, Int(a.b.value + b.value))
    return Add(a, b)


def _mul(a: Index, b: Index) -> Index:
    if isinstance(a, Int):
        if isinstance(b, Int):
            return Int(a.value * b.value)
        if a.value in (0, 1):
            return b if a.value else a
    elif isinstance(b, Int) and b.value in (0, 1):
        return a if b.value else b
    return Mul(a, b)


def _floordiv(a: Index, b: Index) -> Index:
    if isinstance(b, Int):
        if b.value <= 0:
            raise ValueError(f"an index is divided by {b.value}; the divisor has to be positive")
        if isinstance(a, Int):
            return Int(a.value // b.value)
        if b.value == 1:
            return a
    return FloorDiv(a, b)


def _mod(a: Index, b: Index) -> Index:
    if isinstance(b, Int):
        if b.value <= 0:
            raise ValueError(f"an index is taken modulo {b.value}; the divisor has to be positive")
        if isinstance(a, Int):
            return Int(a.value % b.value)
        if b.value == 1:
            return Int(0)
    return Mod(a, b)


def _xor(a: Index, b: Index) -> Index:
    if isinstance(a, Int) and isinstance(b, Int):
        return Int(a.value ^ b.value)
    if a == b:
        return Int(0)
    return b if a == Int(0) else a if b == Int(0) else Xor(a, b)


def minimum(a: IndexLike, b: IndexLike) -> Index:
    """The smaller index, folded where both are constant or equal."""
    a, b = index(a), index(b)
    if isinstance(a, Int) and isinstance(b, Int):
        return Int(min(a.value, b.value))
    return a if a == b else Min(a, b)


def maximum(a: IndexLike, b: IndexLike) -> Index:
    """The larger index, folded where both are constant or equal."""
    a, b = index(a), index(b)
    if isinstance(a, Int) and isinstance(b, Int):
        return Int(max(a.value, b.value))
    return a if a == b else Max(a, b)


def ceildiv(a: IndexLike, b: IndexLike) -> Index:
    """`a / b` rounded up, as `(a + b - 1) // b`."""
    a, b = index(a), index(b)
    return _floordiv(a + (b - 1), b)


FOLDED: dict[type[Index], Callable[[Index, Index], Index]] = {
    Add: _add, Mul: _mul, FloorDiv: _floordiv, Mod: _mod, Min: minimum, Max: maximum, Xor: _xor,
}  # fmt: skip
"""How an index of two others is made so that constants fold."""


def cancel_factors(product: Index, divisor: Index) -> Index | None:
    """`product` without the factors of `divisor`, if it is written with all of them; else None."""
    left = _factors(product)
    for factor in _factors(divisor):
        if factor not in left:
            return None
        left.remove(factor)
    return prod(left, start=Int(1))


def _factors(ix: Index) -> list[Index]:
    return [*_factors(ix.a), *_factors(ix.b)] if isinstance(ix, Mul) else [ix]


# ---------------------------------------------------------------- condition


class Cond(Node):
    """A test on indices."""

    __slots__ = ("_hash",)


@node
class And(Cond):
    """All of `terms`; `And(())` is true."""

    terms: tuple[Cond, ...]


@node
class Or(Cond):
    """Any of `terms`; `Or(())` is false."""

    terms: tuple[Cond, ...]


@node
class Not(Cond):
    term: Cond


@node
class Cmp(Cond):
    """`a op b`; `>` and `>=` are written with the sides exchanged."""

    op: CmpOp
    a: Index
    b: Index


@node
class ValueToCond(Cond):
    """A bool value used as a condition: it depends on data, and is opaque to analysis."""

    value: Value


TRUE, FALSE = And(()), Or(())


def conj(*conds: Cond) -> Cond:
    """All of `conds`, flattened and without repeats; TRUE for none, FALSE if one of them is FALSE."""
    terms: dict[Cond, None] = {}
    for c in conds:
        terms |= dict.fromkeys(conjuncts(c))
    if FALSE in terms:
        return FALSE
    return next(iter(terms)) if len(terms) == 1 else And(tuple(terms))


def conjuncts(cond: Cond) -> tuple[Cond, ...]:
    """The terms of a conjunction, nested ones flattened."""
    if not isinstance(cond, And):
        return (cond,)
    if not any(isinstance(t, And) for t in cond.terms):
        return cond.terms
    return tuple([t for term in cond.terms for t in conjuncts(term)])
