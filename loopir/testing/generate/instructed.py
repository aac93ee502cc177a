"""Programs that hold what an instruction does: its nest in a loop, on parts of arrays or on memory of its own kind."""

from __future__ import annotations

import re
from functools import cache
from math import prod

from hypothesis import strategies as st

import loopir.intrinsics  # noqa: F401  (registers the instructions)
from loopir.ir.grammar import Arg, Func, Int
from loopir.ir.ops import INSTRUCTIONS, MEMORIES
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.testing.generate.draws import between, choose, lines

USUAL_ELEMENTS, MAX_ELEMENTS = 64, 2048
"""Elements of an operand that are run again and again mostly, and ever."""
OWN = ("shared", "local", "fragment")
"""Memory that an instruction may want its operands in, and that a program has to allocate."""


@st.composite
def instructed(draw: st.DrawFn) -> Func:
    """A program around the nest of some instruction, mostly a small one, that repeats it on one part after another."""
    small = [n for n in _usable() if _iterations(n) <= USUAL_ELEMENTS]
    fn = INSTRUCTIONS[choose(draw, small if draw(between(0, 7)) else _usable())]
    n, tiles = draw(between(1, 3)), draw(st.booleans())
    _, _, body = text(fn.meaning).partition("):\n")  # a long signature takes several lines
    operands = [_Operand(a, n, tiles) for a in fn.meaning.args]
    for x in operands:
        body = body if x.own else x.moved(body)
    own = [x for x in operands if x.own]
    deep = " " * (12 if own else 8)
    return parse(
        lines(
            f"def instructed({', '.join(x.declared for x in operands)}):",
            f"    for part in range({n}):",
            *([f"        with {', '.join(x.allocated for x in own)}:"] if own else []),
            *(deep + line for line in _filled_or_drained(own, "fill", "out")),
            *(deep + line[4:] for line in body.splitlines()),
            *(deep + line for line in _filled_or_drained(own, "drain", "in")),
        )
    )


class _Operand:
    """What an operand is in the program: parts of an array, or memory of its own kind that is filled from one, or
    drained to one. Parts follow one another in the last dimension, if `tiles`, or in a first one."""

    def __init__(self, a: Arg, parts: int, tiles: bool) -> None:
        b = a.buffer
        self.name, self.type, self.scope, self.access = b.name, b.dtype.name, b.scope, a.access
        self.shape = [x.value for x in b.shape if isinstance(x, Int)]
        self.own = b.scope in OWN
        self.array = f"{b.name}_all" if self.own else b.name
        self.run = self.shape[-1] if tiles and self.shape else None
        self.dims = [parts, *self.shape] if self.run is None else [*self.shape[:-1], parts * self.run]

    @property
    def declared(self) -> str:
        access = "" if self.access == "in" else f"{self.access} "
        return f'{self.array}: "{access}{self.type}{self.dims}"'

    @property
    def allocated(self) -> str:
        return f'alloc("{self.type}{self.shape}", scope="{self.scope}") as {self.name}'

    def place(self, at: list[str]) -> str:
        """Where the array has element `at` of the operand of this part."""
        moved = ["part", *at] if self.run is None else [*at[:-1], f"part * {self.run} + {at[-1]}"]
        return f"{self.array}[{', '.join(moved)}]"

    def moved(self, body: str) -> str:
        """`body` with each element of the operand where the array has it."""
        return re.sub(
            rf"\b{self.name}\[([^\]]*)\]",
            lambda m: self.place([] if m.group(1) == "()" else m.group(1).split(", ")),
            body,
        )

    def copy(self, what: str) -> list[str]:
        """A nest that copies the operand from its array, to fill it, or to it."""
        vs = [f"{self.name}_{what}_{d}" for d in range(len(self.shape))]
        here, there = f"{self.name}[{', '.join(vs) or '()'}]", self.place(vs)
        label = f'"{self.name}_{what}"'
        out = [f"{'    ' * d}for {v} in range({self.shape[d]}):" for d, v in enumerate(vs)]
        store = f"{here}: {label} = {there}" if what == "fill" else f"{there}: {label} = {here}"
        return [*out, "    " * len(vs) + store]


def _filled_or_drained(own: list[_Operand], what: str, but: str) -> list[str]:
    """Nests that fill or drain all of `own` but those of one access."""
    return [line for x in own if x.access != but for line in x.copy(what)]


@cache
def _usable() -> list[str]:
    """Instructions on memory that there is by itself, in which no more is done than can be run."""
    return [
        n
        for n, fn in INSTRUCTIONS.items()
        if _iterations(n) <= MAX_ELEMENTS and all(map(_plain_array, fn.meaning.args))
    ]


def _plain_array(a: Arg) -> bool:
    return a.buffer.scope not in MEMORIES and all(isinstance(x, Int) for x in a.buffer.shape)


def _iterations(name: str) -> int:
    """About as many as the elements that an instruction touches."""
    shapes = [a.buffer.shape for a in INSTRUCTIONS[name].meaning.args]
    return max((prod(x.value for x in shape if isinstance(x, Int)) for shape in shapes), default=1)
