"""privatize: each iteration of a loop has an intermediate of its own, so that iterations no longer meet in it."""

from __future__ import annotations

from collections.abc import Sequence

from loopir.analysis.dataflow.liveness import clobbered_read
from loopir.analysis.dependence.access import Access, statements_of
from loopir.errors import ScheduleError, pairs
from loopir.ir.grammar import Alloc, Func, Loop, Stmt, Var
from loopir.ir.traverse.walk import leaf_paths, path_to, replace, replace_stmt, rewrite, statements
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.scopes import find_alloc, require_place
from loopir.schedule.schedule import primitive


@primitive
def privatize(func: Func, buffer: str, loop: str) -> Func:
    """Allocate the intermediate `buffer` anew in each iteration of `loop`, which can then run in parallel.

    Legal where only `loop` uses it, and each iteration reads what it has written itself.

    before:
        def f(A: "float32[8, 8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    for k in range(8):
                        T[k] = A[i, k] * 2.0
                    for j in range(8):
                        B[i] = max(T[j], over=j, init=0.0)
    call:    privatize("T", "i")
    after:
        def f(A: "float32[8, 8]", B: "out float32[8]"):
            for i in range(8):
                with alloc("float32[8]") as T:
                    for k in range(8):
                        T[k] = A[i, k] * 2.0
                    for j in range(8):
                        B[i] = max(T[j], over=j, init=0.0)
    refuses: privatize("B", "i")  # B is an argument
    refuses: privatize("T", "k")  # B uses T outside 'k'

    before:
        def g(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[1]") as last:
                for i in range(8):
                    if i % 2 == 0:
                        last[0] = A[i]
                    B[i] = last[0] * 2.0
    refuses: privatize("last", "i")  # B at (i=1) reads last[0], which last at (i=0) has written
    """
    alloc, target = find_alloc(func, buffer), find_loop(func, loop)
    name = alloc.buffer.name
    if not any(s is target for s in statements(alloc.body)):
        raise ScheduleError(
            f"{target.var!r} does not stand in the allocation of {name}",
            loop=target.var,
            suggestion=f"a loop inside the allocation of {name}",
        )
    chain = _chain(alloc, target)
    around = tuple(s.var for s in chain if isinstance(s, Loop))
    inside = {p.stmt.label for p in leaf_paths(target.body)}
    touching = [s for s in statements_of(func) if name in s.touches]
    outside = dict.fromkeys(s.name for s in touching if s.label not in inside or not {*around} <= {*s.dims})
    if outside:
        reason = f"{join_names(outside)} uses {name} outside {target.var!r}"
        raise ScheduleError(reason, loop=target.var, suggestion="a loop around all that uses it")
    _require_own(func, name, around)
    require_place(name, alloc.buffer.scope, (*path_to(func, alloc)[:-1], *chain), target.body)
    own = replace(target, body=(Alloc(alloc.buffer, target.body),))
    kept = rewrite(alloc.body, lambda s: own if s is target else None)
    return replace_stmt(func, alloc, kept)


def _chain(alloc: Alloc, target: Loop) -> tuple[Stmt, ...]:
    """What stands between the allocation and the loop, and the loop."""
    place = next((p for p in leaf_paths(alloc.body) if p.is_in(target)), None)
    if place is None:
        return (target,)
    end = next(n for n, s in enumerate(place.around) if s is target)
    return place.around[: end + 1]


def _is_subscript(loop: str, accesses: Sequence[Access]) -> bool:
    """Whether one subscript of all `accesses`, the same one, is `loop`."""
    return any(all(x == Var(loop) for x in at) for at in zip(*(a.at for a in accesses), strict=True))


def _require_own(func: Func, name: str, around: tuple[str, ...]) -> None:
    """Refuse if an iteration of the loops `around`, from the allocation to the loop, reads what another one wrote."""
    done = [(s, a) for s in statements_of(func) if name in s.touches for a in s.accesses if a.buffer == name]
    if all(_is_subscript(loop, [a for _, a in done]) for loop in around):
        return  # elements of two iterations are others
    clash = clobbered_read(func, [x for x in done if x[1].write], done, across=around)
    if clash is not None:
        element = f"{name}[{', '.join(map(str, clash.old))}]"
        reason = f"{clash.reader} at ({pairs(clash.reading)}) reads {element}, which {clash.writer} at "
        reason += f"({pairs(clash.writing)}) has written, in another iteration of {around[-1]!r}"
        witness, what = clash.witness(name, name), f"keep {name} around the loop"
        raise ScheduleError(clash.reason(reason), loop=around[-1], witness=witness, suggestion=what)
