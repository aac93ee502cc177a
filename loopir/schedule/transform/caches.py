"""Copies of part of a buffer, kept near where they are used: where one stands, how large it is, what it is called.

A copy belongs to a run of statements in a loop: the fewest, one after the other, that hold the stages it is for, which
for one stage is the outermost one around it. It is alive around these alone, where nothing else may then write, or
see, the copied elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeVar, cast

from loopir.analysis.dependence.access import Access, Statement, guarded_loads, statements_in, statements_of
from loopir.analysis.dependence.depend import Clash, Order, Pair, before, instance_times
from loopir.analysis.regions.footprint import Footprint, RegionAccess, footprint, widen_to_sizes
from loopir.arith.poly import expand_index, poly_add, sum_of_products, to_index
from loopir.arith.simplify import Context, simplify
from loopir.arith.simplify_func import Known, simplify_body, statements_known
from loopir.errors import ScheduleError
from loopir.ir.dtypes import DType, dtype as dtype_called
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cast,
    Cond,
    FloorDiv,
    Func,
    Index,
    Int,
    Load,
    Loop,
    Monoid,
    Node,
    Op,
    Reduce,
    Scope,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.layout.layouts import offset
from loopir.ir.traverse.reduction_init import reduction_start_loop
from loopir.ir.traverse.walk import (
    StmtPath,
    fresh_name,
    is_affine_visible,
    is_vector_reduction,
    leaf_paths,
    loops,
    nests_declaring,
    nodes,
    on_loads,
    rebuild,
    replace,
    replace_block,
    rewrite,
    statements,
    stored_buffers,
    take_name,
    taken_names,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_loop, find_statement, join_names
from loopir.schedule.core.naming import free_name
from loopir.schedule.legality.effects import reads, writes
from loopir.schedule.legality.loop_kinds import require_lanes_apart, require_loop_kinds_with
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.legality.scopes import require_place, scope_called

N = TypeVar("N", bound=Node)
Done = tuple[Statement, Access]
Ask = Callable[[], Context]
"""What is known, once it is asked for."""


@dataclass(frozen=True, slots=True)
class CacheSite:
    """Where a copy stands: around `nests`, which hold the stages at `leaf_paths`; `around` are the statements
    outside."""

    func: Func
    places: tuple[StmtPath, ...]
    around: tuple[Stmt, ...]
    nests: Body
    known: Known

    @property
    def place(self) -> StmtPath:
        """The only stage."""
        (place,) = self.places
        return place

    @property
    def nest(self) -> Stmt:
        """The only statement."""
        (nest,) = self.nests
        return nest

    @property
    def alone(self) -> bool:
        """Whether a stage alone is all of it, which reads before it writes."""
        return len(self.places) == 1 and self.nests[0] is self.places[0].stmt

    @property
    def labels(self) -> str:
        """The stages, for a message."""
        return join_names(p.stmt.label for p in self.places)

    def inside(self, place: StmtPath) -> Known:
        """What is known at a stage."""
        return next(k for s, k in statements_known(self.nests, self.known) if s is place.stmt)

    def starting(self, place: StmtPath) -> Context:
        """What is known where a stage, if it is a reduction, starts: the loops of the nest that it is not over."""
        s, ctx = place.stmt, self.known.here
        over = s.over if isinstance(s, Reduce) else ()
        for loop in place.loops:
            if loop.var not in over and not any(x is loop for x in self.around):
                ctx = ctx.loop(loop.var, loop.extent)
        return ctx

    def replaced(self, body: Body, done: Iterable[Stmt] = ()) -> Func:
        """The Func with `body` instead, simplified where it stands, but for what is `done`."""
        tidied = simplify_body(body, self.known, old=(*self.nests, *done))
        level = _body(self.func, self.around)
        start = next(n for n, s in enumerate(level) if s is self.nests[0])
        made = (*level[:start], *tidied, *level[start + len(self.nests) :])
        return replace_block(self.func, self.around, level, made)


def find_site(
    func: Func, stages: str | tuple[str, ...], at: str | None, buffers: Iterable[str] | None = None
) -> CacheSite:
    """The statements in loop `at`, or on top, around the `stages`, inside the allocation of `buffers`."""
    named = (stages,) if isinstance(stages, str) else stages
    if not named:
        raise ScheduleError("no stage is named", suggestion="the label of a stage")
    asked = [find_statement(func, name, instead="make the copy before tensorize") for name in named]
    places = tuple({p.stmt.label: p for p in asked}.values())
    start = max(_copy_depth(func, p, at, buffers) for p in places)
    whole: list[tuple[Stmt, ...]] = [(*p.around, p.stmt) for p in places]
    depth = start
    while all(len(w) > depth and isinstance(w[depth], Alloc) and w[depth] is whole[0][depth] for w in whole):
        depth += 1
    if any(w[:depth] != whole[0][:depth] for w in whole):
        labels = join_names(p.stmt.label for p in places)
        raise ScheduleError(
            f"not all of {labels} stand in the allocation of {join_names(buffers or ())}",
            suggestion="stages in one list of statements, or a copy for each",
        )
    body = _body(func, whole[0][:depth])
    here = [next(n for n, s in enumerate(body) if s is w[depth]) for w in whole]
    nests = body[min(here) : max(here) + 1]
    return CacheSite(func, places, whole[0][:depth], nests, known_at(func, nests[0]))


def _copy_depth(func: Func, place: StmtPath, at: str | None, buffers: Iterable[str] | None) -> int:
    """How many of the statements around `place` are outside a copy in loop `at`."""
    start = 0
    if at is not None:
        loop = find_loop(func, at)
        start = next((n + 1 for n, s in enumerate(place.around) if s is loop), 0)
        if not start:
            around = join_names(x.var for x in place.loops)
            reason = f"{loop.var!r} is no loop around {place.stmt.label}; the loops there are {around}"
            raise ScheduleError(
                reason,
                loop=loop.var,
                suggestion=f"at one of {around}"
                if around
                else "no loop at all: the copy then stands around the whole nest",
            )
    for n, s in enumerate(place.around):
        if isinstance(s, Alloc) and buffers is not None and s.buffer.name in buffers and n >= start:
            if any(isinstance(x, Loop) for x in place.around[start:n]):
                where = "inside the nest" if at is None else f"further inside {at!r}"
                raise ScheduleError(f"{s.buffer.name} is allocated {where}", suggestion="a loop inside its allocation")
            start = n + 1
    return start


def _body(func: Func, around: tuple[Stmt, ...]) -> Body:
    """The statements that `around` stands around: for a condition's two sides there is no copy of both."""
    if not around:
        return func.body
    last = around[-1]
    assert isinstance(last, Loop | Alloc)
    return last.body


@dataclass(frozen=True, slots=True)
class CachedBox:
    """The part `box` of `source` that `cache` holds; dimensions of one element are left out of it.

    With `line`, the box is a run of the source's elements in the order that they lie in.
    """

    source: Buffer
    cache: Buffer
    box: Footprint
    dims: tuple[int, ...]
    line: bool = False

    @property
    def room(self) -> tuple[Index, ...]:
        """What the box is in: the shape of the source, or how many elements it has."""
        return _linear_address(self.source).shape if self.line else self.source.shape

    def at(self, at: Sequence[Index], ask: Ask) -> tuple[Index, ...]:
        """Where the cache holds element `at`; what is known there is asked for where no sum tells it."""
        inside = (offset(self.source, tuple(at)),) if self.line else at
        return tuple([less_base(inside[d], self.box.base[d], ask) for d in self.dims])

    def copy_loops(self, taken: set[str]) -> tuple[list[Loop], list[Index]]:
        """A loop through each dimension of the box that has several elements, called none of `taken`, which grows by
        their names; and where in the room they are."""
        at, made = list(self.box.base), list[Loop]()
        for n, d in enumerate(self.dims):
            if self.box.extent[d] != Int(1):
                var = take_name(f"ax{n}", taken)
                made.append(Loop(var, self.box.extent[d], "serial", ()))
                at[d] = at[d] + Var(var)
        return made, at

    def kept(self, element: Value) -> Value:
        """What the cache stores for `element` of the source: itself, or converted to the type of the cache."""
        return element if self.cache.dtype == element.dtype else Cast(element, self.cache.dtype)

    @property
    def wider(self) -> bool:
        """Whether the cache holds the source's elements in a wider type, and each use makes of them what it did."""
        return self.cache.dtype.widens(self.source.dtype)

    def settles(self, part: Node) -> bool:
        """Whether what `part` loads from the cache is told by sums, which are in their shortest form anywhere."""
        return all(is_sum(x) for load, _ in guarded_loads(part) if load.buffer is self.cache for x in load.at)

    def element(self, at: tuple[Index, ...]) -> tuple[Index, ...]:
        """The element of the source that is at `at` in the room."""
        if not self.line:
            return at
        out: list[Index] = []
        (rest,) = at
        for size in reversed(self.source.shape[1:]):
            out.append(rest % size)
            rest = rest // size
        return (rest, *reversed(out))


def less_base(ix: Index, base: Index, ask: Ask) -> Index:
    """`ix` less `base`, simplified; a sum is so without a context."""
    p = poly_add(expand_index(ix), expand_index(base), -1)
    return to_index(p) if all(type(a) is Var for m in p for a in m) else simplify(ix - base, ask())


def is_sum(ix: Index) -> bool:
    """Whether `ix` is a sum of products of variables, which is in its shortest form anywhere once it is in one."""
    return sum_of_products(ix) is not None


def cached_box(
    site: CacheSite,
    source: Buffer,
    found: Sequence[RegionAccess],
    scope: str,
    name: str | None,
    taken: Iterable[str] = (),
) -> CachedBox:
    """The box around what `found` touches of `source`, as a buffer of its own in `scope`, called none of `taken`."""
    kind = scope_called(scope)
    require_place(source.name if name is None else name, kind, site.around, site.nests)
    inner = frozenset(x.var for x in loops(site.nests))
    box, line = _box(site, source, [replace(t, inner=inner) for t in found])
    dims = tuple(d for d, size in enumerate(box.size) if size != Int(1)) or (len(box.size) - 1,) * bool(box.size)
    used = {*taken_names(site.func), *taken}
    called = free_name(name, used) if name is not None else fresh_name(f"{source.name}_{scope}", used)
    return CachedBox(source, _cache(called, source, tuple(box.size[d] for d in dims), kind), box, dims, line)


def _box(site: CacheSite, source: Buffer, found: Sequence[RegionAccess]) -> tuple[Footprint, bool]:
    """The least box around what is touched; along the line of all elements where that is known to hold fewer.

    So it is where loops over several dimensions are one, and an iteration's part of it crosses from row to row.
    """
    box = widen_to_sizes(
        footprint(found, site.known.here, source.shape), source.shape, site.func.sizes, site.known.here
    )
    divided = any(isinstance(n, FloorDiv) for t in found for x in t.at if not is_sum(x) for n in nodes(x))
    if not divided or source.layout is not None or any(t.write for t in found):
        return box, False
    line = _linear_address(source)
    flat = [replace(t, buffer=line, at=(offset(source, t.at),)) for t in found]
    run = widen_to_sizes(footprint(flat, site.known.here, line.shape), line.shape, site.func.sizes, site.known.here)
    size, most = (prod(n.value if isinstance(n, Int) else FAR for n in b.size) for b in (run, box))
    return (run, True) if size < min(most, FAR) else (box, False)


FAR = 1 << 62
"""More than any buffer has."""


def _linear_address(b: Buffer) -> Buffer:
    """The elements of a buffer without a layout, in one dimension."""
    size: Index = Int(1)
    for d in b.shape:
        size = size * d
    return replace(b, shape=(size,))


def clash_in(site: CacheSite, first: Sequence[Done], then: Sequence[Done], *, ordered: bool = True) -> Clash | None:
    """One of `first` and a later one of `then`, in one run of the nests, on one element.

    An instance reads before it writes. Where it is not `ordered`, an earlier one of `then` counts as well.
    """
    same: Order = [({f"s.{x.var}": 1, f"t.{x.var}": -1}, True) for x in site.around if isinstance(x, Loop)]
    for (s, a), (t, b) in product(first, then):
        if a.buffer == b.buffer and (a.write or b.write):
            earlier = before((*instance_times(s.when, "s"), int(a.write)), (*instance_times(t.when, "t"), int(b.write)))
            orders = [[*same, *o] for o in earlier] if ordered else [same]
            found = next(Pair(site.func, s, a, t, b).clashes(orders), None)
            if found is not None:
                return found
    return None


def accesses_of(site: CacheSite, name: str) -> list[Done]:
    """What the nests do with the buffer `name`; the folding of a reduction counts as writing alone."""
    here = {id(x) for x in statements(site.nests)}
    labels = {p.stmt.label for p in leaf_paths(site.nests)}
    near = statements_in(site.func, nests_declaring(*labels))
    every = [s for s in near if s.label in labels and name in s.touches]
    inside = [s for s in every if not s.init or id(reduction_start_loop(s.place)) in here]
    return [(s, a) for s in inside for a in s.accesses if a.buffer == name and (a.write or not a.fold)]


def require_unmodified(
    site: CacheSite, names: Iterable[str], what: str, reads: Callable[[Access], bool] = lambda a: True
) -> None:
    """Refuse if the nests write an element of `taken_names` after the copy is made and before a stage reads it there.

    `reads` tells the stages' accesses that read what the copy is made of.
    """
    if site.alone and isinstance(site.place.stmt, Store):
        return
    stages = {p.stmt.label for p in site.places}
    for name in sorted({*names} & writes(site.nests)):
        done = accesses_of(site, name)
        mine = [(s, a) for s, a in done if not a.write and s.label in stages and reads(a)]
        clash = clash_in(site, [(s, a) for s, a in done if a.write], mine)
        if clash is not None:
            reason = f"{what} is written by {clash.first} in the same nest"
            raise refusal(clash, reason, None, "a loop further inside, between the write and the read")


def _cache(name: str, source: Buffer, shape: tuple[Index, ...], scope: Scope) -> Buffer:
    return Buffer(name, shape, source.dtype, scope)


def require_unwritten(site: CacheSite, parts: Iterable[Node], what: str) -> None:
    """Refuse if `parts`, which are evaluated for the copy, too, read memory that the nest writes."""
    if changed := sorted(reads(parts) & writes(site.nests)):
        reason = f"{what} is read from {join_names(changed)}, which is written in the same nest"
        raise ScheduleError(reason, suggestion="a loop further inside, around the reads alone")


def find_dtype(name: str) -> DType:
    """The element type called `name`; ScheduleError if there is none."""
    try:
        return dtype_called(name)
    except TypeError as error:
        raise ScheduleError(str(error), suggestion="one of these") from None


def redirect_loads(node: N, copies: CachedBox, ask: Ask, only: Set[tuple[Index, ...]] | None = None) -> N:
    """`node` with each element of the source that it loads, or `only` these, taken from the cache."""

    source, kind = copies.source, copies.cache.dtype

    def asked(n: Node) -> bool:
        return isinstance(n, Load) and n.buffer.name == source.name and (only is None or n.at in only)

    def visit(n: Node) -> Node:
        if type(n) is Op:
            return on_loads(n, visit)
        if isinstance(n, Buffer | Monoid) or (isinstance(n, Index | Cond) and is_affine_visible(n)):
            return n
        if isinstance(n, Cast) and kind != source.dtype and asked(n.value):
            kept = taken(n.value)
            return kept if n.type == kind else Cast(kept, n.type)
        if asked(n):
            return Cast(taken(n), source.dtype) if copies.wider else taken(n)
        return rebuild(n, visit)

    def taken(n: Node) -> Load:
        return Load(copies.cache, copies.at(cast(Load, rebuild(n, visit)).at, ask))

    return cast(N, visit(node))


def loads(parts: Iterable[Node], buffer: str, ask: Ask) -> list[RegionAccess]:
    """The loads of `buffer` in `parts`, with what is known there, which is asked for if there are any."""
    found = [x for part in parts for x in guarded_loads(part) if x[0].buffer.name == buffer]
    if not found:
        return []
    known = ask()
    return [RegionAccess(n.buffer, n.at, False, known.inside(*conds) if conds else known) for n, conds in found]


def inside_nests(nests: Body, old: Stmt, new: Stmt) -> Body:
    """`nests` with the leaf statement `old` replaced."""
    return rewrite(nests, lambda s: new if s is old else None)


def _folded_lanes(site: CacheSite) -> list[str]:
    """The loops around the copy that hold a reduction over them alone."""
    return [x.var for x in site.around if isinstance(x, Loop) and is_vector_reduction(x)]


def require_unshared(site: CacheSite, made: Func, name: str) -> None:
    """Refuse if the copy reads, as it is whole, what another iteration that runs at the same time writes, or stands
    beside a fold of lanes."""
    require_lanes_apart(made, _folded_lanes(site), "with the copy")
    at_once = [x for x in site.around if isinstance(x, Loop) and x.kind not in ("serial", "unroll")]
    if not any(name in stored_buffers(x) for x in at_once):
        return
    labels = {p.stmt.label for p in site.places}
    renews = [a.private for s in statements_of(site.func) if s.label in labels for a in s.accesses if a.buffer == name]
    own = {x.var for x in at_once if all(x.var in private for private in renews)}
    at_once = [x for x in at_once if x.var not in own]  # in which the copy may read what is not its iteration's own
    if not at_once:
        return
    names, instead = [x.var for x in at_once], "a copy of what the iteration alone touches"
    require_loop_kinds_with("with the copy,", made, names, instead)
