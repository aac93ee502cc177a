"""Indices in LLVM IR: each sum is made once, in the outermost loop that knows all of it.

Copies of a statement that unrolling makes differ in constants alone, and what their addresses share may be common to
all iterations of a loop as well. Spelt where it stands, it is a dozen instructions for each of few that work, and a
third of the time that LLVM takes is to find that out. So a sum is taken apart here into what each loop adds to it: an
address is a chain, a link for each loop, of which the constant comes last and costs an instruction nothing.

Where a link is put may be where its value is not used, as under a test: nothing here traps. What may, or takes a while,
or reads memory, is made where it stands, and so is all that needs it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeAlias

from llvmlite import ir

from loopir.emit import llvm_ops as ops
from loopir.ir.grammar import Add, Cmp, FloorDiv, Index, Int, Max, Min, Mod, Mul, Opaque, Var, Xor

I64 = ir.IntType(64)
HERE = 1 << 30
"""The depth of what is made where it stands."""
Sum: TypeAlias = "tuple[dict[Any, int], int]"
"""What is added up, by how often, and a number."""


@dataclass
class Scope:
    """A body, by its first block, which all of it comes by; and what was made there, by how."""

    block: Any
    made: dict[tuple[Any, ...], Any] = field(default_factory=dict)


class Indices:
    """Spells indices. `spread` puts a scalar into all lanes, `opaque` spells a value as an index."""

    def __init__(self, builder: Any, spread: Callable[[Any], Any], opaque: Callable[[Opaque], Any]) -> None:
        self.b, self.spread, self.opaque = builder, spread, opaque
        self.env: dict[str, Any] = {}
        self.scopes = [Scope(builder.block)]
        self.depths: dict[Any, int] = {}

    # ------------------------------------------------------------ where

    @contextmanager
    def scope(self, *values: Any) -> Iterator[None]:
        """A body that begins here, all of which knows `values`."""
        depth = len(self.scopes)
        self.scopes.append(Scope(self.b.block))
        self.depths.update((v, depth) for v in values)
        yield
        self.scopes.pop()

    def depth(self, v: Any) -> int:
        """The innermost scope that `v` is known in."""
        return 0 if isinstance(v, ir.Constant | ir.Argument) else self.depths.get(v, HERE)

    def made(self, how: tuple[Any, ...], depth: int, make: Callable[[], Any]) -> Any:
        """What `make` makes, in the scope at `depth`, unless it was made so before."""
        if depth == HERE:
            return make()
        scope = self.scopes[depth]
        found = scope.made.get(how)
        if found is None:
            if scope.block is self.b.block:
                found = make()
            else:
                with self.b.goto_block(scope.block):
                    found = make()
            scope.made[how] = found
            self.depths[found] = depth
        return found

    # ------------------------------------------------------------ sums

    def index(self, ix: Index) -> Any:
        """The value of `ix`: a vector, if it differs from lane to lane."""
        return self.total(*self.sum(ix))

    def sum(self, ix: Index) -> Sum:
        """`ix` taken apart."""
        terms, number = taken_apart(ix)
        out: dict[Any, int] = {}
        for part, n in terms:
            v = self.env[part.name] if isinstance(part, Var) else self.other(part)
            if isinstance(v, ir.Constant) and v.type is I64:
                number += n * v.constant
            else:
                out[v] = out.get(v, 0) + n
        return out, number

    def other(self, ix: Index) -> Any:
        match ix:
            case Mul(a, b):
                return self.joined("mul", self.index(a), self.index(b))
            case Xor(a, b):
                return self.joined("xor", self.index(a), self.index(b))
            case FloorDiv(a, b) | Mod(a, b):
                return self.divided(self.index(a), self.index(b), isinstance(ix, Mod))
            case Min(a, b) | Max(a, b):
                return self.chosen("<" if isinstance(ix, Min) else ">", self.index(a), self.index(b))
            case Opaque():
                return self.opaque(ix)
            case _:
                raise TypeError(f"{type(ix).__name__} is no index")

    def total(self, terms: dict[Any, int], number: int = 0) -> Any:
        """A sum as one value: what the outer loops add first, numbers and lanes last."""
        out = None
        for v, n in sorted(terms.items(), key=self._order):
            out = self.plus(out, self.times(v, n)) if n else out
        if out is None:
            return _word(number)
        return self.plus(out, _word(number)) if number else out

    def _order(self, term: tuple[Any, int]) -> int:
        return 2 * HERE if is_vector(term[0]) else self.depth(term[0])

    def times(self, v: Any, n: int) -> Any:
        return v if n == 1 else self.joined("mul", v, _word(n))

    def plus(self, x: Any, y: Any) -> Any:
        return y if x is None else self.joined("add", x, y)

    def joined(self, how: str, x: Any, y: Any) -> Any:
        """x and y by an operation that never traps. It may wrap: terms were taken out of what does not."""
        x, y = self.alike(x, y)
        return self.made((how, _key(x), _key(y)), self.both(x, y), partial(getattr(self.b, how), x, y))

    def chosen(self, how: str, x: Any, y: Any) -> Any:
        x, y = self.alike(x, y)

        def make() -> Any:
            return self.b.select(self.b.icmp_signed(how, x, y), x, y)

        return self.made((how, "of", _key(x), _key(y)), self.both(x, y), make)

    def divided(self, x: Any, y: Any, remainder: bool) -> Any:
        x, y = self.alike(x, y)
        depth = self.both(x, y) if isinstance(y, ir.Constant) else HERE
        make = partial(ops.floor_division, self.b, x, y, remainder=remainder)
        return self.made(("%" if remainder else "//", _key(x), _key(y)), depth, make)

    def both(self, x: Any, y: Any) -> int:
        return HERE if is_vector(x) else max(self.depth(x), self.depth(y))

    def alike(self, *args: Any) -> tuple[Any, ...]:
        """All scalars, or all vectors."""
        return tuple(map(self.spread, args)) if any(map(is_vector, args)) else args

    # ------------------------------------------------------------ tests and addresses

    def test(self, c: Cmp) -> Any:
        """Whether `c` holds; numbers are all on one side, where they are taken off."""
        (x, m), (y, n) = self.sum(c.a), self.sum(c.b)
        least = min(m, n)
        if not x or not y:
            least = m if not y else n
        a, b = self.alike(self.total(x, m - least), self.total(y, n - least))
        return self.made((c.op, _key(a), _key(b)), self.both(a, b), partial(self.b.icmp_signed, c.op, a, b))

    def address(self, pointer: Any, element: Any, ix: Index) -> Any:
        """Where the element `ix`, the same in all lanes, of what begins at `pointer` lies."""
        terms, number = self.sum(ix)
        links: dict[int, Any] = {}
        for v, n in terms.items():
            if n:
                depth = self.depth(v)
                links[depth] = self.plus(links.get(depth), self.times(v, n))
        for depth in sorted(links):
            pointer = self.offset(pointer, element, links[depth])
        return self.offset(pointer, element, _word(number)) if number else pointer

    def offset(self, pointer: Any, element: Any, by: Any) -> Any:
        depth = max(self.depth(pointer), self.depth(by))
        make = partial(self.b.gep, pointer, [by], source_etype=element)
        return self.made(("at", pointer, _key(by)), depth, make)


@lru_cache(maxsize=4096)
def taken_apart(ix: Index) -> tuple[tuple[tuple[Index, int], ...], int]:
    """What is added up in `ix`, by how often, and a number: copies of a statement have the same parts."""
    match ix:
        case Int(value):
            return (), value
        case Add(a, b):
            (x, c), (y, d) = taken_apart(a), taken_apart(b)
            out = dict(x)
            for part, n in y:
                out[part] = out.get(part, 0) + n
            return tuple((part, n) for part, n in out.items() if n), c + d
        case Mul(a, Int(n)) | Mul(Int(n), a):
            terms, number = taken_apart(a)
            return tuple((part, m * n) for part, m in terms if n), number * n
        case _:
            return ((ix, 1),), 0


def is_vector(v: Any) -> bool:
    return v is not None and isinstance(v.type, ir.VectorType)


def _word(n: int) -> Any:
    """A number as 64 bits hold it."""
    return ir.Constant(I64, (n + (1 << 63)) % (1 << 64) - (1 << 63))


def _key(v: Any) -> Any:
    """What tells `v` from other values; a constant's own hash spells it."""
    return v.constant if isinstance(v, ir.Constant) and v.type is I64 else v
