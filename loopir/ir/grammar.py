"""The language: every node of the loop-nest IR, as immutable data.

Three sorts never mix by accident: an `Index` is integer arithmetic on loop variables and sizes, a `Cond` is
a test on indices, a `Value` is what buffers hold. The only bridges are named: `Of` takes an index or a
condition into values, `Opaque` and `Truth` take a value into an index or a condition, where no analysis can
see through it.

    func   = Func(name n, param* params, cond* assumes, stmt* body)
    param  = Size(var v) | Arg(buffer b, access in|out|inout)
    buffer = Buffer(name n, index* shape, dtype t, scope s, layout? l)
    scope  = global | shared | local
    layout = Strided(index* strides) | Mapped(name* dims, index at)
    stmt   = Loop(name v, index extent, kind k, stmt* body)              -- v runs over 0 .. extent-1
           | Store(label n, buffer b, index* at, value v)
           | Reduce(label n, buffer* b, index* at, monoid m, value* v, name* over, value*? init)
           | Alloc(buffer b, stmt* body)                                 -- lifetime = body
           | If(cond c, stmt* then, stmt* orelse)
           | Kernel(name n, stmt* body) | Barrier()                      -- made by lowering
    kind   = serial | parallel | vectorize | unroll | blockIdx.x ... | threadIdx.x ...
    index  = Int | Var | Add | Mul | Min | Max | FloorDiv | Mod | Opaque(value)
    cond   = And(cond*) | Or(cond*) | Not(cond) | Cmp(op, index, index) | Truth(value)
    value  = Const | Load(buffer, index*) | Of(index|cond, dtype) | Cast(value, dtype) | Select(cond, a, b)
           | Op(intrinsic f, value*) | Param(name, dtype)                -- Param: only inside a monoid

Meaning, in one paragraph. Loops run in order, whatever their kind: `parallel`, `vectorize` and the bound
kinds are promises, proved when they are made, that the order does not matter in that way. A `Reduce` with
`init` sets its elements to `init` when the outermost loop in `over` is entered, even for no iterations at
all, and then folds `v` in by the monoid; without `init` it folds into what is there. Only inside a `Kernel`
do bound loops run as hardware threads, with the `Barrier`s that lowering placed. Arithmetic on indices is
exact; `//` and `%` round towards minus infinity and their right side is positive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, SupportsIndex, TypeAlias

from loopir.ir.dtypes import DType, bool_
from loopir.ir.ops import Intrinsic

Scope = Literal["global", "shared", "local"]
Access = Literal["in", "out", "inout"]
CmpOp = Literal["<", "<=", "==", "!="]
BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
AXES = BLOCK_AXES + THREAD_AXES
KINDS = ("serial", "parallel", "vectorize", "unroll", *AXES)
SCOPES: tuple[Scope, ...] = ("global", "shared", "local")


class Node:
    """Base of everything below: frozen, compared by structure."""

    __slots__ = ()


# ---------------------------------------------------------------- index


class Index(Node):
    """Integer arithmetic on loop variables and sizes. Operators fold constants and drop neutral elements."""

    __slots__ = ()

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

    def __lt__(self, other: IndexLike) -> Cond:
        return Cmp("<", self, index(other))

    def __le__(self, other: IndexLike) -> Cond:
        return Cmp("<=", self, index(other))

    def __gt__(self, other: IndexLike) -> Cond:
        return Cmp("<", index(other), self)

    def __ge__(self, other: IndexLike) -> Cond:
        return Cmp("<=", index(other), self)


IndexLike: TypeAlias = "Index | int"


@dataclass(frozen=True, slots=True)
class Int(Index):
    value: int


@dataclass(frozen=True, slots=True)
class Var(Index):
    """A loop variable or a size; names are unique in a Func."""

    name: str


@dataclass(frozen=True, slots=True)
class Add(Index):
    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class Mul(Index):
    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class Min(Index):
    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class Max(Index):
    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class FloorDiv(Index):
    """Division rounded towards minus infinity, by a positive divisor."""

    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class Mod(Index):
    """`a - b * (a // b)`, so 0 <= result < b, for a positive divisor."""

    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class Opaque(Index):
    """An integer read from memory (a gather, a ragged bound): no analysis looks inside."""

    value: Value


def index(x: object) -> Index:
    """`x` as an Index; an int, or what counts as one (`__index__`), becomes an Int."""
    if isinstance(x, Index):
        return x
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
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Int):
            if isinstance(y, Int):
                return Int(x.value * y.value)
            if x.value == 0:
                return Int(0)
            if x.value == 1:
                return y
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


# ---------------------------------------------------------------- condition


class Cond(Node):
    """A test on indices."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class And(Cond):
    """All of `terms`; `And(())` is true."""

    terms: tuple[Cond, ...]


@dataclass(frozen=True, slots=True)
class Or(Cond):
    """Any of `terms`; `Or(())` is false."""

    terms: tuple[Cond, ...]


@dataclass(frozen=True, slots=True)
class Not(Cond):
    term: Cond


@dataclass(frozen=True, slots=True)
class Cmp(Cond):
    """`a op b`; `>` and `>=` are written with the sides exchanged."""

    op: CmpOp
    a: Index
    b: Index


@dataclass(frozen=True, slots=True)
class Truth(Cond):
    """A bool value used as a condition: depends on data, no analysis looks inside."""

    value: Value


TRUE, FALSE = And(()), Or(())


def conj(*conds: Cond) -> Cond:
    """All of `conds`, flattened and without repeats; TRUE for none, FALSE if one of them is FALSE."""
    terms: dict[Cond, None] = {}
    for c in conds:
        for t in c.terms if isinstance(c, And) else (c,):
            terms[t] = None
    if FALSE in terms:
        return FALSE
    return next(iter(terms)) if len(terms) == 1 else And(tuple(terms))


def conjuncts(cond: Cond) -> tuple[Cond, ...]:
    """The terms that all have to hold."""
    return cond.terms if isinstance(cond, And) else (cond,)


# ---------------------------------------------------------------- value


class Value(Node):
    """A scalar of an element type. Every Value has a `.dtype`."""

    __slots__ = ()

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
        object.__setattr__(self, "value", math.nan if value != value else value)

    @property
    def dtype(self) -> DType:
        return self.type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and (repr(self.value), self.type) == (repr(other.value), other.type)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.type))


@dataclass(frozen=True, slots=True)
class Load(Value):
    buffer: Buffer
    at: tuple[Index, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Of(Value):
    """An index, or a condition, as a value."""

    of: Index | Cond
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Cast(Value):
    """Conversion. Float to integer truncates, saturates, and takes NaN to 0; to a narrower integer wraps."""

    value: Value
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Select(Value):
    """`a` where `cond` holds, else `b`; the other side is not evaluated, so it may be out of bounds."""

    cond: Cond
    a: Value
    b: Value

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@dataclass(frozen=True, slots=True)
class Op(Value):
    fn: Intrinsic
    args: tuple[Value, ...]

    @property
    def dtype(self) -> DType:
        return bool_ if self.fn.result == "bool" else self.args[0].dtype


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


# ---------------------------------------------------------------- buffers and statements


@dataclass(frozen=True, slots=True)
class Strided(Node):
    """Element `at` lies at `sum(at[d] * strides[d])`, in elements."""

    strides: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Mapped(Node):
    """Element `dims` lies at `at`, an injective index over `dims`: packing, padding, swizzles."""

    dims: tuple[str, ...]
    at: Index


Layout: TypeAlias = "Strided | Mapped"


@dataclass(frozen=True, slots=True)
class Buffer(Node):
    """A multi-dimensional array of `dtype`; row-major and dense unless it has a `layout`."""

    name: str
    shape: tuple[Index, ...]
    dtype: DType
    scope: Scope = "global"
    layout: Layout | None = None


class Stmt(Node):
    __slots__ = ()


Body: TypeAlias = "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class Loop(Stmt):
    """`var` runs over 0 .. extent-1."""

    var: str
    extent: Index
    kind: str
    body: Body


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    label: str
    buffer: Buffer
    at: tuple[Index, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class Reduce(Stmt):
    """Fold `values` into element `at` of `buffers` by `monoid`, over the loops named in `over`."""

    label: str
    buffers: tuple[Buffer, ...]
    at: tuple[Index, ...]
    monoid: Monoid
    values: tuple[Value, ...]
    over: tuple[str, ...] = ()
    init: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True)
class Alloc(Stmt):
    """A buffer that lives for `body` and starts uninitialised; inside a loop, a new one every iteration."""

    buffer: Buffer
    body: Body


@dataclass(frozen=True, slots=True)
class If(Stmt):
    cond: Cond
    then: Body
    orelse: Body = ()


@dataclass(frozen=True, slots=True)
class Kernel(Stmt):
    """One launch. Inside, loops bound to an axis are that axis' threads and barriers are explicit."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class Barrier(Stmt):
    """All threads of a block meet here, and see each other's writes."""


# ---------------------------------------------------------------- functions


@dataclass(frozen=True, slots=True)
class Size(Node):
    """A symbolic size: a parameter that shapes and extents may use."""

    name: str

    @property
    def var(self) -> Var:
        return Var(self.name)


@dataclass(frozen=True, slots=True)
class Arg(Node):
    buffer: Buffer
    access: Access


@dataclass(frozen=True, slots=True)
class Func(Node):
    """A program: sizes and arrays in, a nest of loops, arrays out. `assumes` are facts about the sizes."""

    name: str
    params: tuple[Size | Arg, ...]
    assumes: tuple[Cond, ...]
    body: Body

    @property
    def sizes(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params if isinstance(p, Size))

    @property
    def args(self) -> tuple[Arg, ...]:
        return tuple(p for p in self.params if isinstance(p, Arg))

    def outputs(self) -> Iterator[Buffer]:
        """The buffers that the caller sees change."""
        return (a.buffer for a in self.args if a.access != "in")
