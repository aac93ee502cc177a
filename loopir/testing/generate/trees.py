"""Expressions and programs of any form that verifies, sensible or not: for what must take every tree.

`anything()` draws a Func with every node of the language, unfolded and unsimplified, lowered forms included. It need
not run: its accesses go where they like. `loopir.testing.generate.strategies` has programs that do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import reject, strategies as st

import loopir.intrinsics  # noqa: F401  (registers the operations)
from loopir.errors import VerifyError
from loopir.ir.dtypes import ALL_DTYPES, DType, bool_
from loopir.ir.grammar import (
    AXES,
    Add,
    Alloc,
    And,
    Arg,
    Barrier,
    Body,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    FloorDiv,
    Func,
    If,
    Index,
    IndexToValue,
    Int,
    Kernel,
    Layout,
    Load,
    Loop,
    Mapped,
    Max,
    Min,
    Mod,
    Monoid,
    Mul,
    Not,
    Op,
    Or,
    Param,
    Reduce,
    Scope,
    Select,
    Size,
    Stmt,
    Store,
    Strided,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
)
from loopir.ir.ops import MONOIDS, REGISTRY
from loopir.ir.traverse.walk import take_name
from loopir.ir.verify.verify import verify
from loopir.testing.generate.draws import Drawer, between

T = TypeVar("T")
_FLOATS = (0.0, -0.0, 1.0, -2.0, 0.1, 1e-30, 3e38, math.inf, -math.inf, math.nan)
_BITS = ("any", "all")
_SUMS = {"float": ("sum", "max"), "int": ("prod", "min", *_BITS), "uint": ("sum", "min", *_BITS), "bool": _BITS}


@st.composite
def anything(draw: st.DrawFn, *, dtypes: Sequence[DType] = ALL_DTYPES, lowered: bool = False) -> Func:
    """A Func that verifies; with `lowered`, one that has kernels and barriers."""
    func = _Trees(draw, tuple(dtypes), lowered=lowered).func()
    try:
        verify(func, "lowered" if lowered else "schedule")
    except VerifyError:  # seldom, as of a fold that starts outside a loop that its element depends on
        reject()
    return func


@st.composite
def indices(draw: st.DrawFn, names: Sequence[str], buffers: Sequence[Buffer] = (), depth: int = 3) -> Index:
    """An index over the variables `names` and the integers in `buffers`, of any form."""
    return _Trees(draw, ALL_DTYPES, variables=list(names), buffers=list(buffers)).index(depth)


@st.composite
def conditions(draw: st.DrawFn, names: Sequence[str], buffers: Sequence[Buffer] = (), depth: int = 3) -> Cond:
    """A condition over the variables `names` and the elements of `buffers`, of any form."""
    return _Trees(draw, ALL_DTYPES, variables=list(names), buffers=list(buffers)).cond(depth)


@st.composite
def values(draw: st.DrawFn, t: DType, names: Sequence[str], buffers: Sequence[Buffer] = (), depth: int = 3) -> Value:
    """A value of type `t` over the variables `names` and the elements of `buffers`, of any form."""
    return _Trees(draw, ALL_DTYPES, variables=list(names), buffers=list(buffers)).value(t, depth)


@dataclass
class _Trees(Drawer):
    dtypes: tuple[DType, ...]
    variables: list[str] = field(default_factory=list[str])
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    lowered: bool = False
    loops: list[str] = field(default_factory=list[str])
    fixed: set[str] = field(default_factory=set[str])
    """Arguments that may not be written."""
    level: dict[str, int] = field(default_factory=dict[str, int])
    """How many loops are around the allocation of a buffer."""
    params: tuple[Param, ...] = ()
    names: set[str] = field(default_factory=lambda: {"f"})
    labels: set[str] = field(default_factory=set[str])
    axes: tuple[str, ...] = ()
    in_kernel: bool = False

    def name(self, *hints: str) -> str:
        name = take_name(self.pick(*hints), self.names)
        return name

    # ------------------------------------------------------------ expressions

    def index(self, depth: int = 2) -> Index:
        leaf = self.draw(between(0, 9)) if depth else 0
        if leaf < 4:
            number = Int(self.pick(0, 1, -1, 2, -3, 7, 64))
            return self.pick(number, *map(Var, self.variables))
        integers = [b for b in self.buffers if b.dtype.is_integer]
        if leaf == 4 and integers:
            return ValueToIndex(self.load(self.pick(*integers), depth - 1))
        if leaf == 5 and integers:
            return ValueToIndex(self.value(self.pick(*integers).dtype, depth - 1))
        make = self.pick(Add, Add, Mul, Mul, Min, Max, FloorDiv, Mod, Xor)
        a = self.index(depth - 1)
        if make in (FloorDiv, Mod):
            return make(a, Int(self.pick(1, 2, 5)))
        return make(a, self.index(depth - 1))

    def cond(self, depth: int = 2) -> Cond:
        kind = self.pick("cmp", *(("and", "or", "not", "truth") if depth else ()))
        match kind:
            case "and" | "or":
                terms = tuple(self.cond(depth - 1) for _ in range(self.pick(2, 3, 0)))
                return And(terms) if kind == "and" else Or(terms)
            case "not":
                return Not(self.cond(depth - 1))
            case "truth":
                return ValueToCond(self.value(bool_, depth - 1))
            case _:
                return Cmp(self.pick("<", "<=", "==", "!="), self.index(depth), self.index(depth))

    def load(self, b: Buffer, depth: int) -> Load:
        return Load(b, tuple(self.index(max(depth, 0)) for _ in b.shape))

    def const(self, t: DType) -> Const:
        if t.kind == "bool":
            return Const(self.draw(st.booleans()), t)
        if t.is_float:
            return Const(self.pick(*(x for x in _FLOATS if t.has_infinity or not abs(x) > 1e3)), t)
        return Const(self.pick(0, 1, 100, 2**t.bits - 1 if t.kind == "uint" else -(2 ** (t.bits - 1))), t)

    def value(self, t: DType, depth: int = 2) -> Value:
        same: list[Value] = [p for p in self.params if p.type == t]
        stored = [b for b in self.buffers if b.dtype == t] if not self.params else []
        kind = self.draw(between(0, 8)) if depth else self.draw(between(0, 1))
        if kind == 0 and (same or stored):
            return self.pick(*same) if same else self.load(self.pick(*stored), depth - 1)
        if kind <= 1:
            return self.const(t)
        if kind == 2 and not self.params:
            return IndexToValue(self.index(depth - 1) if self.draw(st.booleans()) else self.cond(depth - 1), t)
        if kind == 3:
            return Cast(self.value(self.pick(*self.dtypes), depth - 1), t)
        if kind == 4 and not self.params:
            return Select(self.cond(depth - 1), self.value(t, depth - 1), self.value(t, depth - 1))
        return self.op(t, depth)

    def op(self, t: DType, depth: int) -> Value:
        pure = (f for f in REGISTRY.values() if f.lane is None)
        fns = [f for f in pure if (t.kind in f.kinds if f.result == "same" else t.kind == "bool")]
        fn = self.pick(*fns)
        taken = t if fn.result == "same" else self.pick(*[d for d in self.dtypes if d.kind in fn.kinds] or [t])
        if taken.kind not in fn.kinds:
            return self.const(t)
        return Op(fn, tuple(self.value(taken, depth - 1) for _ in range(fn.arity)))

    # ------------------------------------------------------------ declarations

    def func(self) -> Func:
        self.variables = [self.name("n", "m", "size_1") for _ in range(self.draw(between(0, 2)))]
        params: list[Size | Arg] = [Size(n) for n in self.variables]
        for _ in range(self.draw(between(1, 3))):
            b = self.buffer("global")
            access: Any = self.pick("in", "out", "inout")
            params.append(Arg(b, access))
            self.buffers.append(b)
            self.fixed |= {b.name} if access == "in" else set()
        buffers, self.buffers = self.buffers, []
        assumes = tuple(self.cond(2) for _ in range(self.draw(between(0, 2))))
        self.buffers = buffers
        body = self.body(0)
        return Func("f", tuple(params), assumes, body)

    def buffer(self, scope: Scope) -> Buffer:
        rank = self.draw(between(0, 3))
        layout: Layout | None = None
        if self.pick(False, False, True):
            shape: tuple[Index, ...] = tuple(Int(self.draw(between(0, 3))) for _ in range(rank))
            layout = self.layout(rank)
        else:
            buffers, self.buffers, loops = self.buffers, [], self.variables
            self.variables = [v for v in loops if v not in self.loops]
            shape = tuple(self.pick(Int(4), Int(3), *map(Var, self.variables), self.index(1)) for _ in range(rank))
            shape = tuple(Int(abs(d.value)) if isinstance(d, Int) else d for d in shape)
            self.buffers, self.variables = buffers, loops
        return Buffer(self.name("A", "B", "sum", "exp"), shape, self.pick(*self.dtypes), scope, layout)

    def layout(self, rank: int) -> Layout:
        if self.draw(st.booleans()):
            return Strided(tuple(Int(5**d) for d in range(rank)))
        dims = tuple(f"d{n}" for n in range(rank))
        at: Index = Int(2)
        for d in dims:
            at = Add(Mul(at, Int(3)), Var(d))
        return Mapped(dims, at)

    # ------------------------------------------------------------ statements

    def body(self, depth: int) -> Body:
        return tuple(self.stmt(depth) for _ in range(self.draw(between(0 if depth else 1, 2))))

    def stmt(self, depth: int) -> Stmt:
        inner = ("loop", "loop", "if", "alloc", "kernel", "barrier") if depth < 4 else ()
        match self.pick("leaf", *inner):
            case "loop":
                return self.loop(depth)
            case "if":
                return If(self.cond(), self.body(depth + 1), self.body(depth + 1))
            case "alloc":
                b = self.buffer(self.pick("global", "shared", "local"))
                self.level[b.name] = len(self.loops)
                return Alloc(b, self.within(self.buffers, b, lambda: self.body(depth + 1)))
            case "kernel" if self.lowered and not self.in_kernel:
                self.in_kernel = True
                body = self.body(depth + 1)
                self.in_kernel = False
                return Kernel(self.name("k0", "k1"), body)
            case "barrier" if self.in_kernel:
                return Barrier()
            case _:
                return self.leaf()

    def within(self, known: list[T], one: T, inner: Callable[[], Body]) -> Body:
        known.append(one)
        body = inner()
        known.pop()
        return body

    def loop(self, depth: int) -> Stmt:
        kind = self.pick("serial", "parallel", "vectorize", "unroll", *(a for a in AXES if a not in self.axes))
        extent = Int(self.draw(between(0, 5))) if kind in ("vectorize", "unroll") else self.index()
        var = self.name("i", "j", "max", "label")
        axes = self.axes
        self.axes = (*axes, kind)
        body = self.within(self.variables, var, lambda: self.within(self.loops, var, lambda: self.body(depth + 1)))
        self.axes = axes
        return Loop(var, extent, kind, body)

    def leaf(self) -> Stmt:
        free = [b for b in self.buffers if b.name not in self.fixed]
        if not free:
            return If(self.cond(), ())
        b = self.pick(*free)
        if self.draw(st.booleans()):
            return Store(self.label(b), b, self.load(b, 2).at, self.value(b.dtype, 3))
        return self.reduce(b, [x for x in free if x.shape == b.shape and x != b])

    def label(self, b: Buffer) -> str:
        label = take_name(self.pick(b.name, b.name, "s", "B_1", "not a name!"), self.labels)
        return label

    def reduce(self, b: Buffer, others: list[Buffer]) -> Stmt:
        buffers = (b, self.pick(*others)) if others and self.draw(st.booleans()) else (b,)
        start = self.draw(st.integers(max(self.level.get(x.name, 0) for x in buffers), len(self.loops)))
        over = tuple(self.loops[start:])
        variables, known = self.variables, self.buffers
        self.variables = [v for v in variables if v not in over]
        self.buffers = [x for x in known if self.level.get(x.name, 0) <= start]
        at = self.load(b, 1).at
        init = tuple(self.value(x.dtype, 1) for x in buffers) if self.draw(st.booleans()) else None
        self.variables, self.buffers = variables, known
        values = tuple(self.value(x.dtype, 2) for x in buffers)
        atomic = len(buffers) == 1 and self.draw(st.booleans())
        return Reduce(self.label(b), buffers, at, self.monoid(buffers), values, over, init, atomic)

    def monoid(self, buffers: tuple[Buffer, ...]) -> Monoid:
        types = tuple(b.dtype for b in buffers)
        if len(types) == 1 and self.draw(st.booleans()):
            return MONOIDS[self.pick(*_SUMS[types[0].kind])](types)
        sides = [tuple(Param(f"{side}{n}", t) for n, t in enumerate(types)) for side in "ab"]
        self.params = sides[0] + sides[1]
        combine = tuple(self.value(t) for t in types)
        self.params = ()
        identity = tuple(map(self.const, types))
        return Monoid(self.name("fold", "merge"), sides[0], sides[1], combine, identity)
