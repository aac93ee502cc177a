"""parallel: the iterations of a loop run on the CPU's threads."""

from __future__ import annotations

from loopir.ir.grammar import Func
from loopir.ir.traverse.walk import replace, replace_loop
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.loop_kinds import require_independent, require_outside_lanes
from loopir.schedule.schedule import primitive


@primitive
def parallel(func: Func, loop: str) -> Func:
    """Run the iterations of `loop` in any order and at once, on the threads of the CPU.

    Legal where no two iterations touch one element that one of them writes; memory that is allocated inside the
    loop is each iteration's own. A GPU runs the loop in order: use bind there.

    before:
        def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    parallel("i")
    after:
        def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in parallel(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: parallel("k")  # S at (i=0, k=0) writes S[0], which S at (i=0, k=1) reads later (at n=1)

    before:
        def scan(n: "size", a: "inout float32[n + 1]"):
            for i in range(n):
                a[i + 1] = a[i + 1] + a[i]
    refuses: parallel("i")  # iterations of 'i' are not independent
    """
    target = find_serial(func, loop)
    require_outside_lanes(func, target)
    require_independent(func, target.var, "parallel")
    return replace_loop(func, target.var, lambda s: replace(s, kind="parallel"))
