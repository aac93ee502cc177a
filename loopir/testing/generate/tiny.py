"""Tiny programs: a nest or two over a few cells that every statement touches, where dependences are dense.

`strategies.funcs` draws what people may write; these draw what breaks rules. All arrays are read and written, offsets
are 0 to 2, reversed or diagonal, and whatever is drawn is in bounds, as every dimension has room for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from loopir.intrinsics.ops.monoids import MONOIDS
from loopir.ir.dtypes import float32
from loopir.ir.grammar import (
    Alloc,
    Arg,
    Body,
    Buffer,
    Cmp,
    Cond,
    Const,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Op,
    Reduce,
    Select,
    Size,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.walk import take_name
from loopir.ir.verify.verify import verify
from loopir.testing.generate.draws import Drawer

Often = Literal["never", "some", "always"]
Mostly = Literal["stores", "folds", "starts", "digits", "mirrored"]
MAX_EXTENT, ROOM = 3, 2
"""The most iterations of a loop of constant extent, and by how much a dimension is longer."""


@st.composite
def tiny(
    draw: st.DrawFn,
    *,
    nests: int = 2,
    depth: int = 2,
    guards: bool = True,
    temporaries: Often = "some",
    mostly: Mostly = "stores",
) -> Func:
    """A Func of up to `nests` nests, up to `depth` loops deep, around one or two statements each.

    `guards` allows conditions around statements and in values; `temporaries` says how often there is memory of its own,
    which a nest fills before others use it; a third of the statements are folds, or, if `mostly` says so, two thirds.
    With `mostly` "starts", most of these have a first value, with "digits", elements are counted by two loops, the tile
    and the place in it, and with "mirrored", most run against a loop.
    """
    func = _Tiny(draw, nests, depth, guards, temporaries, mostly).func()
    verify(func)
    return func


@st.composite
def windows(draw: st.DrawFn) -> Func:
    """A stage and one that reads a few neighbours of each of its elements: what sliding windows and rings are made for.

    The first may be turned round, written in part, or folded; the second reads it forwards or backwards.
    """

    pick = Drawer(draw).pick
    symbolic, own = pick(False, True), pick(True, True, False)
    count: Index = Var("n") if symbolic else Int(MAX_EXTENT)
    room = Buffer("A", (count + ROOM,), float32)
    stage, out = Buffer("T", (count + ROOM,), float32), Buffer("X", (count + ROOM,), float32)
    i, j, k = Var("i"), Var("j"), Var("k")
    rows = count + ROOM if own else count
    at = pick(i, rows - 1 - i) if own else i + pick(0, 1, 2)
    made: Stmt = Store("T", stage, (at,), Op(REGISTRY["add"], (Load(room, (i,)), Const(1.0, float32))))
    if pick(False, False, True):
        value = Op(REGISTRY["add"], (Load(room, (k,)), Load(room, (i,))))
        made = Reduce("T", (stage,), (at,), MONOIDS["sum"]((float32,)), (value,), ("k",), (Const(5.0, float32),))
        made = Loop("k", Int(2), "serial", (made,))
    seen = [Load(stage, (pick(j, count - 1 - j) + pick(0, 1, 2),)) for _ in range(pick(2, 1))]
    read = Op(REGISTRY["add"], (seen[0], seen[-1])) if len(seen) > 1 else seen[0]
    use: Stmt = Store("X", out, (j,), read)
    if pick(False, False, True):
        use = Reduce("X", (out,), (pick(j, Int(0)),), MONOIDS["sum"]((float32,)), (read,), ())
    body: Body = (Loop("i", rows, "serial", (made,)), Loop("j", count, "serial", (use,)))
    body = (Alloc(stage, body),) if own else body
    args = (Arg(room, "in"), *(() if own else (Arg(stage, "inout"),)), Arg(out, "inout"))
    func = Func("f", ((Size("n"),) if symbolic else ()) + args, (), body)
    verify(func)
    return func


@dataclass
class _Tiny(Drawer):
    nests: int
    depth: int
    guards: bool
    temporaries: Often
    mostly: Mostly
    symbolic: bool = False
    arrays: list[Buffer] = field(default_factory=list[Buffer])
    inputs: list[Buffer] = field(default_factory=list[Buffer])
    taken: set[str] = field(default_factory=lambda: {"n"})
    labels: set[str] = field(default_factory=set[str])
    loops: tuple[Loop, ...] = ()

    @property
    def folding(self) -> bool:
        return self.mostly in ("folds", "starts")

    @property
    def digits(self) -> bool:
        return self.mostly == "digits"

    def name(self, hint: str) -> str:
        return take_name(hint, self.taken)

    # ------------------------------------------------------------ declarations

    def func(self) -> Func:
        self.symbolic = self.one_in(2) and not self.digits
        self.arrays = [self.buffer(x) for x in self.pick("X", "XY")]
        self.inputs = [self.buffer("A", 1)]
        args = (*(Arg(b, "inout") for b in self.arrays), *(Arg(b, "in") for b in self.inputs))
        count = self.draw(st.integers(1, self.nests))
        own = self.temporaries == "always" or (self.temporaries == "some" and self.one_in(3))
        body = self.with_temporary(count) if own else tuple(self.nest(self.depth) for _ in range(count))
        sizes = (Size("n"),) if self.symbolic else ()
        return Func("f", (*sizes, *args), (), body)

    def buffer(self, hint: str, rank: int | None = None) -> Buffer:
        dim = Var("n") + ROOM if self.symbolic else Int(MAX_EXTENT + ROOM)
        return Buffer(self.name(hint), (dim,) * (self.pick(1, 1, 2) if rank is None else rank), float32)

    def with_temporary(self, count: int) -> Body:
        """A buffer that one nest fills and others use."""
        b = self.buffer("T")
        full = self.fill(b)
        self.arrays.append(b)
        rest = tuple(self.nest(self.depth) for _ in range(count))
        return (Alloc(b, (full, *rest)),)

    def fill(self, b: Buffer) -> Stmt:
        heads = [Loop(self.name("i"), d, "serial", ()) for d in b.shape]
        self.loops = tuple(heads)
        at: list[Index] = [Var(x.var) for x in heads]
        if self.one_in(3):
            at[0] = heads[0].extent - 1 - Var(heads[0].var)
        a = self.inputs[0]
        value = Op(REGISTRY["add"], (Load(a, (Var(heads[-1].var),)), Const(1.0, float32)))
        made: Stmt = Store(self.label(b), b, tuple(at), value)
        for x in reversed(heads):
            made = Loop(x.var, x.extent, "serial", (made,))
        self.loops = ()
        return made

    def label(self, b: Buffer) -> str:
        label = take_name(b.name, self.labels)
        return label

    # ------------------------------------------------------------ nests

    def nest(self, depth: int) -> Stmt:
        var = self.name("ijklmpqr"[len(self.loops)])
        sizes: tuple[Index, ...] = (Var("n"), Var("n") - 1) if self.symbolic else (Int(MAX_EXTENT), Int(2), Int(1))
        if self.digits:
            sizes = (Int(MAX_EXTENT),) if self.loops else (Int(2),)
        outer = tuple(Var(x.var) + 1 for x in self.loops) if self.one_in(6) else ()
        extent = self.pick(*sizes, *outer)
        around = self.loops
        self.loops = (*around, Loop(var, extent, "serial", ()))
        body = self.body(depth - 1)
        self.loops = around
        return Loop(var, extent, "serial", body)

    def body(self, depth: int) -> Body:
        if depth and not self.one_in(3):
            inner: Body = (self.nest(depth),)
            if self.guards and self.one_in(5):
                inner = (If(self.cond(), inner),)
            return (self.leaf(), *inner) if self.one_in(5) else inner
        leaves = tuple(self.leaf() for _ in range(1 + self.one_in(3)))
        if self.guards and self.one_in(5):
            return (If(self.cond(), leaves, (self.leaf(),) if self.one_in(3) else ()),)
        return leaves

    def leaf(self) -> Stmt:
        b = self.pick(*self.arrays)
        if self.one_in(3) != self.folding:
            return self.fold(b)
        return Store(self.label(b), b, self.at(b, self.loops), self.value())

    def fold(self, b: Buffer) -> Stmt:
        start = self.draw(st.integers(0, len(self.loops) - 1))
        inner = [x.var for x in self.loops[start:]]
        over = tuple(v for v in inner if v == inner[0] or self.one_in(2))
        free = tuple(x for x in self.loops if x.var not in over and not self.bound_by(x, over))
        begins = (self.mostly == "starts" or self.one_in(2)) and not any(
            self.bound_by(x, over) for x in self.loops if x.var not in over
        )
        init = (Const(float(self.pick(5, 0)), float32),) if begins else None
        monoid = MONOIDS[self.pick(*(("sum", "max") if self.folding else ("sum", "sum", "max")))]((float32,))
        return Reduce(self.label(b), (b,), self.at(b, free), monoid, (self.value(),), over, init)

    def bound_by(self, x: Loop, names: tuple[str, ...]) -> bool:
        return any(x.extent == Var(v) + 1 for v in names)

    def at(self, b: Buffer, loops: tuple[Loop, ...]) -> tuple[Index, ...]:
        return tuple(self.index(loops) for _ in b.shape)

    def index(self, loops: tuple[Loop, ...]) -> Index:
        if not loops or self.one_in(5):
            return Int(self.pick(0, 1))
        if self.digits and len(loops) > 1 and not self.one_in(3):
            return Var(loops[0].var) * 2 + Var(loops[1].var)
        x = self.pick(*reversed(loops))
        v = Var(x.var)
        if self.mostly == "mirrored" and not self.one_in(3):
            return x.extent - 1 - v + self.pick(0, 1)
        forms: list[Index] = [v, v + 1, v + 2, x.extent - 1 - v, v // 2, v % 2]
        others = [Var(y.var) for y in loops if y is not x]
        if not self.symbolic:
            forms += [v * 2, *(v + w for w in others)]
            forms += [v * 2 + w for w in others if x.extent in (Int(1), Int(2))] * 3
        return self.pick(v, v, *forms)

    def value(self) -> Value:
        kind = self.draw(st.integers(0, 5))
        read = self.read()
        if kind < 3:
            return Op(REGISTRY["add"], (read, Const(1.0, float32)))
        if kind == 3 and self.guards:
            return Select(self.cond(), read, self.read())
        return Op(REGISTRY["add"], (read, self.read())) if kind == 4 else read

    def read(self) -> Value:
        b = self.pick(*self.arrays, *self.inputs * (3 if self.folding else 1))
        return Load(b, self.at(b, self.loops))

    def cond(self) -> Cond:
        x = Var(self.pick(*reversed(self.loops)).var)
        other = Var(self.pick(*self.loops).var)
        c = Int(self.pick(1, 2))
        return self.pick(Cmp("<", x, c), Cmp("<=", c, x), Cmp("==", x % 2, Int(0)), Cmp("<", x + other, c + 1))
