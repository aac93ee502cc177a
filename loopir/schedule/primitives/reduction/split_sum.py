"""split_sum: a sum of terms that are sums themselves becomes two sums, one after the other, into the same element."""

from __future__ import annotations

from dataclasses import replace

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Op, Value
from loopir.ir.ops import REGISTRY
from loopir.ir.printer import text
from loopir.ir.traverse.clone import UsedNames
from loopir.ir.traverse.walk import loaded_buffers, replace_stmt
from loopir.schedule.legality.loop_kinds import require_concurrent
from loopir.schedule.legality.reductions import find_reduce
from loopir.schedule.schedule import primitive


@primitive
def split_sum(func: Func, stage: str) -> Func:
    """Fold the two parts of each term of the sum `stage` one after the other: the second by a stage of its own.

    The terms are sums or differences. The new stage goes on from what the first one has stored, so that their loops
    can be distributed: a sum of two products of matrices becomes two of one each. Floats are rounded otherwise.

    before:
        def f(A: "float32[8, 4]", B: "float32[8, 4]", x: "float32[4]", y: "float32[4]", S: "out float32[8]"):
            for i in range(8):
                for k in range(4):
                    S[i] = sum(A[i, k] * x[k] - B[i, k] * y[k], over=k, init=0.0)
    call:    split_sum("S")
    after:
        def f(A: "float32[8, 4]", B: "float32[8, 4]", x: "float32[4]", y: "float32[4]", S: "out float32[8]"):
            for i in range(8):
                for k in range(4):
                    S[i] = sum(A[i, k] * x[k], over=k, init=0.0)
                    S[i] = sum(-(B[i, k] * y[k]), over=k)

    before:
        def g(A: "float32[8]", B: "float32[8]", M: "inout float32[2]", T: "out float32[1]"):
            for i in range(8):
                T[0] = max(A[i] + B[i], over=i, init=-inf)
            for k in range(8):
                M[1] = sum(A[k] + M[0], over=k)
            for j in range(8):
                T[0] = sum(A[j] * B[j], over=j, label="P")
    refuses: split_sum("T")  # T is no sum
    refuses: split_sum("M")  # M reads M
    refuses: split_sum("P")  # the terms of P are no sums

    before:
        def h(A: "float32[8]", T: "out float32[1]"):
            for i in bind("threadIdx.x", 8):
                T[0] = sum(A[i] + 1.0, over=i, init=0.0)
    refuses: split_sum("T")  # as two sums, iterations of 'i' are not independent
    """
    r = find_reduce(func, stage).reduce
    if r.monoid.name != "sum":
        raise ScheduleError(f"{r.label} is no sum", suggestion="a fold by addition")
    parts = _addends(r.values[0])
    if parts is None:
        raise ScheduleError(
            f"the terms of {r.label} are no sums", suggestion="a fold of terms such as A[i, k] * x[k] + B[i, k] * y[k]"
        )
    if r.buffers[0].name in loaded_buffers(r):
        raise ScheduleError(
            f"{r.label} reads {r.buffers[0].name}, which changes between its parts",
            suggestion=f"terms without {text(r.values[0])}",
        )
    first, second = parts
    label = UsedNames.of(func).label(r.label)
    made = replace(r, values=(first,)), replace(r, label=label, values=(second,), init=None)
    new = replace_stmt(func, r, made)
    require_concurrent(new, [r.label, label], "as two sums", f"split_sum({r.label!r}) before the loop is bound")
    return new


def _addends(term: Value) -> tuple[Value, Value] | None:
    """What a term is the sum of."""
    match term:
        case Op(fn, (a, b)) if fn.name == "add":
            return a, b
        case Op(fn, (a, b)) if fn.name == "sub":
            return a, Op(REGISTRY["neg"], (b,))
        case _:
            return None
