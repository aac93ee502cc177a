"""cache_write: what one iteration writes is kept in memory of its own, and stored when the iteration is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dataflow.reaching_writes import is_written_before
from loopir.analysis.dependence.access import is_affine_visible, statements_in
from loopir.analysis.dependence.depend import Clash
from loopir.analysis.dependence.reordering import Origin
from loopir.analysis.regions.footprint import RegionAccess
from loopir.errors import ScheduleError, VerifyError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Func,
    If,
    Index,
    Load,
    Loop,
    Node,
    Not,
    Reduce,
    Store,
    Var,
    conjuncts,
)
from loopir.ir.traverse.labels import labels_of
from loopir.ir.traverse.reduction_init import Elements, reduction_start_loop
from loopir.ir.traverse.walk import (
    children,
    free_vars,
    fresh_name,
    leaf_paths,
    loaded_buffers,
    loops,
    nests_declaring,
    nodes,
    replace,
    statements,
    substitute,
    take_name,
    taken_names,
)
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.legality.asked_memory import unwritten_memory
from loopir.schedule.legality.loop_kinds import require_concurrent
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.legality.widening import may_touch_more, require_apart_at_once, require_inside_shapes
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import (
    CachedBox,
    CacheSite,
    Done,
    accesses_of,
    cached_box,
    clash_in,
    find_site,
    inside_nests,
    is_sum,
    redirect_loads,
    require_unwritten,
)


@primitive
def cache_write(func: Func, stage: str, scope: str, at: str | None = None, *, name: str | None = None) -> Func:
    """Let `stage` write into memory of `scope`, and copy that out at the end of each iteration of loop `at`.

    A reduction keeps its accumulators there: it starts and folds in the copy, and stores each element once; without
    `init` it starts from what is in the buffer. The copy is the smallest box around what is written; dimensions of
    one element are left out. From then on `stage` is the nest that copies out, and what was `stage` is called after
    the copy, which `name` may name. Where `at` is None, the whole nest writes to the copy.

    before:
        def f(A: "float32[8, 8]", S: "out float32[8]"):
            for i in range(8):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    cache_write("S", "local", at="i")
    after:
        def f(A: "float32[8, 8]", S: "out float32[8]"):
            for i in range(8):
                with alloc("float32[1]", scope="local") as S_local:
                    for k in range(8):
                        S_local[0] = sum(A[i, k], over=k, init=0.0)
                    S[i] = S_local[0]
    refuses: cache_write("S", "local", at="k")  # S starts outside 'k'

    before:
        def g(n: "size", A: "float32[n, 8]", S: "inout float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k)
    call:    cache_write("S", "local", at="i")
    after:
        def g(n: "size", A: "float32[n, 8]", S: "inout float32[n]"):
            for i in range(n):
                with alloc("float32[1]", scope="local") as S_local:
                    S_local[0]: "S_local_in" = S[i]
                    for k in range(8):
                        S_local[0] = sum(A[i, k], over=k)
                    S[i] = S_local[0]

    before:
        def scan(n: "size", A: "float32[n, 8]", S: "out float32[n, 8]", a: "inout float32[9]"):
            for i in range(n):
                for j in range(8):
                    S[i, j] = select(1 <= j, S[i, j - 1], 0.0) + A[i, j]
            for k in range(8):
                a[k + 1] = a[k] + a[k + 1]
    call:    cache_write("S", "local", at="i")  # what it has written, it reads there
    after:
        def scan(n: "size", A: "float32[n, 8]", S: "out float32[n, 8]", a: "inout float32[9]"):
            for i in range(n):
                with alloc("float32[8]", scope="local") as S_local:
                    for j in range(8):
                        S_local[j] = select(1 <= j, S_local[j - 1], 0.0) + A[i, j]
                    for j_out in range(8):
                        S[i, j_out] = S_local[j_out]
            for k in range(8):
                a[k + 1] = a[k] + a[k + 1]
    refuses: cache_write("a", "local")          # a reads a in the same nest
    """
    found = find_stage(func, stage)
    buffers = found[0].stmt.buffers
    site = find_site(func, stage, at, [b.name for b in buffers])
    s = site.place.stmt
    _require_no_threads(site)
    own, seen = _read_there(site, buffers)
    _require_start(site, at)
    caches: list[CachedBox] = []
    for n, b in enumerate(buffers):
        taken = {c.cache.name for c in caches}
        new = cached_box(
            site, b, [RegionAccess(b, s.at, True, site.starting(site.place))], scope, name if n == 0 else None, taken
        )
        caches.append(new)
    inner = _inner(site, caches, own)
    made = inside_nests(site.nests, s, inner)
    out = _copies(site, caches, out=True)
    into = _copies(site, caches, out=False) if isinstance(s, Reduce) and s.init is None else ()
    body: Body = (*into, *made, *out)
    sums = all(map(is_sum, inner.at)) and all(map(caches[0].settles, children(inner)))
    done = body if sums and not _has_negated_guard(body) else ()
    for c in reversed(caches):
        body = (Alloc(c.cache, body),)
    new = site.replaced(body, done)
    if into:
        _require_no_wider(site, new, (into, out))
    _require_unseen(func, new, seen)
    if any(isinstance(x, Loop) and x.kind == "vectorize" for x in site.around):
        stored = [p.stmt.label for p in leaf_paths(out)]
        require_concurrent(new, stored, "with the copy", f"cache_write({stage!r}, ...) before the loop is vectorized")
    return new


def _has_negated_guard(body: Body) -> bool:
    """Whether a guard is the other side of one, and not in its shortest form."""
    return any(isinstance(t, Not) for s in statements(body) if isinstance(s, If) for t in conjuncts(s.cond))


def _read_there(site: CacheSite, buffers: Sequence[Buffer]) -> tuple[set[tuple[Index, ...]], ScheduleError | None]:
    """The elements that the stage reads there and has always written there before, which it may read from the copy.

    And a refusal if the nest reads anything else that the stage wrote, or another statement there writes it, too.
    """
    s = site.place.stmt
    if site.alone and isinstance(s, Store):
        return set(), None
    own: set[tuple[Index, ...]] = set()
    seen: ScheduleError | None = None
    for b in buffers:
        done = accesses_of(site, b.name)
        mine = [x for x in done if x[1].write and x[0].label == s.label]
        seen = seen or _written_by_others(site, b, mine, done)
        read = [x for x in done if not x[1].write]
        clash = clash_in(site, mine, read)
        if clash is not None:
            own |= _own_loads(site, b, mine, read)
            clash = clash_in(site, mine, [x for x in read if x[0].label != s.label or x[1].at not in own])
        if clash is not None:
            seen = seen or refusal(clash, f"{clash.second} reads {b.name} in the same nest", None, _FURTHER)
    return own, seen


def _written_by_others(site: CacheSite, b: Buffer, mine: Sequence[Done], done: Sequence[Done]) -> ScheduleError | None:
    """A refusal if another statement of the nest writes an element that the stage writes."""
    others = [x for x in done if x[1].write and x[0].label != site.place.stmt.label]
    if clash_in(site, mine, others, ordered=False) is None:
        return None
    clash, who = clash_in(site, mine, others), 1
    if clash is None:
        clash, who = clash_in(site, others, mine), 0
    assert clash is not None
    reason = f"{b.name} is written by {(clash.first, clash.second)[who]}, too, in the same nest"
    return refusal(clash, reason, None, _FURTHER)


def _require_unseen(func: Func, new: Func, seen: ScheduleError | None) -> None:
    """Refuse as `seen` says, unless no output of `new` tells."""
    if seen is not None and not same_values(func, new):
        raise seen


def _require_no_threads(site: CacheSite) -> None:
    """Refuse what other threads fold into."""
    s = site.place.stmt
    if isinstance(s, Reduce) and s.atomic:
        raise ScheduleError(
            f"{s.label} is atomic: other threads fold into the same elements meanwhile",
            suggestion=f"rfactor of {s.label}, whose parts no other thread folds into",
        )


def _own_loads(site: CacheSite, b: Buffer, writes: Sequence[Done], reads: Sequence[Done]) -> set[tuple[Index, ...]]:
    """What the value of a store loads that it has always written before, in the same run of the nest."""
    s = site.place.stmt
    if not isinstance(s, Store) or len(writes) != 1:
        return set()
    around = [x.var for x in site.around if isinstance(x, Loop)]
    inside = (x.cond if isinstance(x, If) else x.extent for x in statements((site.nest,)) if isinstance(x, If | Loop))
    if any(b.name in loaded_buffers(x) for x in (*inside, *s.at)):
        return set()
    found: set[tuple[Index, ...]] = set()
    for at in {
        n.at for n in nodes(s.value) if isinstance(n, Load) and n.buffer == b and all(map(is_affine_visible, n.at))
    }:
        loads = [(x, a) for x, a in reads if x.label == s.label and a.at == at]
        if all(is_written_before(site.func, load, writes[0], around) for load in loads):
            found.add(at)
    return found


def _require_no_wider(site: CacheSite, new: Func, copies: Sequence[Body]) -> None:
    """Refuse if elements that are copied in and out, though nothing folds into them, are none, or another's."""
    s, inside = site.place.stmt, site.place.around[len(site.around) :]
    if not may_touch_more(site.place, inside, site.known.here):
        return
    label, over = s.label, s.over if isinstance(s, Reduce) else ()
    own = [x.var for x in inside if isinstance(x, Loop) and x.var not in over]
    came: dict[str, Origin] = {}
    for copy in copies:
        back = {v: Var(x.var) for v, x in zip(own, loops(copy), strict=True)}
        came |= {p.stmt.label: Origin(label, back) for p in leaf_paths(copy)}
    require_inside_shapes(site.func, new, label, came, f"{label} would be copied")
    require_apart_at_once(site.func, new, label, came, f"{label} would be copied")
    clash = _overwritten(site, new, label)
    if clash is not None:
        w = clash.witness  # its iteration of the copy need be none of the statement's, so that there is no pair to name
        what = f"{w.buffer}[{', '.join(map(str, w.element or ()))}]"
        unsure = "" if clash.inexact is None else f"; {clash.inexact}"
        reason = f"{clash.second} writes {what}, which {label} would be copied over, in the same nest{unsure}"
        raise ScheduleError(reason, suggestion=_FURTHER)


def _require_elements_told(site: CacheSite, given: Iterable[Node]) -> None:
    """Refuse if memory that tells which elements are copied may not be written where nothing is folded, as the copies
    do without the loops, and the conditions on these, that the stage folds over."""
    s, inside = site.place.stmt, site.place.around[len(site.around) :]
    over = {*s.over} if isinstance(s, Reduce) else set[str]()
    left = [
        x for x in inside
        if (isinstance(x, Loop) and x.var in over) or (isinstance(x, If) and not over.isdisjoint(free_vars(x.cond)))
    ]  # fmt: skip
    if asked := unwritten_memory(site.func, s.label, given, left):
        reason = f"which elements are copied is read from {join_names(asked)}, also where {s.label} never folds"
        raise ScheduleError(reason, suggestion="a loop further in, or loops that surely run")


def _overwritten(site: CacheSite, new: Func, label: str) -> Clash | None:
    """Two writes of one element of what `label` writes, one of them by another statement of its nest in `new`."""
    others = {p.stmt.label for p in leaf_paths(site.nests)} - {label}
    around = {x.var for x in site.around if isinstance(x, Loop)}
    inner = [x for x in statements_in(new, nests_declaring(label, *others)) if around.isdisjoint(x.gone)]
    every = [(x, a) for x in inner for a in x.accesses if a.write]
    pair = ([x for x in every if x[0].label in names] for names in ({label}, others))
    return clash_in(replace(site, func=new), *pair, ordered=False)


IN_ORDER = ("serial", "unroll")
_FURTHER = "a loop further inside, around what is written alone"


def _require_start(site: CacheSite, at: str | None) -> None:
    """Refuse a reduction that starts outside the nest, where its accumulators would not be there yet.

    So it is for one that folds what concurrent iterations around the nest give: each would store over the others.
    """
    s = site.place.stmt
    if not isinstance(s, Reduce):
        return
    around = next((x for x in site.around if isinstance(x, Loop) and x.var in s.over and x.kind not in IN_ORDER), None)
    if around is not None:
        reason = f"{s.label} folds over {around.var!r}, whose iterations run at once, and each would store its own"
        raise ScheduleError(reason, loop=around.var, suggestion=f"a loop around {around.var!r}, or rfactor first")
    if s.init is None:
        return
    first = reduction_start_loop(site.place)
    if not any(x is first for x in statements((site.nest,))):
        var = first.var if isinstance(first, Loop) else at
        reason = f"{s.label} starts outside {at!r}, and its accumulators would be gone after each iteration of it"
        raise ScheduleError(
            reason, loop=at, suggestion=f"a loop around {var!r}, or decompose_reduction({s.label!r}) first"
        )


def _name(site: CacheSite, caches: Sequence[CachedBox]) -> str:
    """What the statement that now writes to the copy is called."""
    s, first = site.place.stmt, caches[0]
    hint = first.cache.name if s.label == first.source.name else f"{s.label}_{first.cache.scope}"
    return fresh_name(hint, labels_of(site.func))


def _inner(site: CacheSite, caches: Sequence[CachedBox], own: set[tuple[Index, ...]]) -> Store | Reduce:
    """The stage, writing to the copies, and reading there what is its `own`."""
    s = site.place.stmt
    at = caches[0].at(s.at, lambda: site.starting(site.place))
    label = _name(site, caches)
    if isinstance(s, Store):
        value = redirect_loads(s.value, caches[0], lambda: site.inside(site.place).here, own) if own else s.value
        return replace(s, label=label, buffer=caches[0].cache, at=at, value=value)
    return replace(s, label=label, buffers=tuple(c.cache for c in caches), at=at)


def _copies(site: CacheSite, caches: Sequence[CachedBox], *, out: bool) -> Body:
    """A nest over the elements that the stage writes, which copies each from the caches, or to them."""
    s = site.place.stmt
    taken = taken_names(site.func) | {c.cache.name for c in caches}
    try:
        nest = Elements.of(site.place, site.nest, taken, "_out" if out else "_in")
    except VerifyError as error:
        raise ScheduleError(
            f"the elements to copy are not known: {error}",
            suggestion=f"a loop inside {site.place.loops[0].var!r}, or decompose_reduction first",
        ) from None
    given: list[Node] = [*s.at]
    given += (x.extent if isinstance(x, Loop) else x for x in nest.shells)
    require_unwritten(site, given, f"which elements {s.label} writes")
    _require_elements_told(site, given)
    labels = labels_of(site.func) - ({s.label} if out else set())
    body: Body = ()
    for n, c in enumerate(caches):
        element, kept = (
            tuple(substitute(x, nest.env) for x in at) for at in (s.at, c.at(s.at, lambda: site.starting(site.place)))
        )
        hint = s.label if out and n == 0 else c.source.name if out else f"{c.cache.name}_in"
        label = take_name(hint, labels)
        if out:
            body = (*body, Store(label, c.source, element, Load(c.cache, kept)))
        else:
            body = (*body, Store(label, c.cache, kept, Load(c.source, element)))
    return nest.around(body)
