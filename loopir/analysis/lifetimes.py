"""Whether elements of a buffer may share memory: no write of one falls between another's write and its reads.

The question has three instances in it: a write of one element, a read of another one that would lie in the same
place, and, if that is to be harmless, a write of the element that is read in between. So the pairs of the first two
are a set, from which the pairs that a third makes good are taken away; isl says what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import islpy as isl

from loopir.analysis.access import Access, Statement, When, statements_in
from loopir.analysis.affine import constant, plus, scaled, to_index
from loopir.analysis.bounds import instance_of
from loopir.analysis.depend import Order, before, times
from loopir.analysis.offsets import allowed, offsets
from loopir.analysis.regions import Touch, ends_of, loose, outward, proved, upper_sides
from loopir.analysis.simplify import Context, poly
from loopir.analysis.system import SIZE, System, combine, least_point
from loopir.ir.grammar import Func, Var
from loopir.ir.verify import evaluate
from loopir.ir.walk import replace, substitute, touching

Done = tuple[Statement, Access]


@dataclass(frozen=True, slots=True)
class Overwritten:
    """`writer` puts element `new` where element `old`, which `reader` is still to read, would lie."""

    writer: str
    writing: dict[str, int]
    new: tuple[int, ...]
    reader: str
    reading: dict[str, int]
    old: tuple[int, ...]
    sizes: dict[str, int]


def overwritten(func: Func, buffer: str, dim: int, factor: int) -> Overwritten | None:
    """The least case in which two elements of `buffer`, a multiple of `factor` apart in `dim`, are needed at once.

    None is a proof that each element is written anew before it is read after such another one was written.
    """
    near = statements_in(func, touching(buffer))
    done = [(s, a) for s in near if buffer in s.touches for a in s.accesses if a.buffer == buffer]
    writes, reads = [x for x in done if x[1].write], [x for x in done if not x[1].write]
    for writer, reader in product(writes, reads):
        dims = [f"{SIZE}{n}" for n in func.sizes]
        dims += [f"{p}.{v}" for p, (s, _) in (("s", writer), ("t", reader)) for v in s.dims]
        if not _may_follow(_but(writer, dim), _but(reader, dim)):
            continue
        left = _shared(func, writer, reader, dim, factor, dims)
        if left.is_empty():
            continue
        for between in writes:
            left = left.subtract(_renewed(func, writer, reader, between, dims))
        points = [least_point(s, len(dims)) for s in left.get_basic_sets() if not s.is_empty()]
        if points:
            return _told(func, writer, reader, dict(zip(dims, min(points), strict=True)))
    return None


def clobbered(
    func: Func, writes: Sequence[Done], done: Sequence[Done], across: Sequence[str] = ()
) -> Overwritten | None:
    """The least case in which an element is read, by one of `done`, after one of `writes` wrote its place.

    That is harmless, and left out, where another of `done` writes the element in between. With `across`, only writes
    in another iteration of these loops count, and only what is in between in the same iteration is harmless.
    """
    reads, renewals = [x for x in done if not x[1].write], [x for x in done if x[1].write]
    for writer, reader in product(writes, reads):
        dims = [f"{SIZE}{n}" for n in func.sizes]
        dims += [f"{p}.{v}" for p, (s, _) in (("s", writer), ("t", reader)) for v in s.dims]
        if not _may_follow(writer, reader):
            continue
        left = _met(func, writer, reader, dims, across)
        for between in renewals if not left.is_empty() else ():
            left = left.subtract(_renewed(func, writer, reader, between, dims, across))
        points = [least_point(s, len(dims)) for s in left.get_basic_sets() if not s.is_empty()]
        if points:
            return _told(func, writer, reader, dict(zip(dims, min(points), strict=True)))
    return None


def _met(func: Func, writer: Done, reader: Done, dims: Sequence[str], across: Sequence[str]) -> isl.Set:
    """The instances in which `writer` writes the place that `reader` reads later, in another iteration of `across`."""
    system, left = instance_of(func, *writer)
    right = instance_of(func, *reader, "t", system)[1]
    for x, y in zip(writer[1].at, reader[1].at, strict=True):
        if x is not None and y is not None:
            system.constraints.append((combine(system.linear(x, "s", left), system.linear(y, "t", right), -1), True))
    _in_one_memory(system, (writer, "s"), (reader, "t"))
    orders = before(_when(writer, "s"), _when(reader, "t"))
    if across:
        apart = before(tuple(f"s.{v}" for v in across), tuple(f"t.{v}" for v in across))
        orders = [[*a, *b] for a, b in product(orders, apart)]
    return _points(system, orders, dims)


def moves_on(found: Sequence[Touch], dim: int, outer: Context, loop: str, factor: int) -> bool:
    """Whether what is touched in an iteration of `loop` is in a window of `factor` rows that moves in one direction.

    Then a row is written, and last read, while the window is on it, and the rows that share its place are outside.
    """
    ends = [(ends_of(t.at[dim], t.known, outer), outer.given(*outward(t, outer))) for t in found]
    spans = [(e, ctx) for e, ctx in ends if e is not None and not any(loose(p) & found[0].inner for p in e)]
    if len(spans) < len(found):
        return False
    lows = [low for (low, _), _ in spans]
    for start in (*lows, *(scaled(p, -1) for low in lows for p in upper_sides(scaled(low, -1)))):
        stop = plus(start, constant(factor - 1))
        ahead = plus(poly(substitute(to_index(start), {loop: Var(loop) + 1}), outer), start, -1)
        if not (proved(ahead, outer) or proved(scaled(ahead, -1), outer)):
            continue
        if all(proved(plus(a, start, -1), ctx) and proved(plus(stop, b, -1), ctx) for (a, b), ctx in spans):
            return True
    return False


def _may_follow(writer: Done, reader: Done) -> bool:
    """Whether `reader` may touch an element that `writer` did before; the subscripts alone often say that it cannot."""
    apart = offsets(*writer, *reader)
    return apart is not None and bool(allowed(before(_when(writer, "s"), _when(reader, "t"), apart=apart), apart))


def _but(x: Done, dim: int) -> Done:
    """The access at any place in dimension `dim`."""
    s, a = x
    return s, replace(a, at=(*a.at[:dim], None, *a.at[dim + 1 :]))


def _when(x: Done, prefix: str) -> When:
    """An instance reads before it writes."""
    return (*times(x[0].when, prefix), int(x[1].write))


def _shared(func: Func, writer: Done, reader: Done, dim: int, factor: int, dims: Sequence[str]) -> isl.Set:
    """The instances in which `writer` writes another element, in the place that `reader` reads later."""
    system, left = instance_of(func, *writer)
    right = instance_of(func, *reader, "t", system)[1]
    for d, (x, y) in enumerate(zip(writer[1].at, reader[1].at, strict=True)):
        one = {} if x is None or y is None else system.linear(x, "s", left)
        apart = {} if x is None or y is None else combine(one, system.linear(y, "t", right), -1)
        if d != dim:
            system.constraints.append((apart, True))
            continue
        turns = system.fresh()
        if apart:
            system.constraints.append((combine(apart, {turns: factor}, -1), True))
        system.cases.append([[({turns: 1, "": -1}, False)], [({turns: -1, "": -1}, False)]])
    _in_one_memory(system, (writer, "s"), (reader, "t"))
    return _points(system, before(_when(writer, "s"), _when(reader, "t")), dims)


def _renewed(
    func: Func, writer: Done, reader: Done, between: Done, dims: Sequence[str], across: Sequence[str] = ()
) -> isl.Set:
    """The instances between which `between`, in the reader's iteration of `across`, certainly writes what it reads."""
    s, access = between
    system = instance_of(func, *writer)[0]
    right = instance_of(func, *reader, "t", system)[1]
    known = system.unsure
    system.unsure = None
    middle = instance_of(func, s, access, "u", system)[1]
    for x, y in zip(access.at, reader[1].at, strict=True):
        if x is None or y is None:
            return _nothing(dims)
        same = combine(system.linear(x, "u", middle), system.linear(y, "t", right), -1)
        system.constraints.append((same, True))
    if s.maybe or access.maybe or system.unsure is not None or known is not None:
        return _nothing(dims)
    _in_one_memory(system, (between, "u"), (reader, "t"))
    _in_one_memory(system, (writer, "s"), (reader, "t"))
    system.constraints += [({f"u.{v}": 1, f"t.{v}": -1}, True) for v in across]
    first = before(_when(writer, "s"), _when(between, "u"))
    then = before(_when(between, "u"), _when(reader, "t"))
    return _points(system, [[*a, *b] for a, b in product(first, then)], dims, [f"u.{v}" for v in s.dims])


def _in_one_memory(system: System, one: tuple[Done, str], other: tuple[Done, str]) -> None:
    """Both in the same iteration of the loops that allocate the buffer anew."""
    ((_, access), p), (_, q) = one, other
    system.constraints += [({f"{p}.{v}": 1, f"{q}.{v}": -1}, True) for v in access.private]


def _points(system: System, orders: Sequence[Order], dims: Sequence[str], more: Sequence[str] = ()) -> isl.Set:
    """The solutions in any of `orders`, over `dims` alone."""
    out = _nothing(dims)
    for order in orders:
        for piece in system.solutions([*dims, *more], order):
            whole = isl.Set.from_basic_set(piece)
            rest = whole.dim(isl.dim_type.set) - len(dims)
            out = out.union(whole.project_out(isl.dim_type.set, len(dims), rest))
    return out


def _nothing(dims: Sequence[str]) -> isl.Set:
    return isl.Set.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(dims)))


def _told(func: Func, writer: Done, reader: Done, point: dict[str, int]) -> Overwritten:
    sizes = {n: point[f"{SIZE}{n}"] for n in func.sizes}

    def seen(x: Done, prefix: str) -> tuple[str, dict[str, int], tuple[int, ...]]:
        at = {v: point[f"{prefix}.{v}"] for v in x[0].dims}
        return x[0].name, at, tuple(evaluate(ix, {**sizes, **at}) for ix in x[1].at if ix is not None)

    return Overwritten(*seen(writer, "s"), *seen(reader, "t"), sizes)
