"""unroll: write a loop's iterations out, one after the other, in the code that is emitted."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Int
from loopir.ir.printer import text
from loopir.ir.traverse.walk import replace, replace_loop
from loopir.schedule.core.find import find_serial
from loopir.schedule.schedule import primitive


@primitive
def unroll(func: Func, loop: str) -> Func:
    """Unroll `loop`, whose extent has to be a constant. The order of its iterations stays, so it is always legal.

    before:
        def f(A: "float32[4]", B: "out float32[4]"):
            for i in range(4):
                B[i] = A[i]
    call:    unroll("i")
    after:
        def f(A: "float32[4]", B: "out float32[4]"):
            for i in unroll(4):
                B[i] = A[i]

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
    refuses: unroll("i")  # runs n times, which is no constant
    """
    target = find_serial(func, loop)
    if not isinstance(target.extent, Int):
        reason = f"loop {target.var!r} runs {text(target.extent)} times, which is no constant"
        raise ScheduleError(reason, loop=loop, suggestion=f'split("{loop}", 4), then unroll the inner loop')
    return replace_loop(func, target.var, lambda s: replace(s, kind="unroll"))
