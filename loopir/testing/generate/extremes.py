"""Programs whose guards and subscripts are made of sizes, numbers from memory and constants near the ends of integers.

Indices are exact in the language, and compiled code counts in 64 bits: it has to give what the interpreter gives, or to
refuse in words. Nothing here is large but the numbers: no loop has more than a few iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from loopir.ir.dtypes import BY_NAME, Array, int32
from loopir.ir.grammar import (
    And,
    Arg,
    Buffer,
    Cmp,
    Cond,
    Const,
    Func,
    If,
    Index,
    IndexToValue,
    Int,
    Load,
    Loop,
    Not,
    Select,
    Size,
    Stmt,
    Store,
    ValueToIndex,
    Var,
    maximum,
    minimum,
)
from loopir.ir.verify.verify import verify

EDGES = (1 << 31, 1 << 32, 1 << 62, 1 << 63, 1 << 64)
TYPES = ("int32", "uint32", "int64", "uint64")


@st.composite
def edge(draw: st.DrawFn, *, least: int = -(1 << 65)) -> int:
    """A number near 0, a few thousand, or near an end of some integers."""
    near = draw(st.sampled_from((0, 0, 0, 3000, *EDGES)))
    number = draw(st.sampled_from((1, -1))) * near + draw(st.integers(-3, 3))
    return number if number >= least else abs(number)


@dataclass(frozen=True)
class Extreme:
    """A program, its arrays but for the output, and the sizes that no array tells."""

    func: Func
    arrays: dict[str, Array]
    sizes: dict[str, int]


@st.composite
def extremes(draw: st.DrawFn) -> Extreme:
    """A nest over a short array, tests and subscripts in it, and what to call it with."""
    made = _Extremes(draw)
    func = made.func()
    verify(func)
    n = draw(st.integers(0, 4))
    arrays = {"A": np.arange(1, n + 1, dtype=np.int32)}
    for b in made.read:
        limits = np.iinfo(b.dtype.numpy)
        values = [min(max(draw(edge()), int(limits.min)), int(limits.max)) for _ in range(n)]
        arrays[b.name] = np.array(values, b.dtype.numpy)
    return Extreme(func, arrays, {"m": draw(edge(least=0)), "k": draw(edge(least=0))})


class _Extremes:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.n, self.i = Var("n"), Var("i")
        self.out, self.source = Buffer("Y", (self.n,), int32), Buffer("A", (self.n,), int32)
        types = draw(st.lists(st.sampled_from(TYPES), max_size=2))
        self.read = [Buffer(f"p{k}", (self.n,), BY_NAME[t]) for k, t in enumerate(types)]

    def func(self) -> Func:
        args = (*(Arg(b, "in") for b in (self.source, *self.read)), Arg(self.out, "out"))
        body = (self.store("first", Const(0, int32)), self.statement())
        return Func("f", (Size("n"), Size("m"), Size("k"), *args), (), (Loop("i", self.n, "serial", body),))

    def store(self, label: str, value: Any) -> Store:
        return Store(label, self.out, (self.i,), value)

    def statement(self) -> Stmt:
        at = self.index(2)
        inside = And((Cmp("<=", Int(0), at), Cmp("<", at, self.n)))
        kind = self.draw(st.integers(0, 3))
        if kind == 0:
            return If(inside, (self.store("second", Load(self.source, (at,))),), ())
        if kind == 1:
            return self.store("second", Select(self.cond(), Const(1, int32), Const(2, int32)))
        if kind == 2:
            return self.store("second", IndexToValue(at % self.draw(st.integers(1, 9)), int32))
        return If(
            self.cond(), (self.store("second", Load(self.source, (self.i,))),), (self.store("third", Const(7, int32)),)
        )

    def cond(self) -> Cond:
        c = Cmp(self.draw(st.sampled_from(("<", "<=", "==", "!="))), self.index(3), self.index(1))
        return Not(c) if self.draw(st.booleans()) else c

    def index(self, depth: int) -> Index:
        if depth == 0 or self.draw(st.integers(0, 4)) == 0:
            leaves: list[Index] = [self.i, self.n, Var("m"), Var("k"), Int(self.draw(edge()))]
            leaves += [ValueToIndex(Load(b, (self.i,))) for b in self.read]
            return self.draw(st.sampled_from(leaves))
        a, b = self.index(depth - 1), self.index(depth - 1)
        positive = max(1, abs(self.draw(edge())))
        kind = self.draw(st.integers(0, 7))
        if kind < 4:
            return (a + b, a - b, a * b, a * b)[kind]
        return (minimum(a, b), maximum(a, b), a // positive, a % positive)[kind - 4]
