"""alternate: warpgroups take turns with a part of a nest, so that one does the rest meanwhile."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import THREAD_AXES, Body, Func, If, Int, InTurn, Loop, Stmt, WarpSpecialized
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loaded_buffers, path_to, replace_block, statements
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.effects import writes
from loopir.schedule.legality.loop_kinds import require_outside_lanes
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.siblings import body_with


@primitive
def alternate(func: Func, *loops: str) -> Func:
    """Run `loops`, bound to warpgroups, in turns: by one warpgroup after another.

    The loops stand one after the other, with at most copies by warps of their own (`specialize_warps`) between them.
    While one warpgroup has its turn, the others do what stands around these loops: so one's exponentials run beside
    another's products ("ping-pong"). No value changes. All warpgroups come by equally often, each waits for the one
    before it (bar.sync) and goes on after it lets the next one have its turn (bar.arrive).

    before:
        def f(A: "float32[4, 2, 128]", B: "out float32[4, 2, 128]"):
            for t in range(4):
                with alloc("float32[2, 128]") as T:
                    for g in bind("warpgroup", 2):
                        for i in range(128):
                            T[g, i] = A[t, g, i] * 2.0
                    for h in bind("warpgroup", 2):
                        for j in range(128):
                            B[t, h, j] = exp(T[h, j])
    call:    alternate("g")
    after:
        def f(A: "float32[4, 2, 128]", B: "out float32[4, 2, 128]"):
            for t in range(4):
                with alloc("float32[2, 128]") as T:
                    with turns():
                        for g in bind("warpgroup", 2):
                            for i in range(128):
                                T[g, i] = A[t, g, i] * 2.0
                    for h in bind("warpgroup", 2):
                        for j in range(128):
                            B[t, h, j] = exp(T[h, j])
    refuses: alternate("t")  # 't' is not bound to warpgroup, but serial
    refuses: alternate("g", "i")  # 'i' is not bound to warpgroup
    refuses: alternate()  # no loop is named

    before:
        def f(A: "float32[4, 2, 128]", B: "out float32[4, 2, 128]", C: "out float32[4, 2, 128]"):
            for t in range(4):
                for g in bind("warpgroup", 2):
                    for i in range(128):
                        B[t, g, i] = A[t, g, i] * 2.0
                for h in bind("warpgroup", 2):
                    for j in range(128):
                        C[t, h, j] = exp(A[t, h, j])
    call:    alternate("g", "h")
    after:
        def f(A: "float32[4, 2, 128]", B: "out float32[4, 2, 128]", C: "out float32[4, 2, 128]"):
            for t in range(4):
                with turns():
                    for g in bind("warpgroup", 2):
                        for i in range(128):
                            B[t, g, i] = A[t, g, i] * 2.0
                    for h in bind("warpgroup", 2):
                        for j in range(128):
                            C[t, h, j] = exp(A[t, h, j])

    before:
        def f(A: "float32[4, 2, 128]", B: "out float32[4, 2, 128]"):
            for t in range(4):
                with turns():
                    for g in bind("warpgroup", 2):
                        for i in range(128):
                            B[t, g, i] = A[t, g, i] * 2.0
    refuses: alternate("g")  # warpgroups take turns with 'g' already
    """
    if not loops:
        raise ScheduleError("no loop is named to run in turns", suggestion="one that is bound to warpgroup")
    named = [find_loop(func, name) for name in loops]
    first = named[0]
    around = path_to(func, first)[:-1]
    for loop in named:
        _require_warpgroups(loop)
    if any(isinstance(s, InTurn) for s in (*around, *statements(tuple(named)))):
        part = "" if any(isinstance(s, InTurn) for s in around) else "a part of "
        reason = f"warpgroups take turns with {part}{first.var!r} already"
        raise ScheduleError(reason, loop=first.var, suggestion="another loop")
    require_outside_lanes(func, first)
    _require_equally_often(func, first, around)
    level = body_with(func, first)
    begin, end = _range_of(level, named)
    made = (*level[:begin], InTurn(level[begin:end]), *level[end:])
    return replace_block(func, around, level, made)


def _require_warpgroups(loop: Loop) -> None:
    """Refuse a loop that is not of several warpgroups."""
    if loop.kind != "warpgroup":
        how = "serial" if loop.kind == "serial" else f"bound to {loop.kind}" if loop.kind in THREAD_AXES else loop.kind
        reason = f"{loop.var!r} is not bound to warpgroup, but {how}, and warpgroups are what takes turns"
        raise ScheduleError(reason, loop=loop.var, suggestion=f'bind("{loop.var}", "warpgroup") first')
    if not isinstance(loop.extent, Int) or loop.extent.value < 2:
        reason = f"{loop.var!r} has {text(loop.extent)} iterations, and one warpgroup has nobody to take turns with"
        raise ScheduleError(reason, loop=loop.var, suggestion="a loop of two warpgroups or more")


def _require_equally_often(func: Func, loop: Loop, around: tuple[Stmt, ...]) -> None:
    """Refuse unless what decides how often `loop` runs is the same for all threads."""
    for s in around:
        if isinstance(s, Loop) and s.kind in THREAD_AXES:
            reason = (
                f"{loop.var!r} stands in {s.var!r}, bound to {s.kind}, so that a part of a warpgroup would take turns"
            )
            raise ScheduleError(
                reason, loop=loop.var, suggestion=f"the loop bound to warpgroup around that of {s.kind}"
            )
        control = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
        if control is not None and (read := sorted(loaded_buffers(control) & writes(func.body))):
            reason = f"how often {loop.var!r} runs is read from {read[0]}, which is written: threads may see it differ"
            raise ScheduleError(reason, loop=loop.var, suggestion="a loop whose length is not written here")


def _range_of(body: Body, named: list[Loop]) -> tuple[int, int]:
    """Where the loops `named` begin and end in `body`; there are to be only these and roles between."""
    places = [next((n for n, s in enumerate(body) if s is loop), None) for loop in named]
    for loop, place in zip(named, places, strict=True):
        if place is None:
            reason = f"{loop.var!r} does not stand beside {named[0].var!r}, in one list of statements"
            raise ScheduleError(reason, loop=loop.var, suggestion="loops that stand one after the other")
    numbers = [n for n in places if n is not None]
    begin, end = min(numbers), max(numbers) + 1
    others = [s for s in body[begin:end] if not isinstance(s, WarpSpecialized)]
    between = [s for s in others if not any(s is loop for loop in named)]
    if between:
        names = join_names(repr(s.var) for s in between if isinstance(s, Loop))
        reason = f"what stands between {join_names(repr(x.var) for x in named)} is not in turns: {names}"
        raise ScheduleError(reason, loop=named[0].var, suggestion="name it too, or move it")
    return begin, end
