"""specialize_warps: what an iteration of a loop copies is copied by warps that do nothing else, and run ahead."""

from __future__ import annotations

from dataclasses import replace

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Func, Loop, Var, WarpSpecialized
from loopir.ir.traverse.walk import rewrite
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.loop_kinds import require_outside_lanes
from loopir.schedule.legality.scopes import require_places_apart
from loopir.schedule.primitives.gpu.pipeline import parts_of, ring_of
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses

MIN_REGISTERS, MAX_REGISTERS, REGISTER_STEP = 24, 256, 8
"""Registers that a thread may be given (PTX ISA, "setmaxnreg")."""


@primitive
def specialize_warps(func: Func, loop: str, *, stages: int, registers: tuple[int, int] = (40, 232)) -> Func:
    """Let warps of their own make the copies of `loop`, up to `stages` iterations ahead of the rest.

    The copies are the statements at the start of the body that fill memory which each iteration has anew, as for
    `pipeline`. That memory gets `stages` buffers, which the iterations use in turn. On a GPU a warpgroup more than the
    loops are bound to makes the copies, and goes on to the next iteration, also of loops around, while the rest is not
    done with this one: it waits only for a buffer whose last iteration is over. Of the block's registers each of its
    threads gets the first of `registers`, and each other thread the second. The copies are to be such as go on by
    themselves and count their bytes. The rest of the body must write nothing that the copies read.

    before:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            for i in range(n):
                with alloc("float32[8]", scope="shared") as T:
                    for x in range(8):
                        T[x] = A[i, x]
                    for y in range(8):
                        B[i, y] = T[y]
    call:    specialize_warps("i", stages=3, registers=(24, 240))
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            with alloc("float32[3, 8]", scope="shared") as T:
                for i in range(n):
                    with role(24, 240):
                        for x in range(8):
                            T[i % 3, x] = A[i, x]
                    for y in range(8):
                        B[i, y] = T[i % 3, y]
    refuses: specialize_warps("i", stages=1)  # 1 stage runs nothing ahead
    refuses: specialize_warps("i", stages=2, registers=(40, 250))  # a thread has 24 to 256 registers, a multiple of 8
    refuses: specialize_warps("x", stages=2)  # nothing at the start of 'x' fills memory that each iteration has anew

    before:
        def g(A: "inout float32[9, 8]"):
            for i in range(8):
                with alloc("float32[8]", scope="shared") as T:
                    for x in range(8):
                        T[x] = A[i, x]
                    for y in range(8):
                        A[i + 1, y] = T[7 - y]
    refuses: specialize_warps("i", stages=2)  # the copies read A, which the rest of 'i' writes
    """
    target = find_serial(func, loop)
    if stages < 2:
        raise ScheduleError(
            f"{stages} stage runs nothing ahead; there are to be 2 or more", loop=loop, suggestion="stages=2"
        )
    if any(not MIN_REGISTERS <= n <= MAX_REGISTERS or n % REGISTER_STEP for n in registers):
        raise ScheduleError(
            f"a thread has {MIN_REGISTERS} to {MAX_REGISTERS} registers, a multiple of {REGISTER_STEP}",
            loop=loop,
            suggestion="registers=(40, 232)",
        )
    require_stable_extent(target)
    require_outside_lanes(func, target)
    parts = parts_of(target)
    if not parts.copies:
        reason = f"nothing at the start of {target.var!r} fills memory that each iteration has anew"
        raise ScheduleError(reason, loop=target.var, suggestion=f"cache_read at {target.var!r} first")
    parts.require_ahead(func)
    rings = {b.name: ring_of(b, stages) for b in parts.buffers}
    for b in parts.buffers:
        require_places_apart(rings[b.name], b)

    def turned(body: Body) -> Body:
        return tuple(rebase_accesses(s, rings, lambda old: (Var(target.var) % stages, *old)) for s in body)

    done: Body = (replace(target, body=(WarpSpecialized(registers, turned(parts.copies)), *turned(parts.rest))),)
    for b in reversed(parts.buffers):
        done = (Alloc(rings[b.name], done),)
    return replace(func, body=rewrite(func.body, lambda s: done if isinstance(s, Loop) and s is target else None))
