"""double_buffer: the copy for the next iteration is made while this one is computed."""

from __future__ import annotations

from loopir.analysis.regions.retile import Retiling
from loopir.arith.simplify import simplify, simplify_cond
from loopir.arith.simplify_func import Known
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Layout,
    Loop,
    Mapped,
    Stmt,
    Strided,
    Var,
)
from loopir.ir.layout.layouts import element_span
from loopir.ir.traverse.walk import accessed_buffers, fresh_name, replace, replace_stmt, taken_names
from loopir.schedule.core.facts import known_at, known_in
from loopir.schedule.core.find import find_serial, join_names
from loopir.schedule.core.naming import clone_fresh
from loopir.schedule.legality.effects import allocates, reads, require_stable_extent, writes
from loopir.schedule.legality.scopes import find_alloc, require_places_apart
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses


@primitive
def double_buffer(func: Func, buffer: str, loop: str) -> Func:
    """Give the copy `buffer`, which each iteration of `loop` fills and uses, two halves: one is filled for the next.

    The first copy is made before the loop. On a GPU, one barrier an iteration is then enough, and loads are in flight
    while the threads compute. The copy stands first of what touches `buffer` and writes nothing else, and nothing in
    the loop writes what it reads.

    before:
        def f(A: "float32[8, 4]", S: "out float32[4]"):
            for k in range(8):
                with alloc("float32[4]", scope="shared") as T:
                    for x in range(4):
                        T[x] = A[k, x]
                    for i in range(4):
                        S[i] = sum(T[i] * T[0], over=k, init=0.0)
    call:    double_buffer("T", "k")
    after:
        def f(A: "float32[8, 4]", S: "out float32[4]"):
            with alloc("float32[2, 4]", scope="shared") as T:
                for x_1 in range(4):
                    T[0, x_1]: "T_1" = A[0, x_1]
                for k in range(8):
                    if k + 1 < 8:
                        for x in range(4):
                            T[(k + 1) % 2, x] = A[k + 1, x]
                    for i in range(4):
                        S[i] = sum(T[k % 2, i] * T[k % 2, 0], over=k, init=0.0)
    refuses: double_buffer("A", "k")  # A is an argument
    refuses: double_buffer("T", "x")  # T is not allocated in 'x'

    before:
        def g(n: "size", A: "inout float32[n, 4]"):
            for k in range(n):
                with alloc("float32[4]") as T:
                    for x in range(4):
                        T[x] = A[k, x]
                    for i in range(4):
                        A[k, i] = T[3 - i]
    refuses: double_buffer("T", "k")  # A, which T is filled from, is written in the same loop
    """
    alloc = find_alloc(func, buffer)
    target = find_serial(func, loop)
    require_stable_extent(target)
    if not any(s is alloc for s in target.body):
        reason = f"{alloc.buffer.name} is not allocated in {target.var!r} itself"
        raise ScheduleError(reason, loop=target.var, suggestion="cache_read at that loop")
    copy, b = _copy(target, alloc), alloc.buffer
    twice = replace(b, shape=(Int(2), *b.shape), layout=_layout(b, {*func.sizes}))
    require_places_apart(twice, b)
    now, later, known = Var(target.var), Var(target.var) + 1, known_in(func, target)
    first = _at(copy, target.var, Int(0), Cmp("<", Int(0), target.extent), known_at(func, target))
    first = _halved(clone_fresh(func, first, taken_names(func)), twice, Int(0))
    runs_on = Cmp("<", later, target.extent)
    half = simplify(later % 2, known.given(runs_on).here)
    ahead = _halved(_at(copy, target.var, later, runs_on, known), twice, half)
    at = next(n for n, s in enumerate(alloc.body) if s is copy)
    inner = (*alloc.body[:at], *ahead, *_halved(alloc.body[at + 1 :], twice, simplify(now % 2, known.here)))
    nest = replace(target, body=tuple(x for s in target.body for x in (inner if s is alloc else (s,))))
    return replace_stmt(func, target, Alloc(twice, (*first, nest)))


def _at(copy: Stmt, loop: str, iteration: Index, if_: Cond, known: Known) -> Body:
    """`copy` for an iteration of `loop`, if there is that one; it stands where so much is `known`."""
    c = simplify_cond(if_, known.here)
    if c == FALSE:
        return ()
    made = Retiling({loop: iteration}, {}, decides=True).body((copy,), known.given(c))
    return made if c == TRUE else (If(c, made),)


def _copy(loop: Loop, alloc: Alloc) -> Stmt:
    """The first statement that touches the buffer, if it may run before the iteration that it is for."""
    name = alloc.buffer.name
    copy = next((s for s in alloc.body if name in accessed_buffers(s)), None)
    if copy is None:
        raise ScheduleError(f"nothing touches {name}", suggestion=f"a buffer that is filled in {loop.var!r}")
    others = writes((copy,)) - allocates((copy,)) - {name}
    if name not in writes((copy,)) or others:
        does = f"writes {join_names(sorted(others))}, too" if others else "does not fill it"
        raise ScheduleError(
            f"the first statement that touches {name} {does}; only a copy is made ahead",
            suggestion=f"cache_read at {loop.var!r}, which makes a copy",
        )
    if changed := sorted((reads([copy]) - {name}) & writes(loop.body)):
        reason = f"{join_names(changed)}, which {name} is filled from, is written in the same loop"
        raise ScheduleError(reason, loop=loop.var, suggestion="a copy of what the loop leaves alone")
    return copy


def _layout(b: Buffer, sizes: set[str]) -> Layout | None:
    """The layout of two halves, each of which lies as `b` does."""
    match b.layout:
        case Strided(strides):
            return Strided((element_span(b), *strides))
        case Mapped(dims, at):
            half = fresh_name("half", {*dims, *sizes})
            return Mapped((half, *dims), Var(half) * element_span(b) + at)
        case _:
            return None


def _halved(body: Body, twice: Buffer, half: Index) -> Body:
    """`body` with every access to the buffer in the half called `half`."""
    return tuple([rebase_accesses(s, {twice.name: twice}, lambda at: (half, *at)) for s in body])
