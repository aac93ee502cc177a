"""compute_root: a stage that is computed inside other loops gets a nest of its own again, before them."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Index, Loop, Var
from loopir.ir.traverse.walk import leaf_paths
from loopir.schedule.core.find import find_statement, join_names
from loopir.schedule.core.naming import new_names
from loopir.schedule.legality.refusal import refusal_inside
from loopir.schedule.primitives.loops.distribute import distribute
from loopir.schedule.schedule import primitive


@primitive
def compute_root(func: Func, stage: str) -> Func:
    """Compute all of `stage` in a nest of its own, before that of what reads it, whose loops keep their names.

    Memory that was an iteration's own gets an element for every iteration: what several iterations computed for
    themselves stays computed for each. `undo` takes a compute_at back as it was.

    before:
        def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):
            for j in range(n):
                with alloc("float32[3]") as T:
                    for i in range(3):
                        T[i] = A[j + i] * 2.0
                    B[j] = T[0] + T[2]
    call:    compute_root("T")
    after:
        def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):
            with alloc("float32[n, 3]") as T:
                for j_1 in range(n):
                    for i in range(3):
                        T[j_1, i] = A[j_1 + i] * 2.0
                for j in range(n):
                    B[j] = T[j, 0] + T[j, 2]
    refuses: compute_root("B")  # B is computed after T, in the same loops; T can have a nest of its own

    before:
        def g(n: "size", a: "inout float32[n + 1]", T: "inout float32[n + 1]"):
            for i in range(n):
                T[i] = a[i] * 2.0
                a[i + 1] = T[i]
    refuses: compute_root("T")  # a at (i=0) writes a[1], which T at (i=1) reads later

    before:
        def h(A: "float32[8]", B: "out float32[8]"):
            for i in range(8):
                B[i] = A[i]
    refuses: compute_root("B")  # B has a nest of its own
    """
    place = find_statement(func, stage)
    label = place.stmt.label
    shared = [x for x in place.loops if len(_labels(x)) > 1]
    if not shared:
        raise ScheduleError(f"{label} has a nest of its own", suggestion=f"leave {label} where it is")
    last = _labels(shared[-1])
    if last[-1] == label:
        reason = f"{label} is computed after {join_names(last[:-1])}, in the same loops"
        raise ScheduleError(
            f"{reason}; {join_names(last[:-1])} can have a nest of its own",
            loop=shared[-1].var,
            suggestion=f"compute_root({last[0]!r})",
        )
    new, back = func, dict[str, list[Index]]()
    for x in reversed(shared):
        inside = _labels(x)
        at = inside.index(label)
        cuts = (*inside[max(0, at - 1) : at], label)
        names = new_names(new, [x.var] * len(cuts), None)
        back[x.var] = [Var(v) for v in names]
        with refusal_inside(func, back):
            new = distribute(new, x.var, *cuts, names=(*names, x.var))
    return new


def _labels(loop: Loop) -> list[str]:
    """The statements in a loop, in textual order."""
    return [p.stmt.label for p in leaf_paths(loop.body)]
