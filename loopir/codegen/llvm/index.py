"""Emit indices in LLVM IR with loop-invariant parts hoisted: each term of a sum in the outermost loop that defines it.

The addresses of unrolled copies differ only in constants, and their common part is often loop-invariant. Emitted in
place, an address takes a dozen instructions, and finding the common parts is a third of LLVM's compile time. So a sum
is split here into the terms that each loop adds: an address is a chain with one link for each loop, and the constant
last, where the addressing mode makes it free.

A hoisted link may be computed where it is not used, as under a test, so links never trap. What may trap, is expensive,
or reads memory is emitted in place, and so is everything that depends on it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from loopir.codegen.llvm import ops
from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import I8, I64, Block, Constant, Operand, Type, like, listed, vector, word
from loopir.ir.dtypes import int64
from loopir.ir.grammar import Add, Cmp, FloorDiv, Index, Int, Max, Min, Mod, Mul, Value, ValueToIndex, Var, Xor
from loopir.ir.magnitude import MARGIN, is_unsigned
from loopir.ir.traverse.free_vars import is_affine_visible
from loopir.ir.traverse.memo import memoized

UNSIGNED = {"<": "ult", "<=": "ule", "==": "eq", "!=": "ne"}
ORDERS = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
FEW_LANES = 16
"""Of 32 bits, a vector of them is one register."""
MOST_LANES = 64
LOCAL_DEPTH = 1 << 30
"""The depth of what is made where it stands."""
Sum: TypeAlias = "tuple[dict[Operand, int], int]"
"""What is added up, by how often, and a number."""


@dataclass
class Scope:
    """The body of a loop, by its first block, which dominates it; and the values already emitted there."""

    block: Block
    made: dict[tuple[object, ...], Operand] = field(default_factory=dict[tuple[object, ...], Operand])


class Narrow(Protocol):
    """Emits what differs from lane to lane in 32 bits, or gives None where they may not hold it."""

    def part(self, ix: Index) -> Operand | None: ...

    def test(self, c: Cmp, order: str) -> Operand | None: ...


class Indices:
    """Emits indices. `spread` broadcasts a scalar to all lanes, `number` emits an integer value in 64 bits."""

    def __init__(
        self, builder: Builder, spread: Callable[[Operand], Operand], number: Callable[[Value], Operand]
    ) -> None:
        self.b, self.spread, self.number = builder, spread, number
        self.env: dict[str, Operand] = {}
        self.scopes = [Scope(builder.block)]
        self.depths: dict[Operand, int] = {}
        self.narrow: Narrow | None = None

    # ------------------------------------------------------------ where

    @contextmanager
    def scope(self, *values: Operand) -> Iterator[None]:
        """A body that begins here, all of which knows `values`."""
        depth = len(self.scopes)
        self.scopes.append(Scope(self.b.block))
        self.depths.update((v, depth) for v in values)
        yield
        self.scopes.pop()

    def depth(self, v: Operand) -> int:
        """The innermost scope that `v` is known in."""
        return 0 if isinstance(v, Constant) else self.depths.get(v, LOCAL_DEPTH)

    def made(self, how: tuple[object, ...], depth: int, make: Callable[[], Operand]) -> Operand:
        """What `make` makes, in the scope at `depth`, unless it was made so before."""
        if depth == LOCAL_DEPTH:
            return make()
        scope = self.scopes[depth]
        found = scope.made.get(how)
        if found is None:
            if scope.block is self.b.block:
                found = make()
            else:
                with self.b.at(scope.block):
                    found = make()
            scope.made[how] = found
            self.depths[found] = depth
        return found

    # ------------------------------------------------------------ sums

    def index(self, ix: Index) -> Operand:
        """The value of `ix`: a vector, if it differs from lane to lane."""
        return self.total(*self.sum(ix))

    def sum(self, ix: Index) -> Sum:
        """`ix` taken apart."""
        terms, number = taken_apart(ix)
        out: dict[Operand, int] = {}
        for part, n in terms:
            v = self.env[part.name] if isinstance(part, Var) else self.other(part)
            if isinstance(v, Constant) and v.number is not None:
                number += n * int(v.number)
            else:
                out[v] = out.get(v, 0) + n
        return out, number

    def other(self, ix: Index) -> Operand:
        narrow = self.narrow.part(ix) if self.narrow is not None else None
        if narrow is not None:
            return self.b.cast("sext", narrow, like(narrow, I64))
        match ix:
            case Mul(a, b):
                return self.joined("mul", self.index(a), self.index(b))
            case Xor(a, b):
                return self.joined("xor", self.index(a), self.index(b))
            case FloorDiv(ValueToIndex(value) as a, b) | Mod(ValueToIndex(value) as a, b) if is_unsigned(a):
                return self.unsigned_division(self.number(value), self.index(b), isinstance(ix, Mod))
            case FloorDiv(a, b) | Mod(a, b):
                return self.divided(self.index(a), self.index(b), isinstance(ix, Mod))
            case Min(a, b) | Max(a, b):
                return self.chosen("slt" if isinstance(ix, Min) else "sgt", self.index(a), self.index(b))
            case ValueToIndex(value):
                found = self.number(value)
                return ops.clipped(self.b, found) if is_unsigned(ix) else found
            case _:
                raise TypeError(f"{type(ix).__name__} is no index")

    def total(self, terms: dict[Operand, int], number: int = 0) -> Operand:
        """A sum as one value: what the outer loops add first, numbers and lanes last."""
        out: Operand | None = None
        for v, n in sorted(terms.items(), key=self._order):
            out = self.plus(out, self.times(v, n)) if n else out
        if out is None:
            return word(number)
        return self.plus(out, word(number)) if number else out

    def _order(self, term: tuple[Operand, int]) -> int:
        return 2 * LOCAL_DEPTH if is_vector(term[0]) else self.depth(term[0])

    def times(self, v: Operand, n: int) -> Operand:
        return v if n == 1 else self.joined("mul", v, word(n))

    def plus(self, x: Operand | None, y: Operand) -> Operand:
        return y if x is None else self.joined("add", x, y)

    def joined(self, how: str, x: Operand, y: Operand) -> Operand:
        """x and y by an operation that never traps. It may wrap: terms were taken out of what does not."""
        x, y = self.alike(x, y)
        return self.made((how, _key(x), _key(y)), self.both(x, y), partial(self.b.op, how, x, y))

    def chosen(self, how: str, x: Operand, y: Operand) -> Operand:
        x, y = self.alike(x, y)

        def make() -> Operand:
            return self.b.select(self.b.icmp(how, x, y), x, y)

        return self.made((how, "of", _key(x), _key(y)), self.both(x, y), make)

    def divided(self, x: Operand, y: Operand, remainder: bool) -> Operand:
        x, y = self.alike(x, _not_zero(y))
        depth = self.both(x, y) if isinstance(y, Constant) else LOCAL_DEPTH
        make = partial(ops.floor_division, self.b, x, y, remainder=remainder)
        return self.made(("%" if remainder else "//", _key(x), _key(y)), depth, make)

    def unsigned_division(self, x: Operand, y: Operand, remainder: bool) -> Operand:
        """x // y or x % y of an unsigned x and a positive y; a quotient that is no int64 is the largest one."""
        x, y = self.alike(x, _not_zero(y))
        if not ops.is_splat(y):
            y = self.b.select(self.b.icmp("sgt", y, 0), y, 1)
        out = self.b.division("urem" if remainder else "udiv", x, y)
        return out if remainder else ops.clipped(self.b, out)

    def both(self, x: Operand, y: Operand) -> int:
        return LOCAL_DEPTH if is_vector(x) else max(self.depth(x), self.depth(y))

    def alike(self, *args: Operand) -> tuple[Operand, ...]:
        """All scalars, or all vectors."""
        return tuple(map(self.spread, args)) if any(map(is_vector, args)) else args

    # ------------------------------------------------------------ tests and addresses

    def test(self, c: Cmp) -> Operand:
        """Whether `c` holds; numbers are all on one side, where they are taken off if no side can wrap by that."""
        if isinstance(c.a, ValueToIndex) and isinstance(c.b, ValueToIndex) and is_unsigned(c.a) and is_unsigned(c.b):
            left, right = self.alike(self.number(c.a.value), self.number(c.b.value))
            return self.b.icmp(UNSIGNED[c.op], left, right)
        if self.narrow is not None and (found := self.narrow.test(c, ORDERS[c.op])) is not None:
            return found
        (x, m), (y, n) = self.sum(c.a), self.sum(c.b)
        if (counted := self._lane_test(c.op, (x, m), (y, n))) is not None:
            return counted
        least = min(m, n)
        if not x or not y:
            least = m if not y else n
        if abs(least) > MARGIN or not (is_affine_visible(c.a) and is_affine_visible(c.b)):
            least = 0
        a, b = self.alike(self.total(x, m - least), self.total(y, n - least))
        return self.made((c.op, _key(a), _key(b)), self.both(a, b), partial(self.b.icmp, ORDERS[c.op], a, b))

    def _lane_test(self, op: str, left: Sum, right: Sum) -> Operand | None:
        """Whether many lanes' numbers, and what all share, are so to one another: compared with the difference of what
        is shared, in bytes, as no lane is beyond MOST_LANES of it. None if the sides are anything else."""
        (x, m), (y, n) = left, right
        varying = {v: x.get(v, 0) - y.get(v, 0) for v in (*x, *y) if is_vector(v)}
        lanes, times = next(iter(varying.items()), (word(0), 0))
        if len(varying) != 1 or abs(times) != 1 or not FEW_LANES < lanes.type.count <= MOST_LANES:
            return None
        if lanes is not listed(lanes.type, range(lanes.type.count)):
            return None
        a, b = (self.total({v: k for v, k in s.items() if v is not lanes}, c) for s, c in ((x, m), (y, n)))
        far = self._difference(b, a) if times > 0 else self._difference(a, b)
        count = lanes.type.count
        near = self.b.select(self.b.icmp("slt", far, count), far, count)
        near = self.b.select(self.b.icmp("sgt", near, -1), near, -1)
        limit = self.b.spread(self.b.cast("trunc", near, I8), count)
        numbers = listed(vector(I8, count), range(count))
        return self.b.icmp(ORDERS[op], *((numbers, limit) if times > 0 else (limit, numbers)))

    def _difference(self, x: Operand, y: Operand) -> Operand:
        """x - y of scalars, or the nearest number of 64 bits."""
        if isinstance(y, Constant) and y.number == 0:
            return x
        return ops.spell(self.b, "llvm.ssub.sat", (x, y), int64)

    def address(self, pointer: Operand, element: Type, ix: Index) -> Operand:
        """Where the element `ix`, the same in all lanes, of what begins at `pointer` lies."""
        terms, number = self.sum(ix)
        if terms:
            depth = max(self.depth(pointer), *map(self.depth, terms))
            pointer = self.made(("chain", pointer, *terms.items()), depth, partial(self.chain, pointer, element, terms))
        return self.offset(pointer, element, word(number)) if number else pointer

    def chain(self, pointer: Operand, element: Type, terms: dict[Operand, int]) -> Operand:
        """Where that lies, by a link for each loop."""
        links: dict[int, Operand] = {}
        for v, n in terms.items():
            if n:
                depth = self.depth(v)
                links[depth] = self.plus(links.get(depth), self.times(v, n))
        for depth in sorted(links):
            pointer = self.offset(pointer, element, links[depth])
        return pointer

    def offset(self, pointer: Operand, element: Type, by: Operand) -> Operand:
        depth = max(self.depth(pointer), self.depth(by))
        make = partial(self.b.gep if isinstance(by, Constant) else self.b.link, element, pointer, by)
        return self.made(("at", pointer, _key(by)), depth, make)


@memoized
def taken_apart(ix: Index) -> tuple[tuple[tuple[Index, int], ...], int]:
    """`ix` as a linear combination: terms with coefficients, and a constant; unrolled copies share the terms."""
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


def value_at(ix: Index, var: str, value: int) -> int | None:
    """What `ix` is where `var` is `value`; None if it speaks of anything else."""
    match ix:
        case Int(n):
            return n
        case Var(name):
            return value if name == var else None
        case Add(a, b) | Mul(a, b) | Min(a, b) | Max(a, b) | FloorDiv(a, b) | Mod(a, b):
            x, y = value_at(a, var, value), value_at(b, var, value)
            return None if x is None or y is None else _COMBINED[type(ix)](x, y)
        case _:
            return None


_COMBINED: dict[type[Index], Callable[[int, int], int]] = {
    Add: operator.add, Mul: operator.mul, Min: min, Max: max,
    FloorDiv: lambda a, b: a // b if b else 0, Mod: lambda a, b: a % b if b else 0,
}  # fmt: skip


def is_vector(v: Operand) -> bool:
    return v.type.count > 0


def _not_zero(divisor: Operand) -> Operand:
    """`divisor`; 1 if it is the number of an unrolled copy in which nothing is divided by it."""
    no_divisor = isinstance(divisor, Constant) and divisor.number is not None and divisor.number < 1
    return word(1) if no_divisor else divisor


def _key(v: Operand) -> object:
    """What tells `v` from other values."""
    return v.typed if isinstance(v, Constant) else v
