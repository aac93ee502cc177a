"""Random programs for property tests: `funcs()` draws a Func that verifies, runs, and is worth transforming.

Everything holds by construction, nothing is filtered: accesses are in bounds at every size that the assumptions
allow (offsets, strides, reversals, diagonals, gathers, guarded reads), what is read has been written, every output
is written whole. `sizes` and `arguments` draw what to call it with. `loopir.testing.generate.trees` has the opposite:
expressions of any form, for the text form and whatever else must take every tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import loopir.intrinsics  # noqa: F401  (registers the operations)
from loopir.interp.interpret import cond_holds
from loopir.ir.dtypes import DType, DTypeLike, dtype
from loopir.ir.grammar import (
    Alloc,
    Arg,
    Body,
    Buffer,
    Const,
    Func,
    If,
    Index,
    Int,
    Loop,
    Monoid,
    Op,
    Param,
    Reduce,
    Size,
    Stmt,
    Store,
    Var,
    ceildiv,
    conj,
    minimum,
)
from loopir.ir.ops import MONOIDS, REGISTRY
from loopir.ir.traverse.walk import free_vars, take_name
from loopir.ir.verify.verify import evaluate, verify
from loopir.testing.generate.draws import between
from loopir.testing.generate.expressions import Expressions, Plan, all_in, reads_memory
from loopir.testing.generate.families import FAMILIES, FROM_MEMORY, ROUNDED, WIDE, forms as family_forms
from loopir.testing.generate.gpu_families import FLOATS
from loopir.testing.generate.scope import Around, Scope, bounds, forms, offered

DTYPES = ("float32", "int32")
ROOM = 3
"""Nests, and loops one inside the other, that families may have."""
_NUMERIC, _BITS = ("sum", "max", "min", "prod"), ("any", "all")
_FOLDS = {"float": _NUMERIC, "int": _NUMERIC + _BITS, "uint": _NUMERIC + _BITS, "bool": _BITS}


@st.composite
def funcs(
    draw: st.DrawFn,
    *,
    dtypes: Sequence[DTypeLike] = DTYPES,
    max_nests: int = 3,
    max_depth: int = 3,
    max_extent: int = 6,
    symbolic: bool = True,
    memory: bool = True,
    functions: Sequence[str] = (),
    families: Sequence[str] | None = None,
) -> Func:
    """A Func of one to `max_nests` nests up to `max_depth` loops deep.

    Half of them have the form of what people schedule, a producer and its consumer or a product, say: `families` names
    those to draw from, among `loopir.testing.generate.families.FAMILIES`; with none, all are drawn statement by
    statement. Where it is left out, it is all that the other limits allow, which is none where these leave no room
    for them.

    `dtypes` are the element types of its buffers; `max_extent` bounds the constant ones of extents and dimensions;
    `symbolic` allows up to two sizes, n and m; `memory` allows gathers, and extents and guards that read memory;
    `functions` names intrinsics of floats, such as "exp", to use beside arithmetic.
    """
    plan = Plan(tuple(dtype(t) for t in dtypes), max_nests, max_depth, max_extent, symbolic, memory, tuple(functions))
    names = tuple(_families(plan) if families is None else families)
    if names and draw(st.booleans()):
        types = tuple(t.name for t in plan.dtypes)
        return draw(family_forms(names, types=types, symbolic=symbolic, largest=max_extent))
    func = _Builder(draw, plan).func()
    verify(func)
    return func


def _families(plan: Plan) -> list[str]:
    """The families that a plan leaves room for."""
    if plan.max_nests < ROOM or plan.max_depth < ROOM or not any(t.name in WIDE for t in plan.dtypes):
        return []
    left_out = ROUNDED if any(t.name == "float32" for t in plan.dtypes) else (*ROUNDED, *FLOATS)
    return [name for name in FAMILIES if (plan.memory or name not in FROM_MEMORY) and name not in left_out]


def sizes(func: Func, largest: int = 7) -> st.SearchStrategy[dict[str, int]]:
    """Values of the sizes of `func`, 0 and odd ones included, that meet what it assumes; nothing if none does."""
    ranges = product(range(largest + 1), repeat=len(func.sizes))
    every = [dict(zip(func.sizes, values, strict=True)) for values in ranges]
    found = [s for s in every if all(cond_holds(c, s) for c in func.assumes)]
    return st.sampled_from(found) if found else st.nothing()


@st.composite
def arguments(draw: st.DrawFn, func: Func, sizes: dict[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays for every parameter but the "out" ones, by name: small integers, so that sums of floats are exact."""
    rng = np.random.default_rng(draw(between(0, 2**16)))
    out: dict[str, np.ndarray[Any, Any]] = {}
    for a in func.args:
        if a.access != "out":
            t, shape = a.buffer.dtype, [max(0, evaluate(d, sizes)) for d in a.buffer.shape]
            out[a.buffer.name] = rng.integers(0 if t.kind in ("uint", "bool") else -4, 5, shape).astype(t.numpy)
    return out


class Inputs(NamedTuple):
    """One call of a program: values of its sizes, and arrays by name."""

    sizes: dict[str, int]
    arrays: dict[str, np.ndarray[Any, Any]]


@st.composite
def arrays_for(draw: st.DrawFn, func: Func, largest: int = 7) -> Inputs:
    """What to call `func` with: `sizes` up to `largest` and `arguments` of these."""
    chosen = draw(sizes(func, largest))
    return Inputs(chosen, draw(arguments(func, chosen)))


def shapes(*, least: int = 0, most: int = 3, largest: int = 7) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of `least` to `most` dimensions, each at most `largest`: odd ones, 1 and 0 included."""
    dims = st.sampled_from([d for d in (1, 3, 2, 5, 4, 7, 6, 0) if d <= largest] + list(range(8, largest + 1)))
    return st.lists(dims, min_size=least, max_size=most).map(tuple)


# ---------------------------------------------------------------- building a program


@dataclass
class _Builder(Expressions):
    """Draws a program from the top, statement after statement, and keeps what has been written so far."""

    writable: list[Buffer] = field(default_factory=list[Buffer])
    level: dict[str, int] = field(default_factory=dict[str, int])
    """How many loops are around the allocation of a buffer."""
    taken: set[str] = field(default_factory=set[str])
    labels: set[str] = field(default_factory=set[str])
    names: tuple[str, ...] = ()

    def func(self) -> Func:
        self.names = self.pick((), ("n",), ("n", "m")) if self.plan.symbolic else ()
        least = tuple((n, self.draw(between(0, 1))) for n in self.names)
        sizes = tuple(map(Var, self.names))
        self.taken |= {"f", *self.names}
        first = Buffer(self.name("A"), sizes or (self.dim(),), self.dtype())
        ins = [first, *(self.buffer("B") for _ in range(self.draw(between(0, 1))))]
        inouts = [self.buffer("X") for _ in range(self.draw(between(0, 1)))]
        outs = self.outputs(at_least=not inouts)
        self.readable, self.writable = ins + inouts, list(inouts)
        params: list[Size | Arg] = [Size(n) for n in self.names]
        params += [Arg(b, "in") for b in ins] + [Arg(b, "inout") for b in inouts] + [Arg(b, "out") for b in outs]
        scope = Scope(least)
        nests = self.draw(between(1, self.plan.max_nests))
        todo: list[str] = ["out"] if outs else []
        todo += [self.pick("nest", "alloc") for _ in range(nests - len(todo))]
        body = self.program(list(self.draw(st.permutations(todo))), outs, scope)
        assumes = tuple(Var(n) >= 1 for n, k in least if k)
        return Func("f", tuple(params), assumes, body)

    def program(self, todo: list[str], outs: list[Buffer], scope: Scope) -> Body:
        if not todo:
            return ()
        what, rest = todo[0], todo[1:]
        if what == "out":
            filled = self.fill(outs, scope)
            self.readable += outs
            self.writable += outs
            return (*filled, *self.program(rest, outs, scope))
        if what == "alloc" or not self.writable:
            return (self.alloc(scope, lambda: self.program(rest, outs, scope) or self.nest(scope)),)
        return (*self.nest(scope), *self.program(rest, outs, scope))

    # ------------------------------------------------------------ declarations

    def name(self, hint: str) -> str:
        return take_name(hint, self.taken)

    def dtype(self) -> DType:
        return self.pick(*self.plan.dtypes)

    def dim(self) -> Index:
        size = [x for n in self.names for x in (Var(n), Var(n), Var(n) + 1, Var(n) + 2)]
        constant = Int(self.draw(between(1, self.plan.max_extent)))
        return self.pick(constant, *size)

    def buffer(self, hint: str, rank: int | None = None) -> Buffer:
        most = min(2, self.plan.max_depth)
        shape = tuple(self.dim() for _ in range(self.pick(1, most, most, 0) if rank is None else rank))
        return Buffer(self.name(hint), shape, self.dtype())

    def outputs(self, *, at_least: bool) -> list[Buffer]:
        """No output, one, or two of one shape that a reduction fills together."""
        if not (at_least or self.draw(st.booleans())):
            return []
        one = self.buffer("Y")
        counters = [t for t in self.plan.dtypes if t.is_integer]
        if one.dtype.kind == "bool" or not counters or len(one.shape) == self.plan.max_depth or not self.rarely():
            return [one]
        return [one, Buffer(self.name("Z"), one.shape, self.pick(*counters))]

    # ------------------------------------------------------------ nests

    def extent(self, scope: Scope, depth: int) -> tuple[Index, Around]:
        """An extent, and the loop it makes."""
        var = self.name("ijklpqrs"[min(depth, 7)])
        constant = Int(self.draw(between(0 if self.rarely() else 1, self.plan.max_extent)))
        sizes = [x for n in self.names for x in (Var(n), Var(n), Var(n) - 1, Var(n) + 1)]
        outer = [x for a in scope.loops for x in (Var(a.var) + 1, a.extent - Var(a.var), Var(a.var))]
        bounded = [(minimum(Var(n), 3), Int(3)) for n in self.names] + [
            (ceildiv(Var(n), 2), Var(n)) for n in self.names
        ]
        pairs = [(x, x) for x in (constant, *sizes, *outer)] + bounded
        gathered = self.gathered(scope, Int(3)) if self.plan.memory and self.rarely() else None
        extent, most = self.pick(*pairs) if gathered is None else (gathered, Int(2))
        depends = frozenset(free_vars(extent) - set(self.names))
        return extent, Around(var, most, depends, gathered is not None)

    def looped(self, scope: Scope, depth: int) -> Stmt:
        extent, loop = self.extent(scope, depth)
        body = self.body(scope.inside(loop), depth + 1)
        return Loop(loop.var, extent, "serial", body)

    def nest(self, scope: Scope) -> Body:
        return (self.looped(scope, 0),)

    def body(self, scope: Scope, depth: int) -> Body:
        return tuple(s for _ in range(1 + self.rarely()) for s in self.stmt(scope, depth))

    def stmt(self, scope: Scope, depth: int) -> Body:
        deeper = depth < self.plan.max_depth
        kind = self.pick("leaf", *(("loop", "loop") if deeper else ()), "guard", *(("alloc",) if deeper else ()))
        if kind == "loop":
            return (self.looped(scope, depth),)
        if kind == "guard":
            cond = self.condition(scope)
            inner = Scope(scope.least, scope.loops, scope.from_memory or reads_memory(cond))
            then = self.leaf(inner)
            return (If(cond, then, self.leaf(inner) if self.rarely() else ()),)
        if kind == "alloc" and self.rarely():
            return (self.alloc(scope, lambda: self.leaf(scope)),)
        return self.leaf(scope)

    def alloc(self, scope: Scope, rest: Any) -> Stmt:
        """A buffer, written whole, and what may use it."""
        room = self.plan.max_depth - len(scope.loops)
        b = self.buffer("T", rank=self.draw(between(0, min(2, room))))
        self.level[b.name] = len(scope.loops)
        filled = self.fill([b], scope)
        self.readable.append(b)
        self.writable.append(b)
        body = (*filled, *rest())
        self.readable.remove(b)
        self.writable.remove(b)
        return Alloc(b, body)

    def fill(self, buffers: list[Buffer], scope: Scope) -> Body:
        """A nest that writes every element of `buffers`, which have one shape, by a store or by a reduction."""
        shape = buffers[0].shape
        room = self.plan.max_depth - len(scope.loops) - len(shape)
        if len(buffers) > 1 or (room > 0 and self.draw(st.booleans())):
            return self.fill_by_fold(buffers, scope)
        depth = len(scope.loops)
        heads: list[tuple[Index, Around]] = []
        at: list[Index] = list(shape)
        for d in self.draw(st.permutations(range(len(shape)))):
            var = self.name("ijklpqrs"[min(depth + len(heads), 7)])
            heads.append((shape[d], Around(var, shape[d])))
            at[d] = self.pick(Var(var), shape[d] - 1 - Var(var))
        inner = Scope(scope.least, (*scope.loops, *(h for _, h in heads)), scope.from_memory)
        b = buffers[0]
        body: Body = (Store(self.label(b), b, tuple(at), self.value(b.dtype, inner)),)
        if self.rarely():
            body = (*body, *self.leaf(inner))
        return _nested([(h.var, extent) for extent, h in heads], body)

    def fill_by_fold(self, buffers: list[Buffer], scope: Scope) -> Body:
        shape, depth = buffers[0].shape, len(scope.loops)
        place = self.draw(between(0, len(shape)))
        heads: list[tuple[str, Index]] = []
        at: list[Index] = list(shape)
        over = ""
        inner = scope
        order = list(self.draw(st.permutations(range(len(shape)))))
        for d in [*order[:place], None, *order[place:]]:
            if d is None:
                extent, loop = self.extent(inner, depth + len(heads))
                over = loop.var
            else:
                extent, loop = shape[d], Around(self.name("ijklpqrs"[min(depth + len(heads), 7)]), shape[d])
                at[d] = self.pick(Var(loop.var), shape[d] - 1 - Var(loop.var))
            inner = inner.inside(loop)
            heads.append((loop.var, extent))
        kept = inner.without(frozenset({over}))
        monoid = self.monoid(buffers)
        values = tuple(self.value(b.dtype, inner) for b in buffers)
        init = tuple(self.value(b.dtype, kept, depth=0) for b in buffers)
        if self.rarely():
            init = monoid.identity
        label = self.label(buffers[0])
        return _nested(heads, (Reduce(label, tuple(buffers), tuple(at), monoid, values, (over,), init),))

    # ------------------------------------------------------------ statements

    def label(self, b: Buffer) -> str:
        label = take_name(self.pick("step", "update") if self.rarely() else b.name, self.labels)
        return label

    def monoid(self, buffers: Sequence[Buffer]) -> Monoid:
        types = tuple(b.dtype for b in buffers)
        if len(types) == 2:
            name = self.pick("argmax", "argmin", "sum_and_max")
            return _sum_and_max(types) if name == "sum_and_max" else MONOIDS[name](types)
        return MONOIDS[self.pick(*_FOLDS[types[0].kind])](types)

    def leaf(self, scope: Scope) -> Body:
        """A store or a fold; behind a test of its bounds where no element is known to be there."""
        if not self.writable:
            return ()
        reachable = [b for b in self.writable if all_in(b.shape, scope)]
        if not reachable or (scope.loops and self.rarely()):
            return self.guarded_leaf(scope)
        b = self.pick(*reachable)
        kind = self.pick("store", "fold", "fold from init") if scope.loops else "store"
        if kind == "fold from init" and (found := self.fold_from_init(b, scope)) is not None:
            return (found,)
        at = tuple(self.element(d, scope) for d in b.shape)
        return (self.write(b, at, scope, fold=kind != "store"),)

    def write(self, b: Buffer, at: tuple[Index, ...], scope: Scope, *, fold: bool) -> Stmt:
        if not fold:
            return Store(self.label(b), b, at, self.value(b.dtype, scope))
        read: set[str] = set().union(*(free_vars(x) for x in at))
        free = [x.var for x in scope.loops[self.level.get(b.name, 0) :] if x.var not in read]
        over = tuple(free[: self.draw(between(0, len(free)))])
        value = self.value(b.dtype, scope)
        return Reduce(self.label(b), (b,), at, self.monoid([b]), (value,), over)

    def fold_from_init(self, b: Buffer, scope: Scope) -> Reduce | None:
        """A reduction with `init`, whose first value is stored where its `over` loops are not entered."""
        loops = scope.loops[self.level.get(b.name, 0) :]
        if not loops or scope.from_memory:
            return None
        over = {self.pick(*loops).var}
        started = False
        for x in loops:
            started = started or x.var in over
            if started and (x.depends & over or x.from_memory):
                over.add(x.var)
        kept = scope.without(frozenset(over))
        if not all_in(b.shape, kept):
            return None
        at = tuple(self.pick(*offered(kept, d)) for d in b.shape)
        outermost = next(n for n, x in enumerate(scope.loops) if x.var in over)
        readable = self.readable
        self.readable = [x for x in readable if self.level.get(x.name, 0) <= outermost]
        init = (self.value(b.dtype, kept, depth=0),)
        self.readable = readable
        named = tuple(x.var for x in loops if x.var in over)
        return Reduce(self.label(b), (b,), at, self.monoid([b]), (self.value(b.dtype, scope),), named, init)

    def guarded_leaf(self, scope: Scope) -> Body:
        """A write that is tested to be in bounds."""
        b = self.pick(*self.writable)
        at = tuple(self.pick(*(forms(scope) or (Int(0),))) for _ in b.shape)
        body = (self.write(b, at, scope, fold=self.draw(st.booleans())),)
        test = bounds(at, b, scope)
        return body if test == conj() else (If(test, body),)


def _nested(heads: Sequence[tuple[str, Index]], body: Body) -> Body:
    for var, extent in reversed(heads):
        body = (Loop(var, extent, "serial", body),)
    return body


def _sum_and_max(types: tuple[DType, ...]) -> Monoid:
    """A monoid with a definition of its own: a sum beside a maximum."""
    left = (Param("a", types[0]), Param("b", types[1]))
    right = (Param("c", types[0]), Param("d", types[1]))
    combine = (Op(REGISTRY["add"], (left[0], right[0])), Op(REGISTRY["maximum"], (left[1], right[1])))
    least = MONOIDS["max"](types[1:]).identity
    return Monoid("sum_and_max", left, right, combine, (Const(0, types[0]), *least))
