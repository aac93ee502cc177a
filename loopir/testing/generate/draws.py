"""Drawing one of several things, and whole numbers: by strategies that are made once. Holes of a text, filled so.

Making and checking a strategy costs Hypothesis more than drawing from it, and a program is hundreds of draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


@cache
def between(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers from `low` to `high`, which shrink to the one nearest to 0.

    They are drawn from 0 on: from bytes, as campaigns draw, older versions of Hypothesis reach no number above
    2**bits(high - low), so that they drew nothing from 2 to 3.
    """
    if low == 0:
        return st.integers(0, high)
    return st.integers(0, high - low).map(sorted(range(low, high + 1), key=abs).__getitem__)


def choose(draw: st.DrawFn, options: Sequence[T]) -> T:
    """One of `options`; the first is the simplest."""
    return options[draw(between(0, len(options) - 1))]


@dataclass
class Drawer:
    """Draws one of several things, yes or no, and now and then."""

    draw: st.DrawFn

    def pick(self, *options: T) -> T:
        return choose(self.draw, options)

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def one_in(self, count: int) -> bool:
        """True once in `count` times; shrinks to False."""
        return self.draw(between(0, count - 1)) == count - 1

    def rarely(self) -> bool:
        """True about once in six times; shrinks to False."""
        return self.one_in(6)


@dataclass
class Draws(Drawer):
    """Draws what goes into the holes of a text; `types` and `symbolic` are what the caller wants."""

    types: tuple[str, ...]
    symbolic: bool
    largest: int

    def number(self, low: int, high: int) -> int:
        return self.draw(between(low, high))

    def type(self) -> str:
        return self.pick(*self.types)

    def size(self, name: str) -> tuple[str, str]:
        """A size as it is declared, if it is symbolic, and as it is spoken of."""
        if self.symbolic and self.chance():
            return f'{name}: "size", ', name
        return "", str(self.number(1, self.largest))

    def value(self, *loads: str, t: str = "float32") -> str:
        """Something of what is read, with a number of the type `t`."""
        first, *more = loads
        out = first
        for other in more:
            out = self.pick(f"{out} + {other}", f"{out} * {other}", f"maximum({out}, {other})", f"{out} - {other}")
        number = f"{self.number(1, 3)}{'.0' if t.startswith('float') else ''}"
        return self.pick(out, f"{out} + {number}", f"({out}) * {number}")


def lines(*parts: str) -> str:
    return "\n".join(parts) + "\n"


def zero(t: str) -> str:
    return "0.0" if t.startswith("float") else "0"


def loop_order(d: Draws, loops: dict[str, str], depth: int) -> tuple[str, int]:
    """Loops in any order, as text, and how deep they are."""
    order = list(d.draw(st.permutations(sorted(loops))))
    text = "\n".join(f"{'    ' * (depth + n)}for {v} in range({loops[v]}):" for n, v in enumerate(order))
    return text, depth + len(order)
