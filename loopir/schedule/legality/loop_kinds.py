"""Check what a loop's kind (parallel, vectorized, bound) asserts, where a step moves the loop."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from loopir.analysis.dependence.depend import lockstep, loop_carried
from loopir.errors import ScheduleError
from loopir.ir.dtypes import int32
from loopir.ir.grammar import (
    AXES,
    THREAD_AXES,
    Alloc,
    Body,
    Buffer,
    Cond,
    Const,
    Func,
    If,
    IndexToValue,
    Loop,
    Node,
    Reduce,
    Select,
    Stmt,
    Store,
    conj,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    is_affine_visible,
    is_vector_reduction,
    leaf_paths,
    leaf_paths_of,
    loaded_buffers,
    loop_of,
    map_body,
    map_stmts,
    path_to,
    replace,
    replace_stmt,
    stored_buffers,
)
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.launches import loops_gone_with, require_one_launch
from loopir.schedule.legality.reductions import Fold, require_inside
from loopir.schedule.legality.refusal import refusal

IN_ORDER = ("serial", "unroll")


def require_loop_kinds(func: Func, names: Iterable[str]) -> None:
    """Refuse if a loop in `names` has a kind that its dependences no longer allow."""
    for name in names:
        loop = loop_of(func, name)
        assert loop is not None
        kind = loop.kind
        if kind == "vectorize":
            require_lockstep(func, name)
        elif kind not in IN_ORDER:
            require_independent(func, name, kind)


def require_still_together(func: Func, new: Func, loop: Loop) -> None:
    """Refuse if threads around `loop`, or of it, fold together and would not where `new` has it in another form.

    What folds over them is one statement, which all of them reach, and its elements are the same for all.
    """
    folds = [p.stmt for p in leaf_paths((loop,)) if isinstance(p.stmt, Reduce)]
    over = {v for s in folds for v in s.over}
    at_once = [x.var for x in path_to(func, loop) if isinstance(x, Loop) and x.kind not in IN_ORDER and x.var in over]
    left = [v for v in at_once if loop_of(new, v) is not None]
    require_loop_kinds_with("then", new, left, "this step before that one is bound")


def require_loop_kinds_with(what: str, new: Func, names: Iterable[str], instead: str) -> None:
    """`require_loop_kinds` of `new`, a program that there is not yet: a refusal says that it is so with `what`."""
    try:
        require_loop_kinds(new, names)
    except ScheduleError as error:
        reason = f"{what} {error.reason}" + (f": {error.witness}" if error.witness is not None else "")
        raise ScheduleError(reason, loop=error.loop, suggestion=instead) from None


def require_concurrent(new: Func, labels: Iterable[str], what: str, instead: str) -> None:
    """Refuse if a loop around one of the stages `labels` whose iterations run at once does not allow it in `new`, the
    program with `what`."""
    places = (p for p in leaf_paths_of(new) if p.stmt.label in {*labels})
    at_once = dict.fromkeys(x.var for p in places for x in p.loops if x.kind not in IN_ORDER)
    require_loop_kinds_with(f"{what},", new, at_once, instead)


def require_independent(func: Func, loop: str, kind: str) -> None:
    """Refuse if two iterations of `loop`, to be run at once, touch one element and one of them writes it.

    Threads of a block may fold into one element by a reduction over `loop`: they do that together.
    """
    together = kind in THREAD_AXES
    clash = loop_carried(_with_control_reads(func, loop), loop, together=together)
    if clash is None:
        folds = _concurrent_folds(func, loop) if kind in AXES else []
        for fold in folds if together else ():
            if loop in fold.over and fold.reduce.init is None:
                require_inside(func, fold, _remaining(fold, loop), loop)
        if kind in AXES:
            require_one_launch(func, folds, loop, kind)
        return
    if clash.fold:
        options = [f"rfactor({clash.first!r}, {loop!r})"] if loop in _over(func, clash.first) else []
        options += [f"atomic({clash.first!r})", f"a loop over which {clash.first} does not fold into one element"]
        suggestion = ", or ".join(options)
    else:
        suggestion = f"a loop that carries no dependence on {clash.witness.buffer}, or keep {loop!r} serial"
    raise refusal(clash, f"iterations of {loop!r} are not independent", loop, suggestion)


def _concurrent_folds(func: Func, loop: str) -> list[Fold]:
    """The reductions over `loop`, or over loops that are bound."""

    def concerns(p: StmtPath) -> bool:
        over = p.stmt.over if isinstance(p.stmt, Reduce) else ()
        return bool(over) and any(x.var in over and (x.var == loop or x.kind in AXES) for x in p.loops)

    return [Fold.of(p) for p in leaf_paths_of(func) if concerns(p)]


def _with_control_reads(func: Func, loop: str) -> Func:
    """`func` with statements of their own for what lengths and guards in `loop` read of memory that it writes.

    They are asked in iterations, too, in which nothing runs that stands under them.
    """
    target = loop_of(func, loop)
    assert target is not None
    changed, numbers = stored_buffers(target), count(1)

    def asks(n: Node) -> bool:
        return not is_affine_visible(n) and not loaded_buffers(n).isdisjoint(changed)

    def visit(s: Stmt) -> Stmt | Body:
        out: Body = ()
        before: tuple[Cond, ...] = ()
        for t in conjuncts(s.cond) if isinstance(s, If) else (s.extent,) if isinstance(s, Loop) else ():
            if asks(t):
                what = "guard" if isinstance(s, If) else "length"
                name = f"{what} {next(numbers)} of {join_names(p.stmt.label for p in leaf_paths((s,)))}"
                answer = Buffer(name, (), int32, "local")
                value = Select(conj(*before), IndexToValue(t, int32), Const(0, int32))
                out = (*out, Alloc(answer, (Store(name, answer, (), value),)))
            elif isinstance(t, Cond):
                before = (*before, t)
        inner = map_stmts(s, visit)
        return (*out, inner) if out else inner

    body = map_body(target.body, visit)
    return func if body is target.body else replace_stmt(func, target, replace(target, body=body))


def _remaining(fold: Fold, loop: str) -> tuple[Loop | Cond, ...]:
    """What is left around `fold` where it is done for all iterations together: nothing that depends on which one."""
    gone = loops_gone_with(fold, set(fold.over))
    if told := sorted(gone & {v for x in fold.reduce.at for v in free_vars(x)}):
        reason = (
            f"the element that {fold.reduce.label} folds into tells {join_names(told)}, whose range is not the same"
        )
        raise ScheduleError(f"{reason} in all iterations of {loop!r}", loop=loop, suggestion=f"keep {loop!r} serial")
    return fold.without(gone)


def _over(func: Func, label: str) -> tuple[str, ...]:
    return next((p.stmt.over for p in leaf_paths_of(func) if p.stmt.label == label and isinstance(p.stmt, Reduce)), ())


def require_outside_lanes(func: Func, loop: Loop) -> None:
    """Refuse if `loop` stands in a vectorized one: lanes hold serial loops only."""
    for lanes in path_to(func, loop)[:-1]:
        if isinstance(lanes, Loop) and lanes.kind == "vectorize":
            reason = f"{loop.var!r} stands in the lanes of {lanes.var!r}, and lanes hold serial loops only"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"a loop around {lanes.var!r}")


def require_lanes_apart(new: Func, loops: Iterable[str], what: str) -> None:
    """Refuse if lanes of one of `loops` fold into one element in `new`, beside something else.

    Lanes are folded into one another only where a reduction is all that their loop holds.
    """
    for var in loops:
        loop = loop_of(new, var)
        if loop is None or loop.kind != "vectorize" or is_vector_reduction(loop):
            continue
        require_loop_kinds_with(f"{what},", new, [var], f"this step before {var!r} is vectorized")


def require_lockstep(func: Func, loop: str) -> None:
    """Refuse if running all iterations of `loop` together changes who sees what.

    Lanes of a loop that holds a reduction over it alone are folded together, in any order.
    """
    target = loop_of(func, loop)
    assert target is not None
    folded = is_vector_reduction(target)
    clash = loop_carried(func, loop, together=True) if folded else lockstep(func, loop)
    if clash is None:
        return
    distance = abs(clash.witness.second.get(loop, 0) - clash.witness.first.get(loop, 0))
    if distance > 1:
        suggestion = f"at most {distance} lanes: split({loop!r}, {distance}) and vectorize the inner loop"
    else:
        suggestion = f"keep {loop!r} serial, or vectorize a loop that carries no dependence on {clash.witness.buffer}"
    raise refusal(clash, f"the lanes of {loop!r} would run together", loop, suggestion)
