"""compute_at: a stage is computed inside a loop of its consumers, as much of it as one iteration needs."""

from __future__ import annotations

from collections.abc import Iterator

from loopir.analysis.dataflow.coverage import Values, find_missing, first_statement
from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.reordering import violated_dependence
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.analysis.regions.footprint import Footprint
from loopir.ir.grammar import TRUE, Func, If, Loop, Reduce
from loopir.ir.traverse.walk import declared_names, leaf_paths, leaf_paths_of, loaded_buffers, path_within
from loopir.schedule.core.facts import known_at, known_in
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.effects import allocates
from loopir.schedule.legality.refusal import refusal, refusal_in_loops_of
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.placement import (
    Move,
    MovedNest,
    find_move,
    keep_loop_kinds,
    may_turn,
    move_nest,
    open_allocs,
    other_readers,
    read_later,
    require_each_once,
    require_repeatable,
    require_sole_writer,
    require_value,
    runs_every_instance,
)
from loopir.schedule.transform.restriction import Restriction
from loopir.schedule.transform.shrink_alloc import (
    allocations,
    iteration_footprint,
    may_renew,
    shrink_into_loop,
    with_alloc_inside,
)
from loopir.schedule.transform.window import unseen


@primitive
def compute_at(func: Func, stage: str, loop: str, *, store: str | None = None) -> Func:
    """Compute `stage` in `loop`, at its start: in each iteration what the iteration reads of it, over its own loops.

    Elements that several iterations need are computed in each of them. Where nothing outside of the loop reads the
    stage, its memory becomes the iteration's own, and no larger than what one iteration reads.

    With `store`, a loop around `loop` or "root", the memory stays there, and iterations share it: where their regions
    slide along one dimension, each computes what earlier ones have not. See `fold_storage`, too.

    before:
        def f(A: "float32[10]", B: "out float32[8]"):
            with alloc("float32[10]") as T:
                for i in range(10):
                    T[i] = A[i] * 2.0
                for j in range(8):
                    B[j] = T[j] + T[j + 2]
    call:    compute_at("T", "j")
    after:
        def f(A: "float32[10]", B: "out float32[8]"):
            for j in range(8):
                with alloc("float32[3]") as T:
                    for i in range(3):
                        T[i] = A[j + i] * 2.0
                    B[j] = T[0] + T[2]
    call:    compute_at("T", "j", store="root")
    after:
        def f(A: "float32[10]", B: "out float32[8]"):
            with alloc("float32[10]") as T:
                for j in range(8):
                    for i in range(min(j, 1) * -2 + 3):
                        T[j + min(j, 1) * 2 + i] = A[j + min(j, 1) * 2 + i] * 2.0
                    B[j] = T[j] + T[j + 2]
    refuses: compute_at("B", "i")  # B runs after 'i'
    refuses: compute_at("T", "i")  # T stands inside 'i' already

    before:
        def g(n: "size", A: "float32[n]", T: "out float32[n]", B: "out float32[n]"):
            for i in range(n):
                T[i] = A[i] * 2.0
            for j in range(n):
                B[j] = T[n - 1 - j] + 1.0
    call:    compute_at("T", "j")
    after:
        def g(n: "size", A: "float32[n]", T: "out float32[n]", B: "out float32[n]"):
            for j in range(n):
                for i in range(1):
                    T[n - j + i - 1] = A[n - j + i - 1] * 2.0
                B[j] = T[n - 1 - j] + 1.0

    before:
        def h(n: "size", A: "float32[n + 1]", T: "out float32[n + 1]", B: "inout float32[n]"):
            for i in range(n + 1):
                T[i] = A[i] * 2.0
            for j in range(n):
                B[j] = T[j] + 1.0
    refuses: compute_at("T", "j")  # T[0] (at n=0) would not be computed

    before:
        def l(A: "int32[4]", B: "out int32[4]"):
            with alloc("int32[4]") as T:
                for i in range(4):
                    T[i] = A[i] + 1
                for j in range(T[3] % 4):
                    B[j] = T[j]
    refuses: compute_at("T", "j")  # the length of 'j' reads T
    """
    func = open_allocs(func, stage, loop)
    move = find_move(func, stage, loop)
    if not move.earlier:
        raise move.refuse(f"{move.stmt.label} runs after {move.loop.var!r}", "a loop around what reads it")
    _require_unread_outside(move)
    require_sole_writer(move)
    require_value(move)
    goes_on = isinstance(move.stmt, Reduce) and move.stmt.init is None  # from what is there, so once and in order
    readers, later = other_readers(move), read_later(move) is not None
    known = known_in(func, move.loop)
    box = iteration_footprint(func, move.loop, move.buffers[0], move.names, write=False, known=known)
    if box is None:
        raise move.refuse(
            f"nothing in {move.loop.var!r} reads {join_names(sorted(move.names))}", "a loop around a reader"
        )
    home = _home(move, store, readers)
    part, window = (box, TRUE) if store is None else unseen(box, move.loop, move.stmt.at, known.here)
    restriction = Restriction.to(part, move.stmt.at, move.own_loops, move.over, known)
    if window != TRUE:
        restriction.conds.append(window)
    require_repeatable(move, restriction.ranges)
    after = move_nest(move, restriction.apply(move.tree), restriction.origin(), first=True)
    if goes_on:
        instead = f"an init: {move.stmt.label} folds into what is there, and so once alone"
        require_each_once(move, after, instead)
    _require_order(move, after, move.names if goes_on else set(), readers)
    if readers or later or any(b.name in move.names for b in func.outputs()):
        _require_all(move, after, readers, later)
        home = None
    with refusal_in_loops_of(move.func, after.origin):
        new = keep_loop_kinds(move, _in(home, after, box))
    _require_reads_inside(move, new)
    return new


def _require_unread_outside(move: Move) -> None:
    """Refuse if whether an iteration of the loop runs is read from what the stage writes."""
    for s in path_within((move.target,), move.loop):
        asked = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
        if asked is not None and (read := sorted(move.names & loaded_buffers(asked))):
            what = f"the length of {s.var!r}" if isinstance(s, Loop) else f"a guard around {move.loop.var!r}"
            raise move.refuse(f"{what} reads {join_names(read)}", "a loop around that")


def _require_reads_inside(move: Move, new: Func) -> None:
    """Refuse if what moves along with the stage reads elements of it, in `new`, that are not in its memory any more."""
    along = [p.stmt.label for p in leaf_paths((move.tree,)) if move.names & loaded_buffers(p.stmt)]
    if along and (found := find_out_of_bounds(new)) is not None and find_out_of_bounds(move.func) is None:
        reason = f"{join_names(along)}, in the same nest, reads more of {join_names(sorted(move.names))}: {found}"
        raise move.refuse(reason, "distribute the nest first")


def _in(home: Loop | None, after: MovedNest, box: Footprint) -> Func:
    """The Func after the move, with the stage's memory in the loop `home`; `box` is what the loop itself uses of it."""
    move = after.move
    if home is None or not may_renew(move.func, move.names, home):
        return after.func
    if home is move.loop:
        old = allocations(move.func, move.names)
        return after.having(with_alloc_inside(after.loop, old, box, lambda: known_at(move.func, home)), [*old.values()])
    where = find_loop(after.func, home.var)
    room = iteration_footprint(after.func, where, move.buffers[0], move.names)
    assert room is not None
    return shrink_into_loop(after.func, move.names, where, room)


def _home(move: Move, store: str | None, readers: set[str]) -> Loop | None:
    """The loop that is to have the memory; None if it stays where it is."""
    if store is None or store == "root":
        return move.loop if store is None else None
    home = find_loop(move.func, store)
    if home.var not in move.path[:-1]:
        reason = f"{home.var!r} is no loop around {move.loop.var!r} that {move.stmt.label} is outside of"
        raise move.refuse(reason, join_names([*map(repr, move.path[:-1]), '"root"']).replace(" and ", " or "))
    if readers:
        reason = f"{join_names(sorted(readers))}, outside of {home.var!r}, reads {join_names(sorted(move.names))}"
        raise move.refuse(reason, 'store="root"')
    return home


def _require_order(move: Move, after: MovedNest, ordered: set[str], readers: set[str]) -> None:
    """Refuse if what the stage reads is written before its new place, or what it writes is read before that.

    What it writes is its own in the loop, but for the buffers `ordered`.
    """
    private = allocates((move.tree,))
    beside = {label for s in move.passed for label in declared_names(s)}
    if not may_turn(move, bool(ordered) or not readers.isdisjoint(beside)):
        return

    def asks(buffer: str, one: str, other: str) -> bool:
        own = buffer in move.names and buffer not in ordered
        return buffer not in private and (not own or one in readers or other in readers)

    clash = violated_dependence(move.func, after.gap, after.origin, asks=asks, moving=move.labels)
    if clash is not None:
        label = move.stmt.label
        reason = f"in {move.loop.var!r}, these two would run the other way round"
        raise refusal(clash, reason, move.loop.var, f"keep {label} where it is, or an outer loop")


def _require_all(move: Move, after: MovedNest, readers: set[str], later: bool) -> None:
    """Refuse if an element that is read elsewhere would not be computed."""
    label = move.stmt.label
    if runs_every_instance(move, after, starts=isinstance(move.stmt, Reduce)):
        return
    now = Values(
        after.gap,
        first_statement(after.gap, label),
        next((p.stmt.at for p in leaf_paths_of(after.gap) if p.stmt.label == label), move.stmt.at),  # none may run
    )
    for name in sorted(move.names):
        for who, needed in _needed(move, name, readers, later):
            lost = find_missing(needed, now, move.shared_loops)
            if lost is not None:
                reason = (
                    f"{name}{lost} would not be computed: no iteration of {move.loop.var!r} reads it, and {who} does"
                )
                raise move.refuse(reason, f"keep {label} where it is")


def _needed(move: Move, name: str, readers: set[str], later: bool) -> Iterator[tuple[str, Values]]:
    """What the caller, or each of `readers`, is to find in `name`: all, where analysis does not see which elements."""
    whole = Values(move.func, first_statement(move.func, move.stmt.label), move.stmt.at)
    if any(b.name == name for b in move.func.outputs()):
        yield "the caller", whole
        return
    if later:
        yield "a later one of the loops around", whole
    for s in (s for s in statements_of(move.func) if s.label in readers):
        for a in (a for a in s.accesses if a.buffer == name and not a.write):
            at = [ix for ix in a.at if ix is not None]
            seen = len(at) == len(a.at) and set(move.shared_loops) <= set(s.dims)
            yield s.name, Values(move.func, s, at, a) if seen else whole
