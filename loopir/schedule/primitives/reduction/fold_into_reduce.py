"""fold_into_reduce: turn an update of an element into a reduction over the loops it does not depend on."""

from __future__ import annotations

from functools import reduce as fold_left

from loopir.errors import ScheduleError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Alloc, Func, Load, Loop, Monoid, Op, Reduce, Store, Value
from loopir.ir.ops import MONOIDS, REGISTRY, Intrinsic
from loopir.ir.printer import text
from loopir.ir.traverse.walk import StmtPath, free_vars, replace, replace_stmt
from loopir.schedule.core.find import find_statement, join_names
from loopir.schedule.schedule import primitive

Terms = list[tuple[bool, Value]]
"""What a value is a fold of; whether each is taken away instead."""


@primitive
def fold_into_reduce(func: Func, stage: str) -> Func:
    """Turn the update of `stage`, such as `x = x + e` or `x = max(x, e)`, into a reduction.

    The reduction is over all loops around it that the element does not depend on, so that the primitives for reductions
    apply to it. An update that is a reduction already, as `x += e` is, becomes one over these loops. A subtracted term
    is added as its negative. Several terms become one, which changes only the rounding.

    before:
        def f(n: "size", A: "float32[n, 8]", B: "float32[8, n]", C: "inout float32[n, n]"):
            for i in range(n):
                for k in range(8):
                    for j in range(n):
                        C[i, j] = C[i, j] - A[i, k] * B[k, j]
    call:    fold_into_reduce("C")
    after:
        def f(n: "size", A: "float32[n, 8]", B: "float32[8, n]", C: "inout float32[n, n]"):
            for i in range(n):
                for k in range(8):
                    for j in range(n):
                        C[i, j] = sum(-(A[i, k] * B[k, j]), over=k)

    before:
        def h(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: fold_into_reduce("S")  # S is a reduction with an init, which fixes its loops

    before:
        def g(n: "size", A: "float32[n]", M: "inout float32[1]", D: "out float32[n]"):
            for i in range(n):
                M[0] = maximum(A[i], M[0])
                D[i] = M[0] + A[i]
    call:    fold_into_reduce("M")
    after:
        def g(n: "size", A: "float32[n]", M: "inout float32[1]", D: "out float32[n]"):
            for i in range(n):
                M[0] = max(A[i], over=i)
                D[i] = M[0] + A[i]
    refuses: fold_into_reduce("D")  # D does not update D[i]
    """
    place = find_statement(func, stage)
    s = place.stmt
    over = _unseen_loops(place)
    if isinstance(s, Store):
        found = _update(s)
        if found is None:
            raise ScheduleError(
                f"{s.label} does not update {text(Load(s.buffer, s.at))}: its value has to combine that element, once, "
                "with other terms by one associative operation, such as + or max",
                suggestion=f"keep {s.label} as it is",
            )
        monoid, term = found
        return replace_stmt(func, s, (Reduce(s.label, (s.buffer,), s.at, monoid, (term,), over),))
    if s.init is not None or set(over) <= set(s.over):
        loops = join_names(s.over) if s.over else "none"
        raise ScheduleError(
            f"{s.label} already is a reduction over all loops that its element does not depend on: {loops}"
            if s.init is None
            else f"{s.label} is a reduction with an init, which fixes its loops",
            suggestion=f"keep {s.label} as it is",
        )
    return replace_stmt(func, s, (replace(s, over=over),))


def _unseen_loops(place: StmtPath) -> tuple[str, ...]:
    """The loops around a statement that its element does not depend on, inside the memory that it writes."""
    buffers = place.stmt.buffers
    seen = frozenset[str]().union(*map(free_vars, place.stmt.at))
    out: list[str] = []
    for s in place.around:
        if isinstance(s, Alloc) and s.buffer in buffers:
            out = []  # each iteration of a loop around it has memory of its own
        elif isinstance(s, Loop) and s.var not in seen:
            out.append(s.var)
    return tuple(out)


def _update(s: Store) -> tuple[Monoid, Value] | None:
    """The monoid by which a store folds something into its own element, and that; None if it does not."""
    if not isinstance(s.value, Op):
        return None
    own, t = Load(s.buffer, s.at), s.buffer.dtype
    for monoid in _monoids(t):
        (combined,) = monoid.combine
        if not isinstance(combined, Op) or combined.args != (*monoid.left, *monoid.right):
            continue
        terms = _fold_terms(s.value, combined.fn, _inverse(combined.fn, t))
        if [v for v in terms if v[1] == own] == [(False, own)] and len(terms) > 1:
            return monoid, _fold_expr([v for v in terms if v[1] != own], combined.fn)
    return None


def _monoids(t: DType) -> list[Monoid]:
    """The monoids on one value of type `t`."""
    out: list[Monoid] = []
    for make in MONOIDS.values():
        try:
            monoid = make((t,))
        except (TypeError, ValueError):  # of another number of components, or on other types
            continue
        out.append(monoid)
    return out


def _inverse(fn: Intrinsic, t: DType) -> Intrinsic | None:
    """The operation that adds the negative, if `fn` adds and numbers of type `t` have negatives."""
    return REGISTRY["sub"] if fn is REGISTRY["add"] and t.kind in ("float", "int") else None


def _fold_terms(value: Value, fn: Intrinsic, inverse: Intrinsic | None) -> Terms:
    """What `value` is as a fold by `fn`, from left to right."""
    out: Terms = []
    pending = [(False, value)]
    while pending:
        minus, v = pending.pop()
        if isinstance(v, Op) and v.fn is fn:
            pending += [(minus, x) for x in reversed(v.args)]
        elif isinstance(v, Op) and v.fn is inverse:
            a, b = v.args
            pending += [(not minus, b), (minus, a)]
        else:
            out.append((minus, v))
    return out


def _fold_expr(terms: Terms, fn: Intrinsic) -> Value:
    signed = [Op(REGISTRY["neg"], (v,)) if minus else v for minus, v in terms]
    return fold_left(lambda a, b: Op(fn, (a, b)), signed)
