"""Emit what differs from lane to lane in an index in 32 bits, where these hold it: twice as many lanes to a register.

A sum or a product is computed modulo 2^32, which is enough for a result of 32 bits whatever its parts are. Operands of
a division, a minimum or a comparison have to be exact, so they are computed here where `IndexWidth` bounds them. So is
the place of an element of a buffer of no more than 2^31 elements, in the lanes that access one.

A vector is divided by a size that is not known by its reciprocal in float64, as no CPU divides vectors of integers.
Let x be of 32 bits, d > 0 and r = 1 / d, rounded. Then (x + 1/2) / d is 1 / (2 d) or more away from every integer, and
(x + 1/2) r is within 2^-52 of it, relatively: less than 2^-20 / d. So both are between the same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial, reduce
from math import prod
from operator import mul

from loopir.codegen.index_bounds import INT32_END, ZERO, Bounds, Range, Unbounded
from loopir.codegen.llvm import ops
from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.index import Indices, taken_apart
from loopir.codegen.llvm.ir_text import DOUBLE, I32, Constant, Operand, constant, like, listed, vector, word
from loopir.errors import LowerError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Add,
    Buffer,
    Cmp,
    FloorDiv,
    Index,
    Int,
    Kernel,
    Max,
    Min,
    Mod,
    Mul,
    Value,
    ValueToIndex,
    Var,
    Xor,
)  # fmt: skip
from loopir.ir.traverse.free_vars import free_vars, is_affine_visible
from loopir.ir.verify.verify import evaluate


class IndexWidth:
    """Which indices of a kernel 32 bits hold, in every iteration.

    A bound over the sizes is taken to hold if `assumes`, and is kept in `assumed`: what is emitted so is right where
    all of these are below 2^31. `integers` are the names that they may use.
    """

    def __init__(self, kernel: Kernel, integers: Collection[str], *, assumes: bool) -> None:
        self.bounds = Bounds(kernel.body, _by_type)
        self.integers, self.assumes = frozenset(integers), assumes
        self.assumed: dict[Index, None] = {}

    def holds(self, ix: Index) -> bool:
        """Whether `ix` is from -2^31 to 2^31 - 1."""
        found = self.range(ix)
        if found is None:
            return False
        down, up = (_closed_value(x) for x in (found.down, found.up))
        if down is not None and up is not None:
            return down <= INT32_END and up < INT32_END
        return is_affine_visible(ix) and self._below(found.down, found.up)

    def addresses(self, b: Buffer, copies: int) -> bool:
        """Whether so many copies of `b` together have no more than 2^31 elements."""
        count = prod(b.shape[1:], start=b.shape[0]) * copies
        number = _closed_value(count)
        return self._below(count) if number is None else number <= INT32_END

    def range(self, ix: Index) -> Range | None:
        """What `ix` is within; None if that is not known."""
        try:
            return self.bounds.of(ix)
        except (Unbounded, LowerError):
            return None

    def is_natural(self, ix: Index) -> bool:
        """Whether `ix` is not negative."""
        found = self.range(ix)
        return found is not None and found.down == ZERO

    def is_inside(self, ix: Index, b: Buffer) -> bool:
        """Whether `ix` is the place of an element of `b`, of constant size, whatever tests stand around it."""
        found, room = self.range(ix), _closed_value(reduce(mul, b.shape, Int(1)))
        most = None if found is None or found.down != ZERO else _closed_value(found.up)
        return most is not None and room is not None and most < room

    def _below(self, *bounds: Index) -> bool:
        """Whether `bounds` are below 2^31, or may be taken to be."""
        if not self.assumes:
            return False
        least = [evaluate(b, dict.fromkeys(free_vars(b), 1)) for b in bounds]
        if max(least) >= INT32_END or not all(free_vars(b) <= self.integers for b in bounds):
            return False
        self.assumed |= dict.fromkeys(b for b in bounds if free_vars(b))
        return True


def _closed_value(ix: Index) -> int | None:
    """The value of `ix`, if it has no variables."""
    return None if free_vars(ix) else evaluate(ix, {})


class NarrowIndices:
    """Emits indices in 32 bits. `varies` tells what differs from lane to lane, `value` emits an integer value."""

    def __init__(
        self, indices: Indices, width: IndexWidth, varies: Callable[[Index], bool], value: Callable[[Value], Operand]
    ) -> None:
        self.b: Builder = indices.b
        self.indices, self.width, self.varies, self.value = indices, width, varies, value

    def place(self, b: Buffer, ix: Index, copies: int, *, together: bool) -> Operand:
        """The place `ix` of an element of `b`, of which there are `copies` side by side; in 32 bits if these save
        instructions, as they do where one takes the places of all lanes `together`."""
        worth = self.varies(ix) and (together or self._computes(ix))
        return self.low(ix) if worth and self.width.addresses(b, copies) else self.indices.index(ix)

    def number(self, ix: Index, t: DType) -> Operand | None:
        """`ix` in 32 bits, to be converted to `t`; None if it is the same in all lanes, or if they may not do."""
        if not self.varies(ix):
            return None
        if t.kind in ("int", "uint") and t.bits <= 32:
            return self.low(ix)
        return self.low(ix) if (t.bits <= 32 or self._computes(ix)) and self.width.holds(ix) else None

    def test(self, c: Cmp, order: str) -> Operand | None:
        """Whether `c` holds, if its sides are computed in 32 bits."""
        computes = self._computes(c.a) or self._computes(c.b)
        if not computes or not (self.width.holds(c.a) and self.width.holds(c.b)):
            return None
        return self.b.icmp(order, self.low(c.a), self.low(c.b))

    def part(self, ix: Index) -> Operand | None:
        """A quotient, remainder, minimum or maximum whose operands are exact in 32 bits; None if it is not so."""
        if not isinstance(ix, FloorDiv | Mod | Min | Max) or not self.varies(ix) or not self.width.holds(ix.a):
            return None
        if isinstance(ix, Min | Max):
            if not self.width.holds(ix.b):
                return None
            x, y = self.low(ix.a), self.low(ix.b)
            return self.b.select(self.b.icmp("slt" if isinstance(ix, Min) else "sgt", x, y), x, y)
        if self.varies(ix.b):
            return self._divided_by_lanes(ix) if self.width.holds(ix.b) else None
        return self._divided(ix) if self.width.is_natural(ix.a) or self.width.holds(ix.b) else None

    def low(self, ix: Index) -> Operand:
        """The last 32 bits of `ix` in every lane."""
        terms, number = taken_apart(ix)
        alike: dict[Operand, int] = {}
        out: Operand | None = None
        for part, n in terms:
            if self.varies(part):
                v = self.indices.spread(self._low_part(part))
                v = v if n == 1 else self.b.op("mul", v, word(n, I32).number or 0)
                out = v if out is None else self.b.op("add", out, v)
            else:
                found, more = self.indices.sum(part)
                number += n * more
                for v, m in found.items():
                    alike[v] = alike.get(v, 0) + n * m
        if out is None:
            return self.indices.spread(self._cut(self.indices.total(alike, number)))
        out = self.b.op("add", out, word(number, I32).number or 0) if number else out  # known with the lanes' numbers
        return self.b.op("add", out, self.indices.spread(self._cut(self.indices.total(alike)))) if alike else out

    def _low_part(self, ix: Index) -> Operand:
        match ix:
            case Var(name):  # that of the lanes
                count = self.indices.env[name].type.count
                return listed(vector(I32, count), range(count))
            case Add() | Int():
                return self.low(ix)
            case Mul(a, b):
                return self.b.op("mul", self.low(a), self.low(b))
            case Xor(a, b):
                return self.b.op("xor", self.low(a), self.low(b))
            case ValueToIndex(value) if value.dtype.bits <= 32:
                return ops.resized(self.b, self.value(value), I32, value.dtype)
            case _:
                found = self.part(ix)
                return self._cut(self.indices.other(ix)) if found is None else found

    def _cut(self, v: Operand) -> Operand:
        """The last 32 bits of `v`."""
        if isinstance(v, Constant) and v.number is not None:
            return word(int(v.number), I32)
        return v if v.type.scalar is I32 else self.b.cast("trunc", v, like(v, I32))

    def _computes(self, ix: Index) -> bool:
        """Whether `ix` is more in lanes than their number, times something, and something that all share."""
        return any(not isinstance(part, Var) and self.varies(part) for part, _ in taken_apart(ix)[0])

    # ------------------------------------------------------------ division

    def _divided(self, ix: FloorDiv | Mod) -> Operand | None:
        """x // d or x % d of a `d` that all lanes share; None if it is a constant that 32 bits do not hold."""
        d = self.indices.index(ix.b)
        if isinstance(d, Constant) and d.number is not None:
            return self._by_constant(ix, int(d.number)) if d.number < INT32_END else None
        x = self.low(ix.a)
        depth, key = self.indices.depth(d), ("reciprocal", d)
        by = self.indices.spread(self.indices.made(key, depth, partial(self._reciprocal, d)))
        near = self.b.op("fmul", self.b.op("fadd", self.b.cast("sitofp", x, by.type), 0.5), by)
        return self._from_near(x, near, self.indices.spread(self._cut(d)), ix)

    def _by_constant(self, ix: FloorDiv | Mod, d: int) -> Operand:
        x, remainder = self.low(ix.a), isinstance(ix, Mod)
        d = max(d, 1)  # less than 1 it is in an unrolled copy in which nothing is divided by it
        if d & (d - 1) == 0:
            return self.b.op("and", x, d - 1) if remainder else self.b.op("ashr", x, d.bit_length() - 1)
        if self.width.is_natural(ix.a):
            return self.b.division("urem" if remainder else "udiv", x, constant(x.type, d))
        return ops.floor_division(self.b, x, constant(x.type, d), remainder=remainder)

    def _reciprocal(self, d: Operand) -> Operand:
        positive = self.b.select(self.b.icmp("sgt", d, 0), d, 1)
        return self.b.op("fdiv", constant(DOUBLE, 1.0), self.b.cast("sitofp", positive, DOUBLE))

    def _divided_by_lanes(self, ix: FloorDiv | Mod) -> Operand:
        """x // y or x % y, lane by lane: a quotient of integers of 32 bits in float64 is cut to theirs."""
        x, y = self.low(ix.a), self.low(ix.b)
        y = self.b.select(self.b.icmp("sgt", y, 0), y, 1)
        wide = like(x, DOUBLE)
        near = self.b.op("fdiv", self.b.cast("sitofp", x, wide), self.b.cast("sitofp", y, wide))
        return self._from_near(x, near, y, ix)

    def _from_near(self, x: Operand, near: Operand, y: Operand, ix: FloorDiv | Mod) -> Operand:
        """x // y or x % y from a float64 between the same integers as x / y."""
        q = self.b.cast("fptosi", near, x.type)
        natural = self.width.is_natural(ix.a)
        if natural and isinstance(ix, FloorDiv):
            return q
        rest = self.b.op("sub", x, self.b.op("mul", q, y))
        if natural:
            return rest
        negative = self.b.icmp("slt", rest, 0)  # cut towards 0
        if isinstance(ix, Mod):
            return self.b.select(negative, self.b.op("add", rest, y), rest)
        return self.b.select(negative, self.b.op("sub", q, 1), q)


def _by_type(ix: ValueToIndex) -> Range:
    """The bounds of a number from memory by its type, if 32 bits hold it."""
    t = ix.value.dtype
    if t.bits > 32:
        raise Unbounded
    signed = t.kind == "int"
    return Range(Int((1 << (t.bits - 1)) if signed else 0), Int((1 << (t.bits - signed)) - 1))
