"""reverse_compute_inline: a stage is folded into the store of what it reads, whose buffer goes away."""

from __future__ import annotations

from contextlib import suppress

from loopir.errors import ScheduleError
from loopir.ir.grammar import Body, Func, Index, Int, Load, Loop, Reduce, Stmt, Store
from loopir.ir.walk import (
    Place,
    accessed,
    declared,
    exchanged,
    loaded,
    loops_of,
    nests,
    nodes,
    places_of,
    rewrite,
    root,
    substitute,
)
from loopir.schedule.find import find_stage, listing
from loopir.schedule.placement import opened
from loopir.schedule.primitives.compute_inline import compute_inline, inlined_but
from loopir.schedule.primitives.reverse_compute_at import placed
from loopir.schedule.schedule import primitive


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
    place, *more = find_stage(func, stage)
    if more:
        raise ScheduleError(
            f"{stage!r} is several statements: {listing(p.stmt.label for p in (place, *more))}",
            suggestion="name one of these",
        )
    consumer = place.stmt
    maker = _maker(func, consumer)
    label = maker.stmt.label
    if not maker.loops:
        raise ScheduleError(
            f"{maker.stmt.label} is stored in no loop", suggestion=f"compute_inline of {maker.stmt.label}"
        )
    own = [x.var for x in place.loops if x not in maker.loops]
    beside = _beside(func, consumer, maker, settle=False)
    try:
        return compute_inline(_unit_loops_gone(beside, own), label)
    except ScheduleError:  # the intermediate may be one that each iteration could have anew
        beside = _beside(func, consumer, maker, settle=True)
    try:
        return compute_inline(_unit_loops_gone(beside, own), label)
    except ScheduleError as error:  # about a nest that nobody has seen
        raise ScheduleError(
            f"with {consumer.label} beside {label}, {error.reason}", loop=error.loop, suggestion=error.suggestion
        ) from None


def _beside(func: Func, consumer: Store | Reduce, maker: Place, *, settle: bool) -> Func:
    """The consumer in the innermost loop of what it reads, where it reads one element; it computes others itself."""
    label, loop, (name,) = maker.stmt.label, maker.loops[-1].var, _written(maker)
    try:
        return placed(func, consumer.label, loop, settle=settle)
    except ScheduleError:
        read = dict.fromkeys(n for n in nodes(consumer) if isinstance(n, Load) and n.buffer.name == name)
        apart = [x.var for x in find_stage(func, consumer.label)[0].loops if x not in maker.loops]
        near = opened(func, label, apart[0]) if apart else func
        for one in read if len(read) > 1 else ():
            with suppress(ScheduleError):
                return placed(inlined_but(near, label, consumer, one), consumer.label, loop, settle=settle)
        raise


def _maker(func: Func, consumer: Store | Reduce) -> Place:
    """The one store of the last intermediate that `consumer` reads; refuses where it is no such thing."""
    own = {a.buffer.name for a in func.args}
    read = loaded(consumer) - own
    made = [p for p in places_of(func) if not read.isdisjoint(_written(p))]
    if not made:
        raise ScheduleError(f"{consumer.label} reads no intermediate", suggestion="a stage that reads another one")
    maker = made[-1]
    label = maker.stmt.label
    if isinstance(maker.stmt, Reduce):
        reason = f"{label} is a reduction, and has its value only when all of it is folded in"
        raise ScheduleError(reason, suggestion=f"reverse_compute_at of {consumer.label}, outside of the fold")
    (name,) = _written(maker)
    near = (p for p in places_of(func) if name in accessed(root(p)) and p.stmt is not consumer)
    others = [p.stmt.label for p in near if name in loaded(p.stmt)]
    if others:
        raise ScheduleError(f"{listing(others)} reads {name}, too", suggestion=f"compute_inline of {label}")
    return maker


def _written(place: Place) -> list[str]:
    stmt = place.stmt
    return [stmt.buffer.name] if isinstance(stmt, Store) else [b.name for b in stmt.buffers]


def _unit_loops_gone(func: Func, names: list[str]) -> Func:
    """`func` without those of the loops that run once."""
    reduced = {v for p in places_of(func) if isinstance(p.stmt, Reduce) for v in p.stmt.over}
    known = loops_of(func)
    gone = [x for v in names if (x := known.get(v)) is not None and x.extent == Int(1) and v not in reduced]
    if not gone:
        return func
    at: dict[str, Index] = {x.var: Int(0) for x in gone}

    def visit(s: Stmt) -> Body | None:
        return tuple(y for x in s.body for y in rewrite((x,), visit)) if isinstance(s, Loop) and s.var in at else None

    nest = next(s for s in nests(func.body) if gone[0].var in declared(s))
    return exchanged(func, nest, rewrite((substitute(nest, at),), visit))
