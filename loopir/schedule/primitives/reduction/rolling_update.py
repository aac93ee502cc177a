"""rolling_update: folds that need the end of another fold run along with it, and are corrected as it goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.dependence.fusion_shift import has_conflict
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Func, Loop, Reduce, Stmt, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    replace,
    replace_over,
    rewrite,
    stored_buffers,
    substitute,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, find_serial, find_stage, join_names
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.corrections import Block, corrected
from loopir.schedule.transform.duplicate import duplicated
from loopir.schedule.transform.siblings import body_with, extend_lifetime, open_allocs_before


@primitive
def rolling_update(func: Func, stages: tuple[str, ...], loop: str) -> Func:
    """Compute `stages`, whose nests follow that of `loop`, in `loop`, block by block, though they need folds that are
    done only when `loop` ends.

    Each of `stages` has a nest that starts with a loop as long as `loop`: one block of it is done in each iteration,
    with what has been folded so far. A fold among them is corrected before it goes on: all its terms change by one
    scale, or one shift, as the folds that they read go on, which is proved from the terms. A stage that is no fold is
    made for each block; if others read it, too, it is kept for them after the loop.

    Where a maximum is of nothing yet but infinities, terms are made with 0 in its place, which are 0 then, and nothing
    is corrected; a row that has nothing but infinities gives 0 where differences of infinities gave NaN. Sums are
    rounded as in another order.

    before:
        def f(A: "float32[8]", S: "out float32[1]", M: "out float32[1]"):
            for jo in range(4):
                for j in range(2):
                    M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
            for ko in range(4):
                for k in range(2):
                    S[0] = sum(exp(A[ko * 2 + k] - M[0]), over=(ko, k), init=0.0)
    call:    rolling_update(("S",), "jo")
    after:
        def f(A: "float32[8]", S: "out float32[1]", M: "out float32[1]"):
            for jo in range(4):
                with alloc("float32[1]") as M_before, alloc("float32[1]") as S_scale, alloc("float32[1]") as M_finite:
                    M_before[0] = M[0]
                    for j in range(2):
                        M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
                    M_finite[0] = select(M[0] == -inf, 0.0, M[0])
                    S_scale[0] = select(M_before[0] == -inf, 1.0, exp(M_before[0] - M_finite[0]))
                    S[0]: "S_1" = S[0] * S_scale[0]
                    for k in range(2):
                        S[0] = sum(exp(A[jo * 2 + k] - M_finite[0]), over=(jo, k), init=0.0)
    refuses: rolling_update(("M",), "jo")  # M is in 'jo' already

    before:
        def g(A: "float32[3, 8]", D: "out float32[3]", M: "out float32[3]"):
            for i in range(3):
                for j in range(8):
                    M[i] = sum(A[i, j], over=j, init=0.0)
                for k in range(8):
                    D[i] = sum(abs(A[i, k] - M[i]), over=k, init=0.0)
    refuses: rolling_update(("D",), "j")  # changes by no one amount as M[i] goes from

    before:
        def h(A: "float32[8]", M: "out float32[1]", S: "out float32[1]"):
            for j in range(8):
                M[0] = sum(A[j], over=j, init=0.0)
            for k in range(8):
                S[0] = sum(A[k], over=k, init=M[0])
    refuses: rolling_update(("S",), "j")  # S starts from M, which is complete only after 'j'
    """
    target = find_serial(func, loop)
    require_stable_extent(target)
    for stage in stages:
        if any(s is target for p in find_stage(func, stage) for s in p.around):
            raise ScheduleError(f"{stage} is in {loop!r} already", suggestion="a stage after the loop")
    func = _with_memory_before(func, loop, stages)
    target = find_loop(func, loop)
    nests = _nests(func, target, stages)
    _require_one_fold_each(nests)
    func, nests = duplicated(func, target, nests)
    plain, origin, blocks = _fused(func, target, nests)
    _require_complete_folds(func, plain, origin, target, nests)
    gone = {id(x) for x in nests}
    done, names = corrected(func, target, blocks)
    func = replace(func, body=rewrite(func.body, lambda s: done if s is target else () if id(s) in gone else None))
    return names.confined(func)


def _with_memory_before(func: Func, loop: str, stages: Sequence[str]) -> Func:
    """`func` with memory of `stages` that begins after `loop` there from before it to the end of its statements."""
    target = find_loop(func, loop)
    func = open_allocs_before(func, target)
    level = body_with(func, find_loop(func, loop))
    wanted = {p.stmt.label for stage in stages for p in find_stage(func, stage)}
    for s in level:
        here = {p.stmt.label for p in leaf_paths((s,))}
        if isinstance(s, Alloc) and s is not level[-1] and here & wanted:
            *_, last = leaf_paths(level)
            return _with_memory_before(extend_lifetime(func, s.buffer.name, last.stmt), loop, stages)
    return func


def _nests(func: Func, loop: Loop, stages: Sequence[str]) -> list[Loop]:
    """The nests of the stages, in order, each a loop as long as the one they run along with."""
    level = body_with(func, loop)
    after = level[next(n for n, s in enumerate(level) if s is loop) + 1 :]
    wanted = {p.stmt.label for stage in stages for p in find_stage(func, stage)}
    facts = Facts.at(func, loop)
    out: list[Loop] = []
    for s in after:
        here = {p.stmt.label for p in leaf_paths((s,))}
        if not here & wanted:
            continue
        if not isinstance(s, Loop) or s.kind != "serial" or not facts.equal(s.extent, loop.extent):
            what = f"loop {s.var!r} of {text(s.extent)} iterations" if isinstance(s, Loop) else "no loop"
            raise ScheduleError(
                f"{join_names(sorted(here & wanted))} starts with {what}, and {loop.var!r} has {text(loop.extent)}",
                loop=loop.var, suggestion="split and reorder it, so that its outermost loop runs block by block, too",
            )  # fmt: skip
        out.append(s)
        wanted -= here
    if wanted:
        raise ScheduleError(
            f"{join_names(sorted(wanted))} does not stand after {loop.var!r}, in the same statements",
            loop=loop.var, suggestion="compute_at the loop around it first",
        )  # fmt: skip
    return out


def _require_one_fold_each(nests: Sequence[Loop]) -> None:
    """Refuse where two statements fold into one buffer: it would be corrected for each of them."""
    folds = [p.stmt for x in nests for p in leaf_paths((x,)) if isinstance(p.stmt, Reduce) and x.var in p.stmt.over]
    by: dict[str, str] = {}
    for s in folds:
        for b in s.buffers:
            if by.setdefault(b.name, s.label) != s.label:
                raise ScheduleError(
                    f"{by[b.name]} and {s.label} both fold into {b.name}, which is corrected for one fold alone",
                    suggestion="rolling_update before what makes two of it, as specialize does",
                )


# ---------------------------------------------------------------- the nest without corrections, and its legality


def _fused(func: Func, loop: Loop, nests: Sequence[Loop]) -> tuple[Func, dict[str, Origin], list[Block]]:
    """`func` with the nests in `loop`, where each statement came from, and what each nest is in the loop."""
    v, origin = Var(loop.var), dict[str, Origin]()
    blocks: list[Block] = []
    for x in nests:
        moved = tuple(substitute(s, {x.var: v}) for s in x.body)
        moved = replace_over(moved, {x.var: (loop.var,)})
        blocks.append(moved)
        origin |= {p.stmt.label: Origin(p.stmt.label, {x.var: v}) for p in leaf_paths(moved)}
    done = replace(loop, body=(*loop.body, *(s for b in blocks for s in b)))
    gone = {id(x) for x in nests}

    def visit(s: Stmt) -> Stmt | Body | None:
        return done if s is loop else () if id(s) in gone else None

    return replace(func, body=rewrite(func.body, visit)), origin, blocks


def _require_complete_folds(
    func: Func, plain: Func, origin: Mapping[str, Origin], loop: Loop, nests: Sequence[Loop]
) -> None:
    """Refuse if a statement reads a value that is not computed yet in the new order, or is overwritten, other than the
    unfinished result of a fold."""
    over = {loop.var, *(x.var for x in nests)}
    here = [p.stmt for x in (loop, *nests) for p in leaf_paths(x.body)]
    folds = {s.label: s for s in here if isinstance(s, Reduce) and over & {*s.over}}
    going = {b.name for s in folds.values() for b in s.buffers}
    moved = {p.stmt.label: leaf_writes(p.stmt) for x in nests for p in leaf_paths(x.body)}
    for s in (folds[label] for label in moved if label in folds):
        if read := sorted(going & {b for x in s.init or () for b in loaded_buffers(x)}):
            reason = f"{s.label} starts from {join_names(read)}, which is complete only after {loop.var!r}"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"decompose_reduction({s.label!r}) first")

    def matters(buffer: str, one: str, other: str) -> bool:
        only_reads = other in moved and buffer not in moved[other]
        return not (buffer in going and one in folds and only_reads)

    clash = violated_dependence(func, plain, origin, asks=matters)
    if clash is not None:
        reason = f"in {loop.var!r}, these two would run the other way round"
        raise refusal(clash, reason, loop.var, "blocks that need nothing of one another but folds")
    _require_own_blocks(plain, loop.var, moved)


def _require_own_blocks(plain: Func, v: str, moved: Collection[str]) -> None:
    """Refuse if one block reads what another one has made of folds that went on since."""
    every = [s for s in statements_of(plain) if s.label in moved and v in s.dims]
    for s in (s for s in every if not _goes_on(s, v)):
        for t in every:
            if loaded_buffers(t.place.stmt) & stored_buffers(s.place.stmt):
                earlier = [[({f"t.{v}": 1, f"s.{v}": -1, "": -1}, False)]]
                if has_conflict(plain, s, t, earlier):
                    raise ScheduleError(
                        f"{t.label} reads in one iteration of {v!r} what {s.label} made in another, of folds that have "
                        f"gone on since", loop=v, suggestion=f"a block of {t.label} that reads its own alone",
                    )  # fmt: skip


def _goes_on(s: Statement, v: str) -> bool:
    return isinstance(s.place.stmt, Reduce) and v in s.place.stmt.over
