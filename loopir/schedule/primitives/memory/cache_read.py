"""cache_read: what one iteration reads of a buffer is copied near it first, into memory of its own.

Several stages can read one copy: a row that softmax reads three times is then moved once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial, reduce

from loopir.analysis.regions.footprint import RegionAccess
from loopir.arith.simplify import Context, simplify_cond, sum_of_variables
from loopir.errors import ScheduleError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Alloc,
    Body,
    Cast,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Reduce,
    Stmt,
    Store,
    conj,
)
from loopir.ir.printer import text
from loopir.ir.traverse.labels import labels_of
from loopir.ir.traverse.reduction_init import reduction_start_loop
from loopir.ir.traverse.walk import (
    StmtPath,
    children,
    fresh_name,
    loaded_buffers,
    nodes,
    replace,
    statements,
    taken_names,
)
from loopir.schedule.core.find import find_buffer, join_names
from loopir.schedule.legality.asked_memory import unwritten_memory
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import (
    CachedBox,
    CacheSite,
    cached_box,
    find_dtype,
    find_site,
    inside_nests,
    less_base,
    loads,
    redirect_loads,
    require_unmodified,
    require_unshared,
    require_unwritten,
)


@primitive
def cache_read(
    func: Func,
    stage: str | tuple[str, ...],
    buffer: str,
    scope: str,
    at: str | None = None,
    *,
    name: str | None = None,
    dtype: str | None = None,
    element: str | None = None,
) -> Func:
    """Copy what `stage` reads of `buffer` in one iteration of loop `at` into memory of `scope`, and read it there.

    The copy is the smallest box around what is read. It has loops of its own, `ax0`, `ax1` ..., which can be fused,
    split, bound and vectorized; dimensions of which one element is read are left out. Where `at` is None the copy is
    made once, before the nest. Another statement of the nest must not write `buffer`. Where `stage` is several stages,
    they share one copy, made before the first of the nests that they stand in. Where loops over several dimensions are
    fused, and a run of elements from row to row is less than the box around it, the copy is that run. `name` is the
    copy's. With `dtype`, its elements are of that type, if that is what each element is converted to where it is read,
    or a type of integers that has all values of the elements' own. With `element`, only what is read as that element is
    copied, such as "A[i, k]" of A[i, k] * A[j, k], and other reads of `buffer` stay.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n - 2]"):
            for i in range(n - 2):
                for k in range(3):
                    B[i] = sum(A[i + k], over=k, init=0.0)
    call:    cache_read("B", "A", "local", at="i")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n - 2]"):
            for i in range(n - 2):
                with alloc("float32[3]", scope="local") as A_local:
                    for ax0 in range(3):
                        A_local[ax0] = A[i + ax0]
                    for k in range(3):
                        B[i] = sum(A_local[k], over=k, init=0.0)
    call:    cache_read("B", "A", "global", name="copy")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n - 2]"):
            with alloc("float32[n]") as copy:
                for ax0 in range(n):
                    copy[ax0] = A[ax0]
                for i in range(n - 2):
                    for k in range(3):
                        B[i] = sum(copy[i + k], over=k, init=0.0)
    refuses: cache_read("B", "B", "local")          # B reads nothing of B
    refuses: cache_read("B", "A", "local", at="j")  # there is no loop 'j'

    before:
        def lines(A: "float32[6, 10]", B: "out float32[60]"):
            for f in range(15):
                for v in range(4):
                    B[f * 4 + v] = A[(f * 4 + v) // 10, (f * 4 + v) % 10]
    call:    cache_read("B", "A", "local", at="f")
    after:
        def lines(A: "float32[6, 10]", B: "out float32[60]"):
            for f in range(15):
                with alloc("float32[4]", scope="local") as A_local:
                    for ax0 in range(4):
                        A_local[ax0] = A[(f * 4 + ax0) // 10, (f * 4 + ax0) % 10]
                    for v in range(4):
                        B[f * 4 + v] = A_local[v]

    before:
        def g(A: "inout float32[9]"):
            for i in range(8):
                A[i + 1] = A[i] * 2.0
    refuses: cache_read("A", "A", "local")          # A, which the copy would hold, is written by A in the same nest
    call:    cache_read("A", "A", "local", at="i")
    after:
        def g(A: "inout float32[9]"):
            for i in range(8):
                with alloc("float32[1]", scope="local") as A_local:
                    A_local[0] = A[i]
                    A[i + 1] = A_local[0] * 2.0

    before:
        def h(A: "float32[8, 5]", B: "out float32[8, 5]"):
            for i in range(8):
                with alloc("float32[1]", scope="local") as S:
                    for k in range(5):
                        S[0] = sum(A[i, k], over=k, init=0.0)
                    for j in range(5):
                        B[i, j] = A[i, j] / S[0]
    call:    cache_read(("S", "B"), "A", "local", at="i")
    after:
        def h(A: "float32[8, 5]", B: "out float32[8, 5]"):
            for i in range(8):
                with alloc("float32[1]", scope="local") as S, alloc("float32[5]", scope="local") as A_local:
                    for ax0 in range(5):
                        A_local[ax0] = A[i, ax0]
                    for k in range(5):
                        S[0] = sum(A_local[k], over=k, init=0.0)
                    for j in range(5):
                        B[i, j] = A_local[j] / S[0]
    refuses: cache_read(("S", "B"), "A", "local", at="k")  # 'k' is no loop around B; the loops there are i and j
    refuses: cache_read(("S", "B"), "S", "local", at="i")  # S reads nothing of S

    before:
        def narrow(A: "float32[8]", B: "out float32[8]", C: "out float16[8]"):
            for i in range(8):
                B[i] = float32(float16(A[i])) * 2.0
            for j in range(8):
                C[j] = float16(A[7 - j])
    call:    cache_read(("B", "C"), "A", "global", dtype="float16")
    after:
        def narrow(A: "float32[8]", B: "out float32[8]", C: "out float16[8]"):
            with alloc("float16[8]") as A_global:
                for ax0 in range(8):
                    A_global[ax0] = float16(A[ax0])
                for i in range(8):
                    B[i] = float32(A_global[i]) * 2.0
                for j in range(8):
                    C[j] = A_global[-j + 7]
    refuses: cache_read("B", "A", "global", dtype="bfloat16")  # B does not make bfloat16 of each A that it reads
    refuses: cache_read("B", "A", "global", dtype="i0")        # 'i0' is not an element type

    before:
        def dot(A: "int8[8]", B: "uint8[8]", C: "out int32[1]"):
            for k in range(8):
                C[0] = sum(int32(A[k]) * int32(B[k]), over=k, init=0)
    call:    cache_read("C", "B", "global", dtype="int16")
    after:
        def dot(A: "int8[8]", B: "uint8[8]", C: "out int32[1]"):
            with alloc("int16[8]") as B_global:
                for ax0 in range(8):
                    B_global[ax0] = int16(B[ax0])
                for k in range(8):
                    C[0] = sum(int32(A[k]) * int32(B_global[k]), over=k, init=0)
    refuses: cache_read("C", "B", "global", dtype="int8")  # C does not make int8 of each B that it reads

    before:
        def gram(A: "float32[6, 4]", C: "out float32[6, 6]"):
            for i in range(6):
                for j in range(6):
                    for k in range(4):
                        C[i, j] = sum(A[i, k] * A[j, k], over=k, init=0.0)
    call:    cache_read("C", "A", "local", at="i", element="A[i, k]")
    after:
        def gram(A: "float32[6, 4]", C: "out float32[6, 6]"):
            for i in range(6):
                with alloc("float32[4]", scope="local") as A_local:
                    for ax0 in range(4):
                        A_local[ax0] = A[i, ax0]
                    for j in range(6):
                        for k in range(4):
                            C[i, j] = sum(A_local[k] * A[j, k], over=k, init=0.0)
    refuses: cache_read("C", "A", "local", at="i", element="A[k, i]")  # C does not read A[k, i]; it reads A[i, k]

    before:
        def lookup(A: "float32[9, 4]", ids: "int32[6]", B: "out float32[6, 4]"):
            for i in range(8):
                if i < 6:
                    for k in range(4):
                        B[i, k] = A[min(max(ids[i], 0), 8), k] * 2.0
    call:    cache_read("B", "A", "local", at="i")
    after:
        def lookup(A: "float32[9, 4]", ids: "int32[6]", B: "out float32[6, 4]"):
            for i in range(8):
                with alloc("float32[4]", scope="local") as A_local:
                    if i < 6:
                        for ax0 in range(4):
                            A_local[ax0] = A[min(max(ids[i], 0), 8), ax0]
                    if i < 6:
                        for k in range(4):
                            B[i, k] = A_local[k] * 2.0
    """
    source = find_buffer(func, buffer)
    site = find_site(func, stage, at, [source.name])
    read = [t for place in site.places for t in _reads(site, place, source.name)]
    read = read if element is None else _written_so(site, read, element)
    only = None if element is None else frozenset(t.at for t in read)
    require_unmodified(site, [source.name], f"{source.name}, which the copy would hold,")
    require_unwritten(site, [x for t in read for x in t.at], f"which elements {site.labels} reads")
    copies = cached_box(site, source, read, scope, name)
    if dtype is not None:
        copies = replace(copies, cache=replace(copies.cache, dtype=find_dtype(dtype)))
        if copies.cache.dtype != source.dtype and not copies.wider:
            _require_converted(site, source.name, copies.cache.dtype)
    _require_element_told(site, copies)
    body, settled = _redirected(site, copies, only)
    copy, ready = _copy(site, copies)
    done = (*(body if settled else ()), *((copy,) if ready else ()))
    made = site.replaced((Alloc(copies.cache, (copy, *body)),), done)
    require_unshared(site, made, source.name)
    return made


def _require_element_told(site: CacheSite, copies: CachedBox) -> None:
    """Refuse if memory that tells which elements are copied may not be written where no stage runs that asks it."""
    for place in site.places:
        inside = [n for n, s in enumerate(place.around) if any(s is x for x in statements(site.nests))]
        left = [s for s in place.around[min(inside, default=len(place.around)) :] if isinstance(s, Loop | If)]
        if asked := unwritten_memory(site.func, place.stmt.label, copies.element(copies.box.base), left):
            reason = (
                f"which elements are copied is read from {join_names(asked)}, also where {place.stmt.label} never runs"
            )
            raise ScheduleError(reason, suggestion="a loop further in, or loops that surely run")


def _written_so(site: CacheSite, read: Sequence[RegionAccess], element: str) -> list[RegionAccess]:
    """What is read as the element that is written so."""
    there = {text(Load(t.buffer, t.at)): t for t in read}
    wanted = "".join(element.split())
    found = [t for t in read if "".join(text(Load(t.buffer, t.at)).split()) == wanted]
    if not found:
        reason = f"{site.labels} does not read {element}; it reads {join_names(list(there))}"
        raise ScheduleError(reason, suggestion="one of these, as it is written")
    return found


def _require_converted(site: CacheSite, source: str, kind: DType) -> None:
    """Refuse unless each element of `source` that is read is made one of `kind` right there."""
    for place in site.places:
        if any(_as_it_is(part, source, kind) for part in children(place.stmt)):
            reason = f"{place.stmt.label} does not make {kind.name} of each {source} that it reads"
            raise ScheduleError(reason, suggestion="a copy of the elements as they are, without dtype=")


def _as_it_is(n: Node, source: str, kind: DType) -> bool:
    """Whether `n` uses an element of `source` without converting it to `kind`."""
    if isinstance(n, Cast) and n.type == kind and isinstance(n.value, Load) and n.value.buffer.name == source:
        n = n.value
    elif isinstance(n, Load) and n.buffer.name == source:
        return True
    return any(_as_it_is(x, source, kind) for x in children(n))


def _runs_inside(site: CacheSite, place: StmtPath) -> bool:
    """Whether all of the stage runs inside the nests, also what a reduction starts from."""
    s = place.stmt
    first = reduction_start_loop(place) if isinstance(s, Reduce) and s.init is not None else s
    return any(x is first for x in statements(site.nests))


def _reads(site: CacheSite, place: StmtPath, name: str) -> list[RegionAccess]:
    """What the stage reads of the buffer, where that can be redirected."""
    s, whole = place.stmt, _runs_inside(site, place)
    values = s.values
    starts = (*s.at, *((s.init or ()) if isinstance(s, Reduce) else ())) if whole else ()
    found = loads(values, name, lambda: site.inside(place).here) + loads(starts, name, lambda: site.starting(place))
    if not found:
        reason = f"{s.label} reads nothing of {name}" + ("" if whole else " inside that loop")
        raise ScheduleError(reason, suggestion=f"what {s.label} reads: {join_names(sorted(loaded_buffers(s)))}")
    return found


def _copy(site: CacheSite, copies: CachedBox) -> tuple[Stmt, bool]:
    """The nest that fills the cache, guarded where the box may stick out of the buffer, and whether that needs no
    simplification."""
    taken = taken_names(site.func) | {copies.cache.name}
    loops, at = copies.copy_loops(taken)

    def known() -> Context:
        return reduce(lambda ctx, x: ctx.loop(x.var, x.extent), loops, site.known.here)

    at = [x if (short := sum_of_variables(x)) is None else short for x in at]
    whole = [b == Int(0) and e == d for b, e, d in zip(copies.box.base, copies.box.extent, copies.room, strict=True)]
    sticking = [(x, size) for x, size, all_of in zip(at, copies.room, whole, strict=True) if not all_of]
    inside = conj(*(c for x, size in sticking for c in (Cmp("<=", Int(0), x), Cmp("<", x, size))))
    inside = simplify_cond(inside, known()) if sticking else inside
    element = copies.element(tuple(at))
    store = Store(
        fresh_name(copies.cache.name, labels_of(site.func)),
        copies.cache,
        tuple(less_base(at[d], copies.box.base[d], known) for d in copies.dims),
        copies.kept(Load(copies.source, element)),
    )
    body: Stmt = store if inside == TRUE else If(inside, (store,))
    for loop in reversed(loops):
        body = replace(loop, body=(body,))
    found = _indices_found(element, site.known.here)
    if found != TRUE:  # where the stage does not run, what tells the element may not be there
        return If(found, (body,)), False
    return body, inside != FALSE and all(x is sum_of_variables(x) for x in (*element, *(s.extent for s in loops)))


def _indices_found(element: Sequence[Index], known: Context) -> Cond:
    """That each element of memory that an index of `element` is read from is one of its buffer, the innermost first."""
    read = [x for at in element for x in nodes(at) if isinstance(x, Load)]
    bounds = [pair for x in reversed(read) for pair in zip(x.at, x.buffer.shape, strict=True)]
    return simplify_cond(conj(*(c for x, n in bounds for c in (Cmp("<=", Int(0), x), Cmp("<", x, n)))), known)


def _redirected(site: CacheSite, copies: CachedBox, only: Set[tuple[Index, ...]] | None) -> tuple[Body, bool]:
    """The nests with the stages reading the cache, for elements `only` or all, and whether all that these read of it
    needs no simplification."""
    body, settled = site.nests, True
    for place in site.places:
        s, starting = place.stmt, partial(site.starting, place)
        if isinstance(s, Reduce) and not _runs_inside(site, place):
            new: Stmt = replace(s, values=tuple(redirect_loads(v, copies, starting, only) for v in s.values))
        else:
            new = redirect_loads(s, copies, starting, only)
        settled = settled and all(map(copies.settles, children(new)))
        body = inside_nests(body, s, new)
    return body, settled
