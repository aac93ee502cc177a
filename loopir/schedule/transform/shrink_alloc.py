"""Shrink an allocation into the loop that uses it, to what one iteration touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar, cast

from loopir.analysis.dependence.access import Access, Statement, is_affine_visible, statements_in
from loopir.analysis.dependence.access_groups import access_groups, unresolved_pairs
from loopir.analysis.dependence.depend import Order, Pair, before, instance_times
from loopir.analysis.regions.footprint import Footprint, accesses_in, footprint, widen_to_sizes
from loopir.arith.poly import constant_part, expand_index, poly_add, to_index
from loopir.arith.simplify_func import Known, simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    THREAD_AXES,
    Alloc,
    Buffer,
    Func,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    Stmt,
    Store,
    Var,
)
from loopir.ir.traverse.free_vars import ARITHMETIC
from loopir.ir.traverse.memo import peek_memo
from loopir.ir.traverse.walk import (
    accessed_buffers,
    alloc_of,
    map_stmts,
    nests_declaring,
    nests_touching,
    on_loads,
    path_to,
    replace,
    replace_stmt,
)
from loopir.schedule.core.facts import known_at, known_in
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.reduction_starts import rebuild_starting
from loopir.schedule.transform.split_range import without_unused_over

N = TypeVar("N", bound=Node)


def iteration_footprint(
    func: Func, loop: Loop, buffer: Buffer, names: set[str], *, write: bool | None = None, known: Known | None = None
) -> Footprint | None:
    """What one iteration of `loop` reads and writes (or one of them) of the buffers, which are shaped like `buffer`.

    Where an end of it is read from memory, a dimension is taken whole. None if it touches nothing. `known` is
    what is known in the loop, if the caller has it.
    """
    known = known or known_in(func, loop)
    found = [t for t in accesses_in(loop.body, known, names) if write is None or t.write == write]
    if not found:
        return None
    box = widen_to_sizes(footprint(found, known.here, buffer.shape, guarded=True), buffer.shape, func.sizes, known.here)
    parts = zip(box.base, box.extent, box.size, buffer.shape, strict=True)
    seen = [(b, e, s) if is_affine_visible(b) else (Int(0), d, d) for b, e, s, d in parts]
    return Footprint(*(tuple(x[n] for x in seen) for n in range(3)))


def _rebased_fold(n: Reduce, new: Mapping[str, Buffer], at: tuple[Index, ...]) -> Reduce:
    """The fold `n` into the buffers of `new`, at the element `at`; ScheduleError if these are only some of its own."""
    if not all(b.name in new for b in n.buffers):
        reason = f"{n.label} folds into {join_names(b.name for b in n.buffers)} at one element, so they have one shape"
        others = join_names(b.name for b in n.buffers if b.name in new)
        raise ScheduleError(reason, suggestion=f"keep {others} as it is")
    return replace(n, buffers=tuple(new[b.name] for b in n.buffers), at=at)


def rebase_accesses(node: N, new: Mapping[str, Buffer], at: Callable[[tuple[Index, ...]], tuple[Index, ...]]) -> N:
    """`node` with each buffer named in `new` exchanged, and used at what `at` makes of its indices."""

    def load(n: Load) -> Load:
        old = n.at if all(map(is_affine_visible, n.at)) else tuple([visit(x) for x in n.at])
        if n.buffer.name in new:
            return Load(new[n.buffer.name], at(old))
        return n if old is n.at else Load(n.buffer, old)

    def store(n: Store) -> Store:
        value = visit(n.value)
        if n.buffer.name in new:
            return Store(n.label, new[n.buffer.name], at(n.at), value)
        return n if value is n.value else Store(n.label, n.buffer, n.at, value)

    def visit(n: Any) -> Any:
        kind = n.__class__
        if kind is Op:
            return on_loads(n, visit)
        if kind is Load:
            return load(n)
        if kind is Buffer or (kind in ARITHMETIC and is_affine_visible(n)):
            return n
        if kind is Store and all(map(is_affine_visible, n.at)):
            return store(n)
        if isinstance(n, Stmt) and (names := peek_memo(accessed_buffers, n)) is not None and names.isdisjoint(new):
            return n
        if isinstance(n, Alloc) or (isinstance(n, Loop) and isinstance(n.extent, Int)):
            return map_stmts(n, visit)
        n = rebuild_starting(n, visit)
        if isinstance(n, Store) and n.buffer.name in new:
            return replace(n, buffer=new[n.buffer.name], at=at(n.at))
        if isinstance(n, Reduce):  # the place in a ring, of what it folds into or asks for its element, tells the loop
            folds = any(b.name in new for b in n.buffers)
            return without_unused_over(_rebased_fold(n, new, at(n.at)) if folds else n)
        return n

    return visit(node)


def shrink_into_loop(func: Func, names: set[str], where: Loop, box: Footprint) -> Func:
    """`func` with the buffers called `names`, used in the loop `where` alone, allocated there, as large as `box`."""
    old = allocations(func, names)
    after = with_alloc_inside(where, old, box, lambda: known_at(func, where))
    return replace_stmt(func, where, after, opened=[*old.values()])


def with_alloc_inside(where: Loop, old: Mapping[str, Alloc], box: Footprint, known: Callable[[], Known]) -> Loop:
    """The loop `where`, which stands where so much is `known`, with memory of its own for that which `old` allocate."""
    dense = all(s.buffer.layout is None for s in old.values())
    new = {n: replace(s.buffer, shape=box.size) if dense else s.buffer for n, s in old.items()}
    moves = _Moves([constant_part(x) for x in box.base])
    body = tuple(rebase_accesses(s, new, moves.at if dense else tuple) for s in where.body)
    for n in reversed(list(old)):
        body = (Alloc(new[n], body),)
    after = Loop(where.var, where.extent, where.kind, body)
    return cast(Loop, *simplify_body((after,), known(), old=where.body)) if moves.open else after


@dataclass(slots=True)
class _Moves:
    """Subscripts less the base of a box: sums in their shortest form, which no context makes shorter."""

    base: Sequence[tuple[Index, int]]
    """Without the constant at its end, and that."""
    open: bool = False
    """Whether there was one that is no sum, and is to be simplified where it stands."""
    done: dict[object, Index] = field(default_factory=dict[object, Index])

    def at(self, at: Sequence[Index]) -> tuple[Index, ...]:
        return tuple([self._moved(d, ix) for d, ix in enumerate(at)])

    def _moved(self, d: int, ix: Index) -> Index:
        stem, more = constant_part(ix)
        base, less = self.base[d]
        if stem == base:  # as most are, or one of them is a constant
            return Int(more - less)
        if type(stem) is Var and type(base) is Int:
            return stem + (more - less)
        found = self.done.get((d, ix))
        if found is None:
            whole_base = base + less
            p = poly_add(expand_index(ix), expand_index(whole_base), -1)
            whole = all(type(a) is Var for m in p for a in m)
            self.open = self.open or not whole
            found = self.done[d, ix] = to_index(p) if whole else ix - whole_base
        return found


def allocations(func: Func, names: Iterable[str]) -> dict[str, Alloc]:
    """What allocates the buffers, outer ones first."""
    found = [s for n in sorted(names) if (s := alloc_of(func, n)) is not None]
    if len(found) > 1:
        found.sort(key=lambda s: len(path_to(func, s)))
    return {s.buffer.name: s for s in found}


def may_renew(func: Func, names: set[str], loop: Loop) -> bool:
    """Whether `loop` may have memory of its own for the buffers: they are the Func's, and no thread's of a block."""
    allocs = allocations(func, names)
    if len({b.buffer.shape for b in allocs.values()}) > 1:
        return False
    threads = any(isinstance(s, Loop) and s.kind in THREAD_AXES for s in path_to(func, loop))
    return set(allocs) == names and not (threads and any(s.buffer.scope == "shared" for s in allocs.values()))


def shrink_where_possible(func: Func, names: set[str], where: Loop, *, apart: bool = False) -> Func:
    """`func` with the buffers called `names` allocated in `where`, if they are used there alone and carry nothing over.

    Nothing is carried over if no iteration reads what another wrote: of this loop, or of a loop around it. That is
    known of iterations that are `apart`.
    """
    loop = where.var
    held, used = nests_declaring(loop), nests_touching(*names)
    every = statements_in(func, lambda nest: held(nest) or used(nest))
    inside = [s for s in every if loop in s.dims]
    elsewhere = (s for s in every if loop not in s.dims)  # a reduction's start, for one
    if any(s.uses(names) and any(a.buffer in names for a in s.accesses) for s in elsewhere):
        return func  # what starts a reduction touches less than the reduction does
    if not may_renew(func, names, where):
        return func
    start = next(s.when[: s.when.index(loop) + 1] for s in inside if not s.init)
    using = [s for s in inside if not names.isdisjoint(s.touches)]
    if any(s.when[: len(start)] != start for s in using):
        return func  # a reduction that starts outside
    if not apart and _carried(func, names, using, before(instance_times(start, "s"), instance_times(start, "t"))):
        return func
    one = next(iter(allocations(func, names).values())).buffer
    box = iteration_footprint(func, where, one, names)
    return func if box is None else shrink_into_loop(func, names, where, box)


def _carried(func: Func, names: set[str], using: Sequence[Statement], earlier: Sequence[Order]) -> bool:
    """Whether one of the statements reads what one wrote `earlier`."""
    asked: dict[tuple[int, ...], bool] = {}
    kept: list[object] = []
    """What was asked about, which has to stay alive as long as it is identified by `id`."""

    def clear(s: Statement, a: Access, t: Statement, b: Access) -> bool:
        key = id(s), id(a), id(t), id(b)
        if key not in asked:
            kept.append((s, a, t, b))
            asked[key] = not Pair(func, s, a, t, b).possible(earlier)
        return asked[key]

    def passes(a: Access, b: Access) -> bool:
        return a.write and a.buffer in names and not b.write

    pairs = [*product(using, using)]
    if any(not clear(s, a[0], t, b[0]) for s, t in pairs for a, b in access_groups(s, t, passes)):
        return True  # as it most often is, by what is read first
    return any(not clear(s, a, t, b) for s, t in pairs for a, b in unresolved_pairs(s, t, clear, passes))
