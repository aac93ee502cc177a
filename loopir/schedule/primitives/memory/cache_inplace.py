"""cache_inplace: what one iteration reads and writes of a buffer is kept in memory of its own meanwhile."""

from __future__ import annotations

from functools import partial, reduce

from loopir.analysis.dataflow.coverage import is_filled_by_earlier_nest
from loopir.analysis.regions.footprint import RegionAccess
from loopir.arith.simplify import Context, nonnegative, poly
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, Load, Loop, Reduce, Store
from loopir.ir.traverse.labels import labels_of
from loopir.ir.traverse.reduction_init import reduction_start_loop
from loopir.ir.traverse.walk import (
    StmtPath,
    fresh_name,
    is_affine_visible,
    leaf_paths,
    loaded_buffers,
    replace,
    statements,
    stored_buffers,
    taken_names,
)
from loopir.schedule.core.find import find_buffer, find_loop
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import (
    CachedBox,
    CacheSite,
    cached_box,
    find_site,
    inside_nests,
    less_base,
    loads,
    redirect_loads,
)


@primitive
def cache_inplace(func: Func, buffer: str, scope: str, at: str, *, name: str | None = None) -> Func:
    """Copy what one iteration of loop `at` touches of `buffer` into memory of `scope`, update it there, and copy it
    back.

    So the state of a recurrence stays in registers over all its steps. The copy is the smallest box around all that the
    iteration reads and writes of `buffer`, which has its elements by then: an array that the caller gives, or one that
    a nest before has filled. All loops around, and those inside, run in order as yet. `name` is the copy's.

    before:
        def f(x: "float32[4, 9]", S: "inout float32[4]", y: "out float32[4, 9]"):
            for i in range(4):
                for t in range(9):
                    S[i] = S[i] * 0.5 + x[i, t]
                    y[i, t] = S[i]
    call:    cache_inplace("S", "local", "i")
    after:
        def f(x: "float32[4, 9]", S: "inout float32[4]", y: "out float32[4, 9]"):
            for i in range(4):
                with alloc("float32[1]", scope="local") as S_local:
                    S_local[0]: "S_local_in" = S[i]
                    for t in range(9):
                        S_local[0]: "S" = S_local[0] * 0.5 + x[i, t]
                        y[i, t] = S_local[0]
                    S[i]: "S_local_out" = S_local[0]
    refuses: cache_inplace("y", "local", "i")  # y may have no elements yet, which would be copied
    refuses: cache_inplace("x", "local", "i")  # nothing in 'i' writes x
    refuses: cache_inplace("S", "local", "j")  # there is no loop 'j'

    before:
        def g(S: "inout float32[4, 8]"):
            for i in parallel(4):
                for k in range(7):
                    S[i, k + 1] = S[i, k] * 0.5
    refuses: cache_inplace("S", "local", "i")  # the iterations of 'i' do not run in order
    """
    source, loop = find_buffer(func, buffer), find_loop(func, at)
    site = _updates(func, source, loop)
    touched = [t for p in site.places for t in _accesses_of(site, p, source)]
    first = site.places[0].stmt.label
    given = any(a.buffer.name == source.name and a.access == "inout" for a in func.args)
    if not given and not is_filled_by_earlier_nest(func, first, source.name):
        reason = f"{source.name} may have no elements yet, which would be copied"
        raise ScheduleError(reason, suggestion=f"a nest before that fills {source.name}, or cache_write of a stage")
    box = cached_box(site, source, touched, scope, name)
    _require_box_inside(site, box)
    body = site.nests
    for p in site.places:
        body = inside_nests(body, p.stmt, _redirected(site, box, p))
    whole = replace(loop, body=body)
    if source.name in loaded_buffers(whole) | stored_buffers(whole):
        reason = f"{source.name} is read for a subscript, a guard or a length"
        raise ScheduleError(reason, suggestion="a loop further inside, around the reads and writes alone")
    taken = taken_names(func) | {box.cache.name}
    into, out = (_box_copy(site, box, taken, back=x) for x in (False, True))
    return site.replaced((Alloc(box.cache, (*into, *body, *out)),))


def _updates(func: Func, source: Buffer, loop: Loop) -> CacheSite:
    """The statements in `loop` that touch `source`, all in order."""
    leaves = [p for p in leaf_paths((loop,)) if _speaks_of(p, source.name)]
    if not any(source.name in stored_buffers(p.stmt) for p in leaves):
        reason = f"nothing in {loop.var!r} writes {source.name}"
        raise ScheduleError(reason, loop=loop.var, suggestion=f"cache_read of {source.name}")
    if any(isinstance(p.stmt, Reduce) and p.stmt.atomic for p in leaves):
        reason = f"other threads fold into {source.name} meanwhile in {loop.var!r}"
        raise ScheduleError(reason, loop=loop.var, suggestion="the copy before that is atomic")
    site = find_site(func, tuple(dict.fromkeys(p.stmt.label for p in leaves)), loop.var, [source.name])
    every = (*(x for x in site.around if isinstance(x, Loop)), *(x for x in statements((loop,)) if isinstance(x, Loop)))
    unordered = next((x for x in every if x.kind not in ("serial", "unroll")), None)
    if unordered is not None:
        reason = f"the iterations of {unordered.var!r} do not run in order"
        raise ScheduleError(reason, loop=unordered.var, suggestion=f"before it is {unordered.kind}")
    return site


def _speaks_of(p: StmtPath, name: str) -> bool:
    return name in loaded_buffers(p.stmt) | stored_buffers(p.stmt)


def _accesses_of(site: CacheSite, p: StmtPath, source: Buffer) -> list[RegionAccess]:
    """What the statement reads and writes of `source`; refuse what starts, or is folded over, outside."""
    s, known = p.stmt, partial(lambda: site.inside(p).here)
    if isinstance(s, Reduce):
        start = reduction_start_loop(p) if s.init is not None else s
        if not any(x is start for x in statements(site.nests)) or len(s.buffers) > 1:
            reason = f"{s.label} starts outside, or folds several values"
            raise ScheduleError(reason, suggestion=f"decompose_reduction({s.label!r}) first")
    read = loads(s.values, source.name, known)
    if isinstance(s, Reduce) and s.init is not None:
        read += loads(s.init, source.name, lambda: site.starting(p))
    ctx = known() if isinstance(s, Store) else site.starting(p)
    wrote = [RegionAccess(b, s.at, True, ctx) for b in s.buffers if b.name == source.name]
    found = [*read, *wrote]
    if not all(is_affine_visible(x) for t in found for x in t.at):
        reason = f"which elements {s.label} touches of {source.name} is read from memory"
        raise ScheduleError(reason, suggestion="a buffer that is touched where indices say")
    return found


def _require_box_inside(site: CacheSite, box: CachedBox) -> None:
    """Refuse a box that is not seen to lie inside the buffer."""
    known = site.known.here
    for base, size, whole in zip(box.box.base, box.box.extent, box.room, strict=True):
        if not (nonnegative(poly(base, known), known) and nonnegative(poly(whole - base - size, known), known)):
            reason = f"what is touched of {box.source.name} is in no box that is seen to lie inside it"
            raise ScheduleError(reason, suggestion="a loop further outside")


def _redirected(site: CacheSite, box: CachedBox, p: StmtPath) -> Store | Reduce:
    """The statement with all that it touches of the source taken from the cache, and stored there."""
    s = p.stmt
    assert isinstance(s, Store | Reduce)
    inside, starting = (lambda: site.inside(p).here), (lambda: site.starting(p))
    if isinstance(s, Store):
        new: Store | Reduce = replace(s, value=redirect_loads(s.value, box, inside))
    else:
        init = None if s.init is None else tuple(redirect_loads(x, box, starting) for x in s.init)
        new = replace(s, values=tuple(redirect_loads(x, box, inside) for x in s.values), init=init)
    if box.source.name not in {b.name for b in s.buffers}:
        return new
    at = box.at(s.at, inside if isinstance(s, Store) else starting)
    if isinstance(new, Store):
        return replace(new, buffer=box.cache, at=at)
    around = {x.var for x in site.around if isinstance(x, Loop)}
    return replace(new, buffers=(box.cache,), at=at, over=tuple(x for x in new.over if x not in around))


def _box_copy(site: CacheSite, box: CachedBox, taken: set[str], *, back: bool) -> Body:
    """The nest that fills the cache, or that stores it `back`."""
    loops, at = box.copy_loops(taken)

    def known() -> Context:
        return reduce(lambda ctx, x: ctx.loop(x.var, x.extent), loops, site.known.here)

    element, kept = tuple(at), tuple(less_base(at[d], box.box.base[d], known) for d in box.dims)
    label = fresh_name(f"{box.cache.name}_{'out' if back else 'in'}", labels_of(site.func))
    copy = (
        Store(label, box.source, element, Load(box.cache, kept))
        if back
        else Store(label, box.cache, kept, Load(box.source, element))
    )
    return reduce(lambda body, x: (replace(x, body=body),), reversed(loops), (copy,))
