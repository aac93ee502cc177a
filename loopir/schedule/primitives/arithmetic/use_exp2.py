"""use_exp2: exponentials of differences as powers of 2, whose two scales are one constant."""

from __future__ import annotations

import math

from loopir.errors import ScheduleError
from loopir.intrinsics.ops import compare as compare
from loopir.ir.grammar import Const, Func, Op, Select, Value, ValueToCond
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.walk import children, nodes, replace_stmt
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import with_values

LOG2_E = math.log2(math.e)
MOST_SCALE, MOST_SUBTRACTED = 2.0, 2.0**31
"""Of an exponent; and the magnitude of what is subtracted, scaled, below which that scale is used."""


@primitive
def use_exp2(func: Func, stage: str) -> Func:
    """Compute each exponential of a difference in `stage`, `exp_16(x * c - y * c)`, as a power of 2.

    With k = c * log2(e) it is `exp2_16(x * k - y * k)`, and where y is the same for many x, one operation for each: a
    product and a sum, rounded once. The second product is rounded, too, so the result is that of a y that is off by
    half a unit in its last place. Where y * k is 2**31 or more, that unit alone would make powers infinite: k is 1
    there, and the power is 1 if x is y, and else 0 or infinite, as it is with any such scale. Of `exp`, which is exact
    to two units, it is refused.

    before:
        def f(A: "float32[8]", M: "float32[1]", B: "out float32[8]"):
            for i in range(8):
                B[i] = exp_16(A[i] * 0.5 - M[0] * 0.5)
    call:    use_exp2("B")
    after:
        def f(A: "float32[8]", M: "float32[1]", B: "out float32[8]"):
            for i in range(8):
                B[i] = exp2_16(A[i] * select(abs(M[0] * 0.7213475204444817) < 2147483648.0, 0.7213475204444817, 1.0)
                        - M[0] * select(abs(M[0] * 0.7213475204444817) < 2147483648.0, 0.7213475204444817, 1.0))

    before:
        def g(A: "float32[8]", B: "out float32[8]"):
            for i in range(8):
                B[i] = exp(A[i] - A[0])
            for j in range(8):
                B[j]: "C" = exp_16(A[j] * 0.5 - A[0])
    refuses: use_exp2("B")  # B has no exp_16 of a difference
    refuses: use_exp2("C")  # C has no exp_16 of a difference
    """
    places = find_stage(func, stage)
    found = 0
    for place in places:
        s = place.stmt
        read = (x for v in children(s) for x in nodes(v) if isinstance(x, Value))
        new = {x: y for x in read if (y := _power(x)) is not None}
        found += len(new)
        func = replace_stmt(func, s, with_values(s, new)) if new else func
    if not found:
        labels = join_names(dict.fromkeys(p.stmt.label for p in places))
        raise ScheduleError(
            f"{labels} has no exp_16 of a difference of two numbers, by one scale of at most {MOST_SCALE / LOG2_E:.3g}",
            suggestion="exp_16(x * c - y * c); narrow_functions makes exp_16 of exp, where that does",
        )
    return func


def _power(v: Value) -> Value | None:
    """`v`, if it is such an exponential, as a power of 2."""
    if not (isinstance(v, Op) and v.fn.name == "exp_16" and v.dtype.name == "float32"):
        return None
    of = v.args[0]
    if not (isinstance(of, Op) and of.fn.name == "sub"):
        return None
    (x, c), (y, d) = (_multiple_of(a) for a in of.args)
    if c != d or not 0 < c * LOG2_E <= MOST_SCALE:
        return None
    t = v.dtype
    scale = Const(c * LOG2_E, t)
    size = Op(REGISTRY["abs"], (Op(REGISTRY["mul"], (y, scale)),))
    k = Select(ValueToCond(Op(REGISTRY["lt"], (size, Const(MOST_SUBTRACTED, t)))), scale, Const(1.0, t))
    terms = tuple(Op(REGISTRY["mul"], (a, k)) for a in (x, y))
    return Op(REGISTRY["exp2_16"], (Op(REGISTRY["sub"], terms),))


def _multiple_of(v: Value) -> tuple[Value, float]:
    """What `v` is a multiple of, and by how much."""
    match v:
        case Op(fn, (x, Const(c))) | Op(fn, (Const(c), x)) if fn.name == "mul":
            return x, float(c)
        case _:
            return v, 1.0
