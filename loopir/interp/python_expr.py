"""Generate Python for indices and conditions, for the interpreter and for the host function.

Subclasses define the names of variables, minimum and maximum, the check of divisors, and reads from memory. Python
allows 20 nested blocks, so deeper ones are put into functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from loopir.errors import literal
from loopir.ir.grammar import (
    Add,
    And,
    Cmp,
    Cond,
    FloorDiv,
    Index,
    Int,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
)

DEEPEST = 16
"""Levels of indentation from which on a function is begun."""


class PythonLines:
    """A program under construction: its lines, and the variables bound at the next one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: list[str] = []
        self.apart: list[str] = []
        self.parts = 0

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    @contextmanager
    def inside(self, *names: str) -> Generator[None]:
        """Where these variables are bound, too."""
        self.scope += names
        yield
        del self.scope[len(self.scope) - len(names) :]

    def called(self, write: Callable[[], None]) -> str:
        """A call of a function of all that is bound here, in which stand the lines that `write` emits at depth 1."""
        around, self.lines = self.lines, []
        self.parts += 1
        call = f"lp_part_{self.parts}({', '.join(dict.fromkeys(self.scope))})"
        self.emit(0, f"def {call}:")
        write()
        self.apart += self.lines
        self.lines = around
        return call

    def joined(self) -> str:
        return "\n".join([*self.apart, *self.lines, ""])


class PythonExpr:
    """Generates indices and conditions, with Python's own names unless a subclass has others."""

    smaller, larger = "min", "max"

    def variable(self, name: str) -> str:
        return name

    def checked(self, divisor: Index) -> str:
        """A divisor that is no number, which may turn out not to be positive."""
        return self.index(divisor)

    def from_memory(self, part: ValueToIndex | ValueToCond) -> str:
        raise TypeError(f"{type(part).__name__} has no value here")

    def index(self, ix: Index) -> str:
        match ix:
            case Int(value):
                return literal(value) if value >= 0 else f"({literal(value)})"
            case Var(name):
                return self.variable(name)
            case Add(a, b):
                return f"({self.index(a)} + {self.index(b)})"
            case Mul(a, b):
                return f"({self.index(a)} * {self.index(b)})"
            case FloorDiv(a, b):
                return f"({self.index(a)} // {self._divisor(b)})"
            case Mod(a, b):
                return f"({self.index(a)} % {self._divisor(b)})"
            case Xor(a, b):
                return f"({self.index(a)} ^ {self.index(b)})"
            case Min(a, b):
                return f"{self.smaller}({self.index(a)}, {self.index(b)})"
            case Max(a, b):
                return f"{self.larger}({self.index(a)}, {self.index(b)})"
            case ValueToIndex():
                return self.from_memory(ix)
            case _:
                raise TypeError(f"{type(ix).__name__} is no index")

    def _divisor(self, b: Index) -> str:
        return literal(b.value) if isinstance(b, Int) else self.checked(b)

    def cond(self, c: Cond) -> str:
        match c:
            case And(terms):
                return "(" + (" and ".join(map(self.cond, terms)) or "True") + ")"
            case Or(terms):
                return "(" + (" or ".join(map(self.cond, terms)) or "False") + ")"
            case Not(term):
                return f"(not {self.cond(term)})"
            case Cmp(op, a, b):
                return f"({self.index(a)} {op} {self.index(b)})"
            case ValueToCond():
                return self.from_memory(c)
            case _:
                raise TypeError(f"{type(c).__name__} is no condition")
