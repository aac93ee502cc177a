"""reverse_compute_inline: a stage is folded into the store of what it reads, whose buffer goes away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from loopir.analysis.dataflow.reaching_writes import intervening_write
from loopir.analysis.dependence.access import guarded_loads, is_affine_visible, statements_of
from loopir.analysis.dependence.depend import Pair, before, conflicts
from loopir.analysis.dependence.reordering import Origin
from loopir.analysis.regions.retile import Retiling
from loopir.arith.poly import constant_part, constant_poly, expand_index, poly_add, poly_scale, to_index
from loopir.arith.simplify import Context, nonnegative, poly
from loopir.arith.simplify_func import Known
from loopir.errors import ScheduleError, pairs
from loopir.ir.grammar import Alloc, Body, Cmp, Cond, Func, If, Index, Int, Load, Loop, Reduce, Stmt, Store, Var, conj
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    alloc_of,
    declared_names,
    free_vars,
    leaf_paths_in,
    leaf_paths_of,
    loaded_buffers,
    loops_of,
    nests,
    nests_touching,
    nodes,
    path_within,
    rebuild_path,
    replace,
    replace_block,
    replace_stmt,
    rewrite,
    stored_buffers,
    substitute,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_stage, find_statement, join_names
from loopir.schedule.legality.refusal import side_in_loops_of, witness_in_loops_of
from loopir.schedule.primitives.placement.compute_inline import compute_inline, inlined_but, read_inline, stored_inline
from loopir.schedule.primitives.placement.reverse_compute_at import furthest_first, placed
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.placement import Move, find_move, open_allocs


@primitive
def reverse_compute_inline(func: Func, stage: str) -> Func:
    """Compute `stage` in the store of what it reads, instead of that: the intermediate is no more.

    It alone has to read the intermediate, and each element for one of its own; another element that it reads beside
    that is computed again.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            with alloc("float32[n]") as T:
                for i in range(n):
                    T[i] = A[i] + 1.0
                for j in range(n):
                    B[n - 1 - j] = maximum(T[j], 0.0)
    call:    reverse_compute_inline("B")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[n - i - 1] = maximum(A[i] + 1.0, 0.0)

    before:
        def g(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for j in range(8):
                    B[j] = maximum(T[j], 0.0)
                for k in range(8):
                    C[k] = T[k] * 2.0
    refuses: reverse_compute_inline("B")  # C reads T, too
    refuses: reverse_compute_inline("T")  # T reads no intermediate

    before:
        def folded(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] * 2.0
                for j in range(8):
                    B[j] = T[j] + T[7 - j]
    call:    reverse_compute_inline("B")
    after:
        def folded(A: "float32[8]", B: "out float32[8]"):
            for i in range(8):
                B[i] = A[i] * 2.0 + A[-i + 7] * 2.0

    before:
        def h(A: "float32[8, 8]", B: "out float32[8]"):
            with alloc("float32[8]") as S:
                for i in range(8):
                    for k in range(8):
                        S[i] = sum(A[i, k], over=k, init=0.0)
                for j in range(8):
                    B[j] = maximum(S[j], 0.0)
    refuses: reverse_compute_inline("B")  # S is a reduction, and has its value only when all of it is folded in
    """
    place = find_statement(func, stage)
    consumer = place.stmt
    maker = _maker(func, consumer)
    label = maker.stmt.label
    if not maker.loops:
        raise ScheduleError(
            f"{maker.stmt.label} is stored in no loop", suggestion=f"compute_inline of {maker.stmt.label}"
        )
    straight = _straight(func, place, maker)
    if straight is not None:
        return straight
    own = [x.var for x in place.loops if x not in maker.loops]
    beside = _place_with_producer(func, consumer, maker, settle=False)
    try:
        return compute_inline(_unit_loops_gone(beside, own), label)
    except ScheduleError:  # the intermediate may be one that each iteration could have anew
        beside = _place_with_producer(func, consumer, maker, settle=True)
    new = _unit_loops_gone(beside, own)
    try:
        return compute_inline(new, label)
    except ScheduleError as error:
        raise _refusal_in_loops_of(func, new, place, maker, error) from None


def _refusal_in_loops_of(
    func: Func, new: Func, place: StmtPath, maker: StmtPath, error: ScheduleError
) -> ScheduleError:
    """The refusal, which is about a nest that nobody has seen, with its iterations as they are in `func`.

    Where it is about no iterations, the witness is an element that the maker stores and the consumer reads.
    """
    label, (name,), consumer = maker.stmt.label, _written(maker), place.stmt.label
    reason = error.reason
    found = intervening_write(new, label, name)
    if found is None:
        s, t = (next(s for s in statements_of(func) if s.label == x and not s.init) for x in (label, consumer))
        flows = (Pair(func, s, a, t, b) for a, b in conflicts(s, t) if a.write and a.buffer == name)
        clash = next((c for x in flows for c in x.clashes(before(s.as_s, t.as_t))), None)
        witness = None if clash is None else clash.witness
    else:
        now = find_stage(new, consumer)[0].stmt.at
        came = {consumer: Origin(consumer, _solved(place, now))}
        witness = witness_in_loops_of(func, came, found.clash.witness)
        _, use = side_in_loops_of(func, came, found.label, found.use, witness.sizes)
        reason = f"{witness.buffer}, which {label} is computed from, is written by {found.clash.second} before "
        reason += f"{found.label} at ({pairs(use)}) reads {label}"
    reason = f"with {consumer} beside {label}, {reason}"
    return ScheduleError(reason, loop=error.loop, witness=witness, suggestion=error.suggestion)


def _solved(place: StmtPath, now: Sequence[Index]) -> dict[str, Index]:
    """The loops at `place`, by what the subscripts there, of which one alone speaks of the loop, are `now`."""
    found: dict[str, Index] = {}
    loops = {x.var for x in place.loops}
    for old, new in zip(place.stmt.at, now, strict=True):
        p = dict(expand_index(old))
        told = loops & free_vars(old)
        if len(told) == 1 and (c := p.pop((Var(*told),), 0)) in (1, -1) and told.isdisjoint(free_vars(to_index(p))):
            found[min(told)] = to_index(poly_scale(poly_add(expand_index(new), p, -1), c))
    return found


def _straight(func: Func, place: StmtPath, maker: StmtPath) -> Func | None:
    """The consumer in the place of what it reads, where each of its loops is one of those there, or is so far behind.

    None where that is not seen at once. Where it is, nothing but what is asked here has to be:
    - the consumer may compute what it reads itself, where it stands (`compute_inline`);
    - from there to the maker nothing else writes what it then reads, or touches what it writes, and it writes no
      element twice, so that its instances may as well run there, in whatever order;
    - for each of its iterations there is one of the maker's, and a guard leaves out the others.
    """
    consumer, loop = place.stmt, maker.loops[-1]
    if not isinstance(consumer, Store) or not isinstance(maker.stmt, Store) or maker.around[-1] is not loop:
        return None
    try:
        move = find_move(func, consumer.label, loop.var)
        behind = None if move.earlier or not _plain_nest(move) else _behind(move, maker)
        if behind is None or not _free(move, maker.stmt):
            return None
        near = stored_inline(func, maker.stmt.label)
    except ScheduleError:
        return None
    known = known_at(func, maker.stmt)
    stmt, conds = _followed(move, consumer, behind, known)
    for c in reversed(conds):
        stmt = If(conj(*c), (stmt,)) if c else stmt
    body = (*(s for s in loop.body if s is not maker.stmt), read_inline(stmt, near))
    target = rebuild_path(path_within((move.target,), loop), (replace(loop, body=body),))
    made = tuple([x for s in move.level for x in (target if s is move.target else () if s is move.tree else (s,))])
    new = replace_block(func, move.shared, move.level, made)
    there = alloc_of(new, maker.stmt.buffer.name)
    return None if there is None else replace_stmt(new, there, there.body)


def _plain_nest(move: Move) -> bool:
    """Whether the nest is loops around the statement alone, nothing guards the maker, and no loop promises anything."""
    s = move.tree
    while isinstance(s, Loop) and len(s.body) == 1:
        s = s.body[0]
    way = path_within((move.target,), move.loop)
    around = (*move.place.loops, *(x for x in way if isinstance(x, Loop)))
    plain_way = all(isinstance(x, Loop) or isinstance(x, Alloc) for x in way)  # noqa: SIM101  (sooner so)
    return s is move.stmt and plain_way and all(x.kind == "serial" for x in around)


def _free(move: Move, maker: Store) -> bool:
    """Whether nothing but the maker, from there on, writes what the consumer is computed from, or touches its own."""
    own = move.names
    read = loaded_buffers(move.stmt) - {maker.buffer.name} | loaded_buffers(maker)
    told = {x.name for x in move.stmt.at if isinstance(x, Var)}.issuperset(x.var for x in move.own_loops)
    others = [s for s in move.passed if s is not move.tree]
    written = set[str]().union(*map(stored_buffers, others)) - {maker.buffer.name}
    touched = set[str]().union(*map(accessed_buffers, others))
    return told and own.isdisjoint(read) and written.isdisjoint(read) and own.isdisjoint(touched)


def _behind(move: Move, maker: StmtPath) -> dict[str, tuple[Loop, int]] | None:
    """By loop of the consumer, the loop of the maker that it is, and how many iterations behind that."""
    theirs = {x.var: x for x in maker.loops if x.var in move.path}
    at = [x.name if isinstance(x, Var) else "" for x in maker.stmt.at]
    own = {x.var: x for x in move.own_loops}
    if "" in at or len({*at}) < len(at) or not {*at}.issuperset(theirs) or len(own) != len(theirs):
        return None
    (name,) = _written(maker)
    read = [n for n, _ in guarded_loads(move.stmt) if n.buffer.name == name and all(map(is_affine_visible, n.at))]
    own, theirs = _of_fixed_extent(own, move.func), _of_fixed_extent(theirs, move.func)
    ctx = known_at(move.func, move.tree).here
    for load in furthest_first(read) if read else ():
        found = _matched_loops(at, load, theirs, own, ctx)
        if found is not None:
            return found
    return None


def _of_fixed_extent(loops: Mapping[str, Loop], func: Func) -> dict[str, Loop]:
    """Those of `loops` whose number of iterations depends on sizes of `func` alone."""
    sizes = frozenset(func.sizes)
    return {v: x for v, x in loops.items() if free_vars(x.extent) <= sizes and is_affine_visible(x.extent)}


def _matched_loops(
    at: Sequence[str], load: Load, theirs: Mapping[str, Loop], own: Mapping[str, Loop], ctx: Context
) -> dict[str, tuple[Loop, int]] | None:
    """By loop of `own` the loop of `theirs` that counts the same dimension of `load`, stored by the loops `at`, and how
    many iterations behind that it is; None if another dimension has not the same index."""
    found: dict[str, tuple[Loop, int]] = {}
    for u, (ix, c) in zip(at, map(constant_part, load.at), strict=True):
        v = ix.name if isinstance(ix, Var) else ""
        if u in theirs and v in own and v not in found and _covers(theirs[u], own[v], c, ctx):
            found[v] = theirs[u], c
        elif u in theirs or (v, c) != (u, 0):
            return None
    return found


def _covers(theirs: Loop, own: Loop, c: int, known: Context) -> bool:
    """Whether for each iteration of `own` there is the one of `theirs` that is `c` further on."""
    inside = known.loop(own.var, own.extent)
    room = poly_add(poly_add(poly(theirs.extent, inside), poly(own.extent, inside), -1), constant_poly(-c))
    return c >= 0 and nonnegative(room, inside)


def _followed(
    move: Move, consumer: Store, behind: dict[str, tuple[Loop, int]], known: Known
) -> tuple[Stmt, list[list[Cond]]]:
    """The consumer by the maker's loops, and by each of its own, outer ones first, when there is an iteration."""
    position: dict[str, Index] = {
        v: to_index(poly_add(expand_index(Var(u.var)), constant_poly(-c))) for v, (u, c) in behind.items()
    }
    conds: list[list[Cond]] = []
    for x in move.own_loops:
        u, c = behind[x.var]
        here: list[Cond] = [Cmp("<=", Int(0), position[x.var])] if c else []
        if poly_add(poly_add(expand_index(u.extent), expand_index(x.extent), -1), constant_poly(-c)):
            here.append(Cmp("<", position[x.var], x.extent))
        conds.append(here)
    inside = known
    for here in conds:
        inside = inside.given(conj(*here)) if here else inside
    (stmt,) = Retiling(position, {}, decides=True).body((consumer,), inside)
    return stmt, conds


def _place_with_producer(func: Func, consumer: Store | Reduce, maker: StmtPath, *, settle: bool) -> Func:
    """The consumer in the innermost loop of what it reads, where it reads one element; it computes others itself."""
    label, loop, (name,) = maker.stmt.label, maker.loops[-1].var, _written(maker)
    try:
        return placed(func, consumer.label, loop, settle=settle)
    except ScheduleError:
        read = dict.fromkeys(n for n in nodes(consumer) if isinstance(n, Load) and n.buffer.name == name)
        apart = [x.var for x in find_stage(func, consumer.label)[0].loops if x not in maker.loops]
        near = open_allocs(func, label, apart[0]) if apart else func
        for one in read if len(read) > 1 else ():
            with suppress(ScheduleError):
                return placed(inlined_but(near, label, consumer, one), consumer.label, loop, settle=settle)
        raise


def _maker(func: Func, consumer: Store | Reduce) -> StmtPath:
    """The one store of the last intermediate that `consumer` reads; refuses where it is no such thing."""
    own = {a.buffer.name for a in func.args}
    read = loaded_buffers(consumer) - own
    made = [p for p in leaf_paths_in(func, nests_touching(*read)) if not read.isdisjoint(_written(p))]
    if not made:
        raise ScheduleError(f"{consumer.label} reads no intermediate", suggestion="a stage that reads another one")
    maker = made[-1]
    label = maker.stmt.label
    if isinstance(maker.stmt, Reduce):
        reason = f"{label} is a reduction, and has its value only when all of it is folded in"
        raise ScheduleError(reason, suggestion=f"reverse_compute_at of {consumer.label}, outside of the fold")
    (name,) = _written(maker)
    near = leaf_paths_in(func, nests_touching(name))
    others = [p.stmt.label for p in near if p.stmt is not consumer and name in loaded_buffers(p.stmt)]
    if others:
        raise ScheduleError(f"{join_names(others)} reads {name}, too", suggestion=f"compute_inline of {label}")
    return maker


def _written(place: StmtPath) -> list[str]:
    return [b.name for b in place.stmt.buffers]


def _unit_loops_gone(func: Func, names: list[str]) -> Func:
    """`func` without those of the loops that run once."""
    reduced = {v for p in leaf_paths_of(func) if isinstance(p.stmt, Reduce) for v in p.stmt.over}
    known = loops_of(func)
    gone = [x for v in names if (x := known.get(v)) is not None and x.extent == Int(1) and v not in reduced]
    if not gone:
        return func
    at: dict[str, Index] = {x.var: Int(0) for x in gone}

    def visit(s: Stmt) -> Body | None:
        return tuple(y for x in s.body for y in rewrite((x,), visit)) if isinstance(s, Loop) and s.var in at else None

    nest = next(s for s in nests(func.body) if gone[0].var in declared_names(s))
    return replace_stmt(func, nest, rewrite((substitute(nest, at),), visit))
