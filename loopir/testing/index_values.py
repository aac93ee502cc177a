"""Programs whose values are indices: what a simplifier makes of an index is seen in what the program stores.

A nest of one or two loops stores quotients, remainders, minima and sums of its loops and of a size, under guards that
a simplifier may use. Everything is an integer, so a wrong rule shows at the first point where it matters.
"""

from __future__ import annotations

from typing import TypeVar

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
    Int,
    Loop,
    Not,
    Of,
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
from loopir.ir.verify import verify

T = TypeVar("T")


@st.composite
def index_values(draw: st.DrawFn, *, depth: int = 4) -> Func:
    """A Func that stores random indices, `depth` operations deep, and nothing else."""
    func = _Indices(draw, depth).func()
    verify(func)
    return func


class _Indices:
    def __init__(self, draw: st.DrawFn, depth: int) -> None:
        self.draw, self.depth = draw, depth
        self.names: list[str] = []
        self.labels = 0

    def pick(self, *options: T) -> T:
        return self.draw(st.sampled_from(options))

    def flip(self, one_in: int) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def func(self) -> Func:
        symbolic = self.flip(3)
        loops = [Loop(v, self.extent(symbolic), "serial", ()) for v in self.pick("i", "ij")]
        self.names = [*(x.var for x in loops), *(("n",) if symbolic else ())]
        out = Buffer("Y", tuple(x.extent for x in loops), int32)
        body: Body = self.body(out, loops)
        for x in reversed(loops):
            body = (Loop(x.var, x.extent, "serial", body),)
        return Func("f", (*((Size("n"),) if symbolic else ()), Arg(out, "inout")), (), body)

    def extent(self, symbolic: bool) -> Index:
        constants = (Int(4), Int(3), Int(5), Int(2), Int(6))
        return self.pick(Var("n"), *constants) if symbolic else self.pick(*constants)

    def body(self, out: Buffer, loops: list[Loop]) -> Body:
        if self.flip(3):
            return (If(self.cond(), (self.store(out, loops),), (self.store(out, loops),)),)
        return (self.store(out, loops),)

    def store(self, out: Buffer, loops: list[Loop]) -> Stmt:
        self.labels += 1
        label = "Y" if self.labels == 1 else f"Y_{self.labels - 1}"
        return Store(label, out, tuple(Var(x.var) for x in loops), self.value())

    def value(self) -> Value:
        if self.flip(4):
            return Select(self.cond(), Of(self.index(self.depth), int32), Of(self.index(self.depth), int32))
        return Of(self.index(self.depth), int32)

    def index(self, depth: int) -> Index:
        if depth == 0 or self.flip(6):
            v = Var(self.pick(*self.names))
            ends = (minimum(v, self.pick(1, 2, 3)), maximum(v, self.pick(1, 2, 3)))
            return self.pick(
                v, v, *ends, v * self.pick(2, 3, 4), v + self.pick(1, -1, 2, -2), Int(self.pick(0, 1, 2, 5))
            )
        a = self.index(depth - 1)
        kind = self.draw(st.integers(0, 7))
        if kind < 2:
            return a // self.pick(2, 4, 3, 6)
        if kind < 4:
            return a % self.pick(2, 4, 3, 6)
        if kind == 4:
            return a * self.pick(2, 4, 3, -1) + self.pick(0, 1, -1)
        b = self.index(min(depth - 1, 1))
        return self.pick(a + b, a - b, minimum(a, b), maximum(a, b)) if kind < 7 else self.split(a)

    def split(self, a: Index) -> Index:
        """A tile, and the place in it, and digits of these: what fused and split loops are made of."""
        c, d = self.pick(2, 3), self.pick(2, 1, 3)
        return self.pick(a // c * (c * d) + a % c, a % (c * d) // c, a // d // c)

    def cond(self, depth: int = 1) -> Cond:
        kind = self.draw(st.integers(0, 5)) if depth else 0
        if kind == 4:
            return Not(self.cond(depth - 1))
        if kind == 5:
            return self.pick(And, Or)((self.cond(depth - 1), self.cond(depth - 1)))
        v = Var(self.pick(*self.names))
        left, right = self.pick(v, self.index(1)), self.pick(Int(self.pick(1, 2, 3, 0)), self.index(0))
        return Cmp(self.pick("<", "<=", "==", "!="), left, right)
