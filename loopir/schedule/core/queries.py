"""Queries for schedule functions: the elements that a stage touches, and the stride of each loop.

Answers are exact or None; nothing here knows an operator by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from loopir.analysis.regions.subscripts import Subscript
from loopir.arith.poly import Poly, to_index
from loopir.arith.simplify import Context, poly, simplify
from loopir.arith.simplify_func import context_at
from loopir.arith.upper_bound import max_trip_count
from loopir.errors import page
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Buffer,
    Cast,
    Func,
    Index,
    InstrRegion,
    Int,
    Load,
    Op,
    Reduce,
    Stmt,
    Store,
    Strided,
    Value,
    Var,
)
from loopir.ir.layout.layouts import strides_of
from loopir.ir.printer import text
from loopir.ir.traverse.memo import cache_of, memoized
from loopir.ir.traverse.walk import StmtPath, free_vars, nests, nodes, statements
from loopir.schedule.core.find import find_stage

FMA = "fma"
"""A product and a sum, rounded once: one instruction, though it has a rounding of its own."""


@dataclass(frozen=True, slots=True)
class StageAccess:
    """One access of a stage, written `text`.

    `strides` has, for each loop around, by how many elements of `buffer` one iteration moves it: 0 where the loop does
    not matter, 1 where neighbours are touched, an expression in sizes, or None where the step is not the same
    everywhere (divisions, a gather, a swizzle).
    """

    buffer: str
    dtype: DType
    text: str
    write: bool
    strides: Mapping[str, Index | None] = field(default_factory=dict[str, "Index | None"])
    subscripts: tuple[Subscript, ...] = ()
    """The index of each dimension, as text that answers questions about its loops."""
    by: str = ""
    """What is made of the element that is read: the name of the one operation that takes it, converted perhaps."""

    def __str__(self) -> str:
        """`reads A[i, k] {i: 512, k: 1, j: 0}`: the access, and its strides."""
        strides = ", ".join(f"{v}: {'?' if d is None else text(d)}" for v, d in self.strides.items())
        return f"{'writes' if self.write else 'reads'} {self.text} {{{strides}}}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(str(self))

    def contiguous(self, loop: str) -> bool:
        """Whether successive iterations of `loop` touch neighbours."""
        return self.strides.get(loop) == Int(1)

    def invariant(self, loop: str) -> bool:
        """Whether `loop` does not matter to which element is touched."""
        return self.strides.get(loop, Int(0)) == Int(0)


def stage_accesses(func: Func, stage: str) -> tuple[StageAccess, ...]:
    """The accesses of `stage`: what it reads, then what it writes (a fold reads that, too)."""
    of_func = _accesses_found(func)
    if stage in of_func:
        return of_func[stage]
    found: list[StageAccess] = []
    known = Context.of(func)
    for place in find_stage(func, stage):
        nest = next(iter(place.loops), place.stmt)  # steps share the nests that they leave alone
        kept, key = cache_of(nest), ("touches", place.stmt.label)
        if key not in kept or kept[key][0] is not known:
            kept[key] = known, [*_touches(place, context_at(func, place.around))]
        found += kept[key][1]
    return of_func.setdefault(stage, tuple(found))


@memoized
def _accesses_found(func: Func) -> dict[str, tuple[StageAccess, ...]]:
    """The accesses of stages of `func` that were asked for, by name."""
    return {}


def _touches(place: StmtPath, ctx: Context) -> Iterator[StageAccess]:
    s = place.stmt
    around = [loop.var for loop in place.loops]
    values = s.values
    for load in dict.fromkeys(n for v in (*values, *s.at) for n in nodes(v) if isinstance(n, Load)):
        yield replace(_touch(load.buffer, load.at, False, around, ctx), by=_taken_by(s).get(load, ""))
    for b in place.stmt.buffers:
        yield _touch(b, s.at, True, around, ctx)


@memoized
def _taken_by(s: Store | Reduce) -> Mapping[Load, str]:
    """By element that `s` reads the one operation that takes it, "" if there are several."""
    found: dict[Load, str] = {}
    operations = (n for v in s.values for n in nodes(v) if isinstance(n, Op))
    for n in operations:
        for x in map(_converted, n.args):
            if isinstance(x, Load):
                found[x] = n.fn.name if found.get(x, n.fn.name) == n.fn.name else ""
    return found


def _converted(v: Value) -> Value:
    """What `v` is a conversion of."""
    while isinstance(v, Cast):
        v = v.value
    return v


def instructions(func: Func) -> tuple[str, ...]:
    """The names of the instructions that nests are done by, each once, in alphabetical order."""
    return tuple(sorted({s.fn.name for s in statements(func.body) if isinstance(s, InstrRegion)}))


def real_functions(func: Func) -> tuple[str, ...]:
    """The names of the functions of real numbers that `func` evaluates: operations of more than an instruction."""
    return tuple(sorted(set[str]().union(*map(_real_functions_in, nests(func.body)))))


@memoized
def _real_functions_in(nest: Stmt) -> frozenset[str]:
    values = (v for s in statements((nest,)) if isinstance(s, Store | Reduce) for v in _evaluated(s))
    found = (n.fn for v in values for n in nodes(v) if isinstance(n, Op))
    return frozenset(fn.name for fn in found if fn.ulp and fn.name != FMA)


def _evaluated(s: Store | Reduce) -> tuple[Value, ...]:
    return (s.value,) if isinstance(s, Store) else (*s.values, *s.monoid.combine)


def reduced_loops(func: Func, stage: str) -> tuple[str, ...]:
    """The loops that `stage` folds over, outermost first."""
    found = [(place, place.stmt) for place in find_stage(func, stage)]
    return tuple(loop.var for p, s in found if isinstance(s, Reduce) for loop in p.loops if loop.var in s.over)


def longest(func: Func, stage: str, loop: str) -> int | None:
    """How many iterations `loop` around `stage` has at most, in any iteration of the loops around it, if that is a
    number."""
    sizes: set[int | None] = set()
    for place in find_stage(func, stage):
        around: dict[str, Index] = {}
        for x in place.loops:
            if x.var == loop:
                most = max_trip_count(x, around)
                sizes.add(most.value if isinstance(most, Int) else None)
            around[x.var] = x.extent
    return None if None in sizes else max((n for n in sizes if n is not None), default=None)


def _touch(b: Buffer, at: tuple[Index, ...], write: bool, around: list[str], ctx: Context) -> StageAccess:
    offset = _offset(b, at, ctx)
    told = {v for ix in at for v in free_vars(ix)}
    steps = {v: Int(0) if v not in told else None if offset is None else loop_stride(offset, v) for v in around}
    return StageAccess(b.name, b.dtype, text(Load(b, at)), write, steps, tuple(map(Subscript, at)))


def _offset(b: Buffer, at: tuple[Index, ...], ctx: Context) -> Poly | None:
    """Where the element lies, as a polynomial; None under a layout that is no sum of strides."""
    if b.layout is not None and not isinstance(b.layout, Strided):
        return None
    total: Index = Int(0)
    for ix, stride in zip(at, strides_of(b), strict=True):
        total = total + ix * stride
    return poly(simplify(total, ctx), ctx)


def loop_stride(offset: Poly, loop: str) -> Index | None:
    """The coefficient of `loop` in `offset`, if it is linear there."""
    out: Poly = {}
    for monomial, c in offset.items():
        with_it = [a for a in monomial if loop in free_vars(a)]
        if not with_it:
            continue
        if with_it != [Var(loop)]:
            return None
        rest = tuple(a for a in monomial if a != Var(loop))
        out[rest] = out.get(rest, 0) + c
    return to_index(out)
