"""defer_scale: the readers of a stage multiply by a constant, and the stage no longer does."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Buffer, Const, Func, InstrRegion, Load, Node, Op, Reduce, Select, Store, Value
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.walk import (
    accessed_buffers,
    leaf_paths_of,
    loaded_buffers,
    rebuild,
    replace,
    statements,
    stored_buffers,
)
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive

EXTREMES = ("max", "min")
INFINITY = float("inf")


@primitive
def defer_scale(func: Func, stage: str) -> Func:
    """Leave a positive constant that `stage` multiplies by to the statements that read its intermediate.

    The stage stores a product, also under a mask whose other side is 0 or infinite, or takes the maximum or minimum of
    products. The results are the same to the bit: rounding keeps the order of numbers, so the largest of the products
    is the product of the largest number. A reader that has another use for the constant, as the scale of an exponent
    has, then multiplies once.

    before:
        def f(A: "float32[3, 8]", B: "out float32[3, 8]"):
            with alloc("float32[3]") as M:
                for i in range(3):
                    for j in range(8):
                        M[i] = max(A[i, j] * 0.5, over=j, init=-inf)
                for i_1 in range(3):
                    for j_1 in range(8):
                        B[i_1, j_1] = A[i_1, j_1] * 0.5 - M[i_1]
    call:    defer_scale("M")
    after:
        def f(A: "float32[3, 8]", B: "out float32[3, 8]"):
            with alloc("float32[3]") as M:
                for i in range(3):
                    for j in range(8):
                        M[i] = max(A[i, j], over=j, init=-inf)
                for i_1 in range(3):
                    for j_1 in range(8):
                        B[i_1, j_1] = A[i_1, j_1] * 0.5 - M[i_1] * 0.5
    refuses: defer_scale("B")  # B is an argument of 'f', and its memory is the caller's

    before:
        def g(A: "float32[8]", S: "out float32[1]"):
            with alloc("float32[1]") as T, alloc("float32[8]") as N:
                for j in range(8):
                    T[0] = sum(A[j] * 0.5, over=j, init=0.0)
                for k in range(8):
                    N[k] = A[k] * -0.5
                S[0] = T[0] + N[0]
    refuses: defer_scale("T")  # T is a sum, which is rounded otherwise if its terms are multiplied later
    refuses: defer_scale("N")  # N is multiplied by no positive constant
    """
    places = find_stage(func, stage)
    s = places[0].stmt
    if len(places) > 1 or len(stored_buffers(s)) != 1:
        raise ScheduleError(f"{stage!r} is no one statement that stores one buffer", suggestion="the name of one")
    (name,) = stored_buffers(s)
    find_alloc(func, name)
    _require_alone(func, s, name)
    scale, rest = _scale_of(s)

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        if n is s:
            return replace(s, values=(rest,)) if isinstance(s, Reduce) else replace(s, value=rest)
        new = rebuild(n, visit)
        return Op(REGISTRY["mul"], (new, scale)) if isinstance(new, Load) and new.buffer.name == name else new

    return replace(func, body=tuple(visit(x) for x in func.body))  # pyright: ignore[reportArgumentType]


def _require_alone(func: Func, s: Store | Reduce, name: str) -> None:
    """Refuse unless `s` alone stores `name`, does not read it, and no instruction has it as an operand."""
    others = [p.stmt.label for p in leaf_paths_of(func) if p.stmt is not s and name in stored_buffers(p.stmt)]
    if others:
        raise ScheduleError(
            f"{join_names(others)} also stores into {name}, what its readers would multiply, too",
            suggestion="a stage that alone stores its buffer, before its start is decomposed",
        )
    if name in loaded_buffers(s):
        raise ScheduleError(f"{s.label} reads what it stores", suggestion="a stage that makes its buffer once")
    for x in statements(func.body):
        if isinstance(x, InstrRegion) and name in accessed_buffers(x):
            raise ScheduleError(f"{x.fn.name} has {name} as an operand", suggestion="defer the scale before tensorize")


def _scale_of(s: Store | Reduce) -> tuple[Const, Value]:
    """The constant that `s` multiplies by, and what it multiplies."""
    value = s.value if isinstance(s, Store) else s.values[0]
    if isinstance(s, Reduce):
        if s.monoid.name not in EXTREMES:
            raise ScheduleError(
                f"{s.label} is a {s.monoid.name}, which is rounded otherwise if its terms are multiplied later",
                suggestion="a store, a maximum or a minimum; factor_out for a sum",
            )
        start = s.init and s.init[0]
        if not (isinstance(start, Const) and _is_any_multiple(start)):
            raise ScheduleError(
                f"{s.label} starts from what is neither 0 nor infinite", suggestion="a fold from its identity"
            )
    found = _divided(value)
    if found is None or found[0] is None:
        raise ScheduleError(
            f"{s.label} is multiplied by no positive constant", suggestion="a stage that stores x * 0.5, or select(.., "
            "x * 0.5, -inf)",
        )  # fmt: skip
    return found[0], found[1]


def _is_any_multiple(v: Const) -> bool:
    """Whether a positive number times `v` is `v`."""
    return v.dtype.is_float and (v.value == 0 or abs(v.value) == INFINITY)


def _divided(v: Value) -> tuple[Const | None, Value] | None:
    """A constant and what, times it, is `v`; the constant is None where any one will do, and all is where none will."""
    match v:
        case Const():
            return (None, v) if _is_any_multiple(v) else None
        case Op(fn, (x, Const(k) as c)) if fn.name == "mul" and v.dtype.is_float and 0 < k < INFINITY:
            return c, x
        case Op(fn, (Const(k) as c, x)) if fn.name == "mul" and v.dtype.is_float and 0 < k < INFINITY:
            return c, x
        case Select(cond, a, b):
            one, other = _divided(a), _divided(b)
            if one is None or other is None or (one[0] and other[0] and one[0] != other[0]):
                return None
            return one[0] or other[0], Select(cond, one[1], other[1])
        case _:
            return None
