"""specialize_warps: what an iteration of a loop copies is copied by warps that do nothing else, and run ahead."""

from __future__ import annotations

from dataclasses import replace

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, InstrRegion, Int, Loop, Stmt, Var, WarpSpecialized
from loopir.ir.traverse.walk import path_to, rewrite, statements
from loopir.schedule.core.find import find_serial, find_stage, join_names
from loopir.schedule.legality.effects import reads, require_stable_extent, writes
from loopir.schedule.legality.loop_kinds import require_outside_lanes
from loopir.schedule.legality.scopes import require_places_apart
from loopir.schedule.primitives.gpu.pipeline import parts_of, ring_of
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses

MIN_REGISTERS, MAX_REGISTERS, REGISTER_STEP = 24, 256, 8
"""Registers that a thread may be given (PTX ISA, "setmaxnreg")."""


@primitive
def specialize_warps(
    func: Func, loop: str, *, stages: int, registers: tuple[int, int] = (40, 232), once: tuple[str, ...] = ()
) -> Func:
    """Let warps of their own make the copies of `loop`, up to `stages` iterations ahead of the rest.

    The copies are the statements at the start of the body that fill memory which each iteration has anew, as for
    `pipeline`; and those further on that count their bytes, each in its place. That memory gets `stages` buffers, which
    the iterations use in turn. On a GPU a warpgroup more than the loops are bound to makes the copies, and goes on to
    the next iteration, also of loops around, while the rest is not done with this one: it waits only for a buffer whose
    last iteration is over. Of the block's registers each of its threads gets the first of `registers`, and each other
    thread the second. The copies are to be such as go on by themselves and count their bytes. The rest of the body must
    write nothing that the copies read.

    Copies called `once` stand before the loop, in memory that is allocated around both: these warps make them, too.

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
    refuses: specialize_warps("i", stages=2, once=("B",))  # B is no copy before 'i' that counts its bytes
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
    _require_stages_and_registers(loop, stages, registers)
    require_stable_extent(target)
    require_outside_lanes(func, target)
    parts = parts_of(target)
    buffers, later = _copies_further_on(parts.rest)
    if not parts.copies and not later:
        reason = f"nothing at the start of {target.var!r} fills memory that each iteration has anew"
        raise ScheduleError(reason, loop=target.var, suggestion=f"cache_read at {target.var!r} first")
    if parts.copies:
        parts.require_ahead(func)
    if later:
        marked = {id(s) for s in later}
        others = rewrite(parts.rest, lambda s: () if id(s) in marked else None)
        replace(parts, buffers=tuple(buffers), copies=tuple(later), rest=(*parts.copies, *others)).require_ahead(func)
    buffers = [*parts.buffers, *buffers]
    rings = {b.name: ring_of(b, stages) for b in buffers}
    for b in buffers:
        require_places_apart(rings[b.name], b)

    def turned(body: Body) -> Body:
        return tuple(rebase_accesses(s, rings, lambda old: (Var(target.var) % stages, *old)) for s in body)

    rest = rewrite(parts.rest, lambda s: WarpSpecialized(registers, (s,)) if any(s is x for x in later) else None)
    rest = turned(_without_allocs(rest, {*rings}))
    first = (WarpSpecialized(registers, turned(parts.copies)),) if parts.copies else ()
    done: Body = (replace(target, body=(*first, *rest)),)
    for b in reversed(buffers):
        done = (Alloc(rings[b.name], done),)
    made = [_made_once(func, target, stage) for stage in once]
    func = replace(func, body=rewrite(func.body, lambda s: done if isinstance(s, Loop) and s is target else None))
    for copy, b in made:
        func = _filled_by_role(func, copy, b, registers)
    return func


def _require_stages_and_registers(loop: str, stages: int, registers: tuple[int, int]) -> None:
    """Refuse a number of stages that runs nothing ahead, and registers that a thread cannot have."""
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


def _made_once(func: Func, loop: Loop, stage: str) -> tuple[Stmt, Buffer]:
    """The copy `stage` before `loop`, and the memory around both that it alone fills."""
    (place, *others) = find_stage(func, stage)
    alloc = next((s for s in reversed(place.around) if isinstance(s, Alloc)), None)
    copy = next((s for s in alloc.body if any(x is place.stmt for x in statements((s,)))), None) if alloc else None
    if others or alloc is None or copy is None or not _counts_bytes(copy) or not _stands_before(alloc, copy, loop):
        reason = f"{stage} is no copy before {loop.var!r} that counts its bytes"
        raise ScheduleError(reason, loop=loop.var, suggestion="cache_read at a loop around it, and tensorize")
    outermost = path_to(func, loop)[0]
    rest = writes(rewrite((outermost,), lambda s: () if s is copy else None))
    if bad := sorted(rest & (reads((copy,)) | {alloc.buffer.name})):
        reason = f"{join_names(bad)}, which {stage} reads or fills, is written beside it"
        raise ScheduleError(reason, loop=loop.var, suggestion="a copy of what nothing else writes")
    return copy, alloc.buffer


def _stands_before(alloc: Alloc, copy: Stmt, loop: Loop) -> bool:
    """Whether `loop` stands after `copy` in `alloc`."""
    after = alloc.body[next(n for n, s in enumerate(alloc.body) if s is copy) + 1 :]
    return any(x is loop for x in statements(after))


def _filled_by_role(func: Func, copy: Stmt, b: Buffer, registers: tuple[int, int]) -> Func:
    """`func` with `copy`, which fills `b`, made by the warps of the copies."""
    ring = {b.name: ring_of(b, 1)}
    role = WarpSpecialized(registers, (copy,))

    def visit(s: Stmt) -> Body | None:
        if not isinstance(s, Alloc) or s.buffer.name != b.name:
            return None
        body = rewrite(s.body, lambda x: role if x is copy else None)
        return (Alloc(ring[b.name], tuple(rebase_accesses(x, ring, lambda at: (Int(0), *at)) for x in body)),)

    return replace(func, body=rewrite(func.body, visit))


def _copies_further_on(body: Body) -> tuple[list[Buffer], list[Stmt]]:
    """The copies among the statements of `body` that count their bytes and alone fill memory allocated there, and that
    memory."""
    own: list[Buffer] = []
    copies: list[Stmt] = []

    def find(body: Body) -> None:
        for s in body:
            if isinstance(s, Alloc):
                own.append(s.buffer)
                find(s.body)
            elif _counts_bytes(s):
                copies.append(s)

    find(body)
    marked = {id(s) for s in copies}
    elsewhere = writes(rewrite(body, lambda s: () if id(s) in marked else None))
    names = {b.name for b in own} - elsewhere
    copies = [s for s in copies if writes((s,)) <= names]
    filled = writes(tuple(copies))
    return [b for b in own if b.name in filled], copies


def _counts_bytes(s: Stmt) -> bool:
    """Whether `s` is copies by instructions that count their bytes, and loops around them."""
    if isinstance(s, InstrRegion):
        return s.fn.asynchronous == "bytes"
    return isinstance(s, Loop) and bool(s.body) and all(map(_counts_bytes, s.body))


def _without_allocs(body: Body, names: set[str]) -> Body:
    """`body` with what is in the allocations of `names` in their place."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc):
            inner = _without_allocs(s.body, names)
            out += inner if s.buffer.name in names else (replace(s, body=inner),)
        else:
            out.append(s)
    return tuple(out)
