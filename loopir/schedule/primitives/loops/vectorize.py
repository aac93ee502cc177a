"""vectorize: the iterations of a short loop become the lanes of vectors."""

from __future__ import annotations

from loopir.analysis.dataflow.equivalence import same_values
from loopir.errors import ScheduleError
from loopir.ir.grammar import AXES, Func, Int
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops, replace, replace_loop
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.loop_kinds import require_lockstep, require_outside_lanes
from loopir.schedule.schedule import primitive

MAX_LANES = 64


@primitive
def vectorize(func: Func, loop: str) -> Func:
    """Run all iterations of `loop` together, statement by statement: each reads in all lanes before it writes in any.

    The extent is a constant of at most 64. Legal where no lane needs what another writes. A loop that holds a reduction
    over it, and nothing else, becomes a vector reduction: its lanes are folded together, by halves on a CPU.

    before:
        def f(a: "inout float32[64]"):
            for i in range(15):
                for j in range(4):
                    a[i * 4 + j + 4] = a[i * 4 + j] * 2.0
    call:    vectorize("j")
    after:
        def f(a: "inout float32[64]"):
            for i in range(15):
                for j in vectorize(4):
                    a[i * 4 + j + 4] = a[i * 4 + j] * 2.0
    refuses: vectorize("i")  # the lanes of 'i' would run together

    before:
        def g(n: "size", a: "inout float32[n + 1]"):
            for i in range(n):
                a[i] = a[i + 1] * 2.0
    refuses: vectorize("i")  # n lanes

    before:
        def total(n: "size", A: "float32[n, 16]", S: "out float32[n]"):
            for i in range(n):
                for k in range(16):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    vectorize("k")
    after:
        def total(n: "size", A: "float32[n, 16]", S: "out float32[n]"):
            for i in range(n):
                for k in vectorize(16):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    """
    target = find_serial(func, loop)
    if not isinstance(target.extent, Int) or not 1 <= target.extent.value <= MAX_LANES:
        raise ScheduleError(
            f"{target.var!r} would have {text(target.extent)} lanes; a constant from 1 to {MAX_LANES} is possible",
            loop=target.var, suggestion=f'split("{target.var}", 8) and vectorize the inner loop',
        )  # fmt: skip
    other = next((x for x in loops(target.body) if x.kind in (*AXES, "parallel", "vectorize")), None)
    if other is not None:
        raise ScheduleError(
            f"{other.var!r}, inside {target.var!r}, is {other.kind}; lanes hold serial loops only",
            suggestion=f"vectorize before {other.var!r} is made {other.kind}",
        )
    require_outside_lanes(func, target)
    new = replace_loop(func, target.var, lambda s: replace(s, kind="vectorize"))
    try:
        require_lockstep(func, target.var)
    except ScheduleError:
        if not same_values(func, new):  # values that nobody looks at may be others
            raise
    return new
