"""Programs whose values are indices: what a simplifier makes of an index is seen in what the program stores.

A nest of one or two loops stores quotients, remainders, minima and sums of its loops and of a size, under guards that
a simplifier may use. Everything is an integer, so a wrong rule shows at the first point where it matters.
"""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.dtypes import int32
from loopir.ir.grammar import (
    And,
    Arg,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    IndexToValue,
    Int,
    Loop,
    Not,
    Or,
    Select,
    Size,
    Stmt,
    Store,
    Value,
    Var,
    maximum,
    minimum,
)
from loopir.ir.verify.verify import verify
from loopir.testing.generate.draws import Drawer


@st.composite
def index_values(draw: st.DrawFn, *, depth: int = 3) -> Func:
    """A Func that stores random indices, `depth` operations deep, and nothing else."""
    func = _Indices(draw, depth).func()
    verify(func)
    return func


class _Indices(Drawer):
    def __init__(self, draw: st.DrawFn, depth: int) -> None:
        self.draw, self.depth = draw, depth
        self.names: list[str] = []
        self.labels = 0

    def func(self) -> Func:
        symbolic = self.one_in(3)
        loops = [Loop(v, self.extent(symbolic), "serial", ()) for v in self.pick("i", "ij")]
        self.names = [*(x.var for x in loops), *(("n",) if symbolic else ())]
        outs = [Buffer(name, tuple(x.extent for x in loops), int32) for name in self.pick("Y", "YZW")]
        body: Body = tuple(s for out in outs for s in self.body(out, loops))
        for x in reversed(loops):
            body = (Loop(x.var, x.extent, "serial", body),)
        return Func("f", (*((Size("n"),) if symbolic else ()), *(Arg(b, "inout") for b in outs)), (), body)

    def extent(self, symbolic: bool) -> Index:
        constants = (Int(4), Int(6), Int(3), Int(8))
        return self.pick(Var("n"), *constants) if symbolic else self.pick(*constants)

    def body(self, out: Buffer, loops: list[Loop]) -> Body:
        if self.one_in(3):
            v, c = Var(self.pick(*self.names)), self.pick(2, 1, 3)
            cond = Cmp(self.pick("<", "<="), v, Int(c)) if self.one_in(2) else self.cond()
            return (If(cond, (self.store(out, loops, v, c),), (self.store(out, loops, v, c),)),)
        return (self.store(out, loops),)

    def store(self, out: Buffer, loops: list[Loop], v: Index | None = None, c: int = 0) -> Stmt:
        """A store; near a guard that compares `v` with `c` maybe of what the guard decides."""
        self.labels += 1
        label = f"{out.name}_{self.labels}"
        value = self.value()
        if v is not None and self.one_in(2):
            value = IndexToValue(self.pick(minimum, maximum)(v, c + self.pick(1, 0, -1)), int32)
        return Store(label, out, tuple(Var(x.var) for x in loops), value)

    def value(self) -> Value:
        if self.one_in(4):
            return Select(self.cond(), IndexToValue(self.end(), int32), IndexToValue(self.end(), int32))
        return IndexToValue(self.index(self.depth), int32)

    def end(self) -> Index:
        a, b = self.linear(), self.pick(Int(2), Int(1), Int(3), Int(4), self.linear())
        return self.pick(minimum(a, b), maximum(a, b))

    def linear(self) -> Index:
        v = Var(self.pick(*self.names))
        w = Var(self.pick(*self.names))
        return self.pick(
            v, v, v + self.pick(1, 2, -1), v * self.pick(2, 3, 4, 6), v * self.pick(2, 4, -1) + w, self.pick(3, 1) - v
        )

    def index(self, depth: int) -> Index:
        kind = self.draw(st.integers(0, 9)) if depth else 0
        if kind == 0:
            return self.linear() + self.pick(0, 0, 1, -1, 3)
        if kind == 9:
            return self.end()
        a = self.index(min(depth, 2) - 1) if kind > 4 else self.linear()
        c, d = self.pick(2, 4, 3), self.pick(2, 3)
        if kind in (1, 2, 5):
            return self.pick(a // c, a % c, a // c // d, a % (c + 1) % c, a % (c * d) % c, a % (c * d) // c)
        if kind in (3, 6):  # a tile, and the place in it: what fused and split loops are made of
            return a // c * (c * self.pick(1, 2)) + a % c * self.pick(1, 1, 2)
        if kind in (4, 7):
            return self.pick((a * c) % (c * d), (a * c + 1) // (c * d), (a * c) // c, (a + c) % c, (a - 1) // c)
        b = self.index(depth - 2 if depth > 1 else 0)
        return self.pick(a + b, a - b)

    def cond(self, depth: int = 1) -> Cond:
        kind = self.draw(st.integers(0, 5)) if depth else 0
        if kind == 4:
            return Not(self.cond(depth - 1))
        if kind == 5:
            return self.pick(And, Or)((self.cond(depth - 1), self.cond(depth - 1)))
        v = Var(self.pick(*self.names))
        left, right = self.pick(v, v, self.linear()), self.pick(Int(self.pick(1, 2, 3, 0)), self.linear())
        return Cmp(self.pick("<", "<=", "==", "!="), left, right)
