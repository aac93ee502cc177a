"""prefetch: what a loop reads a few iterations later is brought to the caches of a CPU meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from loopir.analysis.dependence.access import is_affine_visible
from loopir.arith.simplify import EMPTY, poly, simplify
from loopir.arith.simplify_func import context_at
from loopir.errors import ScheduleError
from loopir.ir.grammar import AXES, Alloc, Body, Func, Index, Int, Load, Loop, Prefetch, Var
from loopir.ir.layout.layouts import offset
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    guarded_loads,
    leaf_paths_of,
    path_to,
    replace,
    replace_loop,
    statements,
    substitute,
)
from loopir.schedule.core.find import PAST, find_buffer, find_loop, find_stage, join_names
from loopir.schedule.core.naming import UsedNames
from loopir.schedule.core.queries import loop_stride
from loopir.schedule.schedule import primitive

LINE_BYTES = 64
"""Bytes that caches bring at once."""
MAX_LINES = 32
"""Lines that one iteration may ask for."""


@primitive
def prefetch(func: Func, stage: str, buffer: str, loop: str, ahead: int = 1, *, over: str | None = None) -> Func:
    """Have each iteration of `loop` ask for what `stage` uses of `buffer` in the one `ahead` later, a line at a time.

    It asks as it begins; or for a few lines in each iteration of the loops inside it down to `over`, so that they do
    not all come at once, and for some beyond where these do not come out even. These loops may be around something
    else: if `stage` comes after them, they may ask for what the same iteration uses, with `ahead` 0.

    A hint to a CPU's caches, for elements that they would not fetch in time: it has no effect on any value. Past the
    last iteration it asks for what would come next, as it lies in memory: there may be no such element. A step that
    leaves `buffer` no more where it asks takes it away. GPUs do without.

    before:
        def f(A: "float32[64, 64]", C: "out float32[64]"):
            for i in range(64):
                for k in range(64):
                    C[i] = sum(A[i, k], over=k, init=0.0)
    call:    prefetch("C", "A", "i", 2)
    after:
        def f(A: "float32[64, 64]", C: "out float32[64]"):
            for i in range(64):
                for k_line in unroll(4):
                    prefetch(A[i + 2, k_line * 16])
                for k in range(64):
                    C[i] = sum(A[i, k], over=k, init=0.0)
    refuses: prefetch("C", "A", "i", 0)  # ahead is how many iterations, so at least 1, not 0
    refuses: prefetch("A", "C", "i")  # there is no stage 'A'

    before:
        def h(A: "float32[64, 1024]", x: "float32[1024]", C: "out float32[64]"):
            for i in range(64):
                for k_o in range(16):
                    for k_i in range(64):
                        C[i] = sum(A[i, k_o * 64 + k_i] * x[k_o * 64 + k_i], over=(k_o, k_i), init=0.0)
    call:    prefetch("C", "A", "i", over="k_o")
    after:
        def h(A: "float32[64, 1024]", x: "float32[1024]", C: "out float32[64]"):
            for i in range(64):
                for k_o in range(16):
                    for A_line in unroll(4):
                        prefetch(A[i + 1, k_o * 64 + A_line * 16])
                    for k_i in range(64):
                        C[i] = sum(A[i, k_o * 64 + k_i] * x[k_o * 64 + k_i], over=(k_o, k_i), init=0.0)
    refuses: prefetch("C", "A", "i")  # would ask for 64 lines of A at once, not 32 or fewer
    refuses: prefetch("C", "A", "i", over="i")  # 'i' does not stand in 'i'

    before:
        def p(x: "float32[64, 64]", C: "out float32[64, 64]"):
            for i in range(64):
                with alloc("float32[64]", scope="local") as t:
                    for k in range(64):
                        for j in vectorize(64):
                            t[j] = sum(x[k, j], over=k, init=0.0)
                    for j_1 in range(64):
                        C[i, j_1] = t[j_1]
    call:    prefetch("C", "C", "i", 0, over="k")
    after:
        def p(x: "float32[64, 64]", C: "out float32[64, 64]"):
            for i in range(64):
                with alloc("float32[64]", scope="local") as t:
                    for k in range(64):
                        prefetch(C[i, k // 16 * 16])
                        for j in vectorize(64):
                            t[j] = sum(x[k, j], over=k, init=0.0)
                    for j_1 in range(64):
                        C[i, j_1] = t[j_1]
    refuses: prefetch("t", "x", "i", 0, over="k")  # ahead is how many iterations, so at least 1, not 0

    before:
        def g(n: "size", A: "float32[n, n]", ix: "int32[n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    C[i, j] = A[ix[i], j]
    call:    prefetch("C", "C", "j", 16)
    after:
        def g(n: "size", A: "float32[n, n]", ix: "int32[n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    prefetch(C[i, j + 16])
                    C[i, j] = A[ix[i], j]
    refuses: prefetch("C", "A", "i")  # which element A[ix[i], j] is in 'i' is read from memory
    refuses: prefetch("C", "C", "i")  # one iteration of 'i' uses a line for each of 'j', and there may be any number
    """
    target = find_loop(func, loop)
    _one_after_another(target)
    places = _stage_paths(func, stage, target)
    shared = () if over is None else _inside(func, target, over)
    if ahead < (least := int(not shared or not _before(func, shared[-1], places[0]))):
        raise ScheduleError(f"ahead is how many iterations, so at least {least}, not {ahead}", suggestion="ahead=1")
    asked = dict.fromkeys(x for p in places for x in _wanted(func, p, buffer, target))
    taken = UsedNames.of(func)
    hints = tuple(x for w in asked for x in _asking(w, target, ahead, shared, taken))
    return replace_loop(func, over or loop, lambda s: replace(s, body=(*hints, *s.body)))


def _one_after_another(loop: Loop) -> None:
    if loop.kind in ("vectorize", "parallel", *AXES):
        how = f"bound to {loop.kind}" if loop.kind in AXES else PAST[loop.kind]
        raise ScheduleError(
            f"loop {loop.var!r} is {how}: its iterations do not come one after another",
            loop=loop.var, suggestion="a serial loop in it",
        )  # fmt: skip


def _inside(func: Func, loop: Loop, over: str) -> tuple[Loop, ...]:
    """The loops inside `loop` down to `over`."""
    last = find_loop(func, over)
    around = [x for x in path_to(func, last) if isinstance(x, Loop)]
    if loop not in around[:-1]:
        raise ScheduleError(
            f"{over!r} does not stand in {loop.var!r}",
            loop=over, suggestion=join_names(x.var for x in statements(loop.body) if isinstance(x, Loop))
            if any(isinstance(x, Loop) for x in statements(loop.body)) else "another loop: this one has none inside",
        )  # fmt: skip
    inside = around[around.index(loop) + 1 :]
    for x in inside:
        _one_after_another(x)
    return tuple(inside)


def _before(func: Func, loop: Loop, place: StmtPath) -> bool:
    """Whether `place` comes after all of `loop`."""
    order = [p for p in leaf_paths_of(func) if p == place or loop in p.loops]
    return order[-1] == place and loop not in place.loops


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An element, and by loop inside how many lines it moves over, and from one to the next by how many iterations."""

    element: Load
    lines: tuple[tuple[str, int, int], ...]


def _stage_paths(func: Func, stage: str, loop: Loop) -> list[StmtPath]:
    every = find_stage(func, stage)
    found = [p for p in every if loop in p.loops]
    if not found:
        raise ScheduleError(
            f"{stage} does not stand in {loop.var!r}", loop=loop.var,
            suggestion=f"a loop around it: {join_names(x.var for x in every[0].loops)}",
        )  # fmt: skip
    return found


def _wanted(func: Func, place: StmtPath, buffer: str, loop: Loop) -> Iterable[_Wanted]:
    """What the statement at `place` uses of `buffer` in one iteration of `loop`."""
    b, s = find_buffer(func, buffer), place.stmt
    if b.scope != "global":
        raise ScheduleError(f"{b.name} is in {b.scope} memory, which no cache brings", suggestion="a global buffer")
    if any(isinstance(x, Alloc) and x.buffer.name == b.name for x in statements(loop.body)):
        raise ScheduleError(
            f"{b.name} lives for one iteration of {loop.var!r}: another has another one",
            loop=loop.var, suggestion="a loop inside its allocation",
        )  # fmt: skip
    values = s.values
    found = [x for v in values for x, _ in guarded_loads(v) if x.buffer.name == b.name]
    found += [Load(x, s.at) for x in place.stmt.buffers if x.name == b.name]
    if not found:
        raise ScheduleError(f"{s.label} does not use {b.name}", suggestion="a buffer that it reads or writes")
    return [_wanted_lines(func, place, x, loop) for x in found]


def _wanted_lines(func: Func, place: StmtPath, element: Load, loop: Loop) -> _Wanted:
    shown, inside = text(element), place.loops[place.loops.index(loop) + 1 :]
    if not all(map(is_affine_visible, element.at)):
        raise ScheduleError(
            f"which element {shown} is in {loop.var!r} is read from memory",
            loop=loop.var, suggestion="a buffer whose subscripts are of loops and sizes",
        )  # fmt: skip
    if loop.var not in free_vars(element):
        raise ScheduleError(
            f"{shown} is the same in every iteration of {loop.var!r}",
            loop=loop.var, suggestion=f"one of the loops that it moves with: {join_names(sorted(free_vars(element)))}",
        )  # fmt: skip
    ctx = context_at(func, place.around)
    apart = poly(simplify(offset(element.buffer, element.at), ctx), ctx)
    lines: list[tuple[str, int, int]] = []
    for x in inside:
        if x.var not in free_vars(element):
            continue
        by = loop_stride(apart, x.var)
        each = LINE_BYTES // (abs(by.value) * element.buffer.dtype.bytes or LINE_BYTES) if isinstance(by, Int) else 1
        if not isinstance(x.extent, Int):
            raise ScheduleError(
                f"one iteration of {loop.var!r} uses a line for each of {x.var!r}, and there may be any number",
                loop=loop.var, suggestion=f"{x.var!r}, or a loop inside it",
            )  # fmt: skip
        each = max(1, each)
        lines.append((x.var, -(-x.extent.value // each), each))
    return _Wanted(element, tuple(lines))


def _asking(wanted: _Wanted, loop: Loop, ahead: int, shared: Sequence[Loop], taken: UsedNames) -> Body:
    """The hints for `wanted`, all at once or, of the loops `shared`, as many in each iteration.

    Of more iterations than lines, a power of two that follow one another ask for the same one, the largest that leaves
    none out: to find out which is then an operation or two, and fewer lines beyond the last are asked for than it has.
    """
    name, most = wanted.element.buffer.name, _lines_per_iteration(wanted, loop, shared)
    if shared:
        line = taken.name(f"{name}_line")
        loops = [(line, most)] if most > 1 else []
        number: Index = Int(0)
        for x in shared:
            number = number * x.extent + Var(x.var)
        number = number // _followers(_joint_trip_count(shared, wanted), _count(wanted))
        places = _digits(number * most + Var(line) if loops else number, wanted.lines)
    else:
        new = {v: taken.name(f"{v}_line") for v, count, _ in wanted.lines if count > 1}
        loops = [(new[v], count) for v, count, _ in wanted.lines if v in new]
        places = {v: Var(x) for v, x in new.items()}
    env = {v: places.get(v, Int(0)) * each for v, _, each in wanted.lines}
    at = [substitute(x, {loop.var: Var(loop.var) + ahead, **env}) for x in wanted.element.at]
    body: Body = (Prefetch(replace(wanted.element, at=tuple(simplify(x, EMPTY) for x in at))),)
    for v, count in reversed(loops):
        body = (Loop(v, Int(count), "unroll", body),)
    return body


def _followers(turns: int, lines: int) -> int:
    """The largest power of two of iterations of `turns` that may ask for one line where all `lines` are asked for."""
    if lines == 1:
        return 1 << (turns - 1).bit_length()
    return 1 << max(0, ((turns - 1) // (lines - 1)).bit_length() - 1)


def _count(wanted: _Wanted) -> int:
    return prod(n for _, n, _ in wanted.lines)


def _joint_trip_count(shared: Sequence[Loop], wanted: _Wanted) -> int:
    """How many iterations there are of all of `shared`."""
    for x in shared:
        if not isinstance(x.extent, Int):
            raise ScheduleError(
                f"{x.var!r} may have any number of iterations, to share {_count(wanted)} lines of "
                f"{wanted.element.buffer.name}",
                loop=x.var, suggestion="loops around it",
            )  # fmt: skip
    return max(1, prod(x.extent.value for x in shared if isinstance(x.extent, Int)))


def _lines_per_iteration(wanted: _Wanted, loop: Loop, shared: Sequence[Loop]) -> int:
    """How many lines one iteration asks for."""
    name, count = wanted.element.buffer.name, _count(wanted)
    if not count:
        raise ScheduleError(
            f"one iteration of {loop.var!r} uses no line of {name}, as a loop inside it never runs",
            loop=loop.var, suggestion="a statement that runs",
        )  # fmt: skip
    if (most := -(-count // _joint_trip_count(shared, wanted))) > MAX_LINES:
        where = (shared or [loop])[-1].var
        raise ScheduleError(
            f"one iteration of {where!r} would ask for {most} lines of {name} at once, not {MAX_LINES} or fewer",
            loop=where, suggestion="over=, a loop inside it",
        )  # fmt: skip
    return most


def _digits(number: Index, lines: Sequence[tuple[str, int, int]]) -> dict[str, Index]:
    """Which line of each loop is the one of that number, the last loop's lines first; more go on in the first loop."""
    found: dict[str, Index] = {}
    for n, (v, count, _) in reversed(list(enumerate(lines))):
        found[v] = number % count if n else number
        number = number // count
    return found
