"""atomic: several threads or blocks may fold into one element, each fold as one step."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, InstrRegion
from loopir.ir.traverse.walk import replace, replace_stmt
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.legality.reductions import find_reduce
from loopir.schedule.schedule import primitive


@primitive
def atomic(func: Func, stage: str) -> Func:
    """Make every fold of the reduction `stage` one step, which no other thread comes between.

    Loops whose iterations clash by these folds alone then may be parallel, or bound to blocks and threads. Which
    fold comes first is left open, so that floats are rounded differently from run to run. Any monoid of one value
    will do, as all are commutative; what it starts from is stored before, by decompose_reduction or by lowering.

    before:
        def histogram(n: "size", ix: "int32[n]", H: "inout int32[16]"):
            for i in range(n):
                H[ix[i]] += 1
    call:    atomic("H")
    after:
        def histogram(n: "size", ix: "int32[n]", H: "inout int32[16]"):
            for i in range(n):
                H[ix[i]] = sum(1, atomic=True)
    refuses: atomic("ix")  # there is no stage 'ix'

    before:
        def f(n: "size", A: "float32[n]", V: "inout float32[1]", I: "inout int32[1]"):
            for i in range(n):
                V[0], I[0] = argmax(A[i], int32(i), over=i)
    refuses: atomic("V")  # V folds into V and I, and no step updates several elements
    """
    reduce = find_reduce(func, stage).reduce
    if len(reduce.buffers) > 1:
        raise ScheduleError(
            f"{reduce.label} folds into {join_names(b.name for b in reduce.buffers)}, "
            f"and no step updates several elements",
            suggestion=f"rfactor({reduce.label!r}, ...), or threads that fold together",
        )  # fmt: skip
    done = next((s for p in find_stage(func, stage) for s in p.around if isinstance(s, InstrRegion)), None)
    if done is not None:
        raise ScheduleError(
            f"{done.fn.name} folds into {reduce.label}, and no instruction of that kind updates memory at one go",
            suggestion="atomic of a fold that no instruction does",
        )
    made = replace(reduce, atomic=True)
    return replace_stmt(func, reduce, made)
