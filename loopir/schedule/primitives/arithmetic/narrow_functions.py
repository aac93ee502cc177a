"""narrow_functions: functions to the accuracy of 16 bits, where all that is made of them is rounded to 16 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopir.arith.signs import is_nonnegative
from loopir.errors import ScheduleError
from loopir.ir.grammar import Cast, Func, If, InstrRegion, Load, Loop, Node, Op, Reduce, Select, Stmt, Store, Value
from loopir.ir.ops import REGISTRY
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    accessed_buffers,
    alloc_of,
    children,
    leaf_paths_of,
    loaded_buffers,
    nodes,
    replace_stmt,
    statements,
    stored_buffers,
)
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import with_values

RELATIVE = frozenset({"mul", "div", "neg", "abs", "sqrt", "rsqrt"})
"""Operations whose result is off by a part of itself if an argument is off by such a part of itself."""


@primitive
def narrow_functions(func: Func, stage: str) -> Func:
    """Compute functions of `stage`, such as `exp`, by those for results of 16 bits, such as `exp_16`.

    All that is made of them is rounded to 16 bits: by a cast, or after products, quotients, sums of nonnegative terms
    and maxima, which are off by no larger part of themselves than what they are made of. Where such a result would be
    rounded one way or the other, that may change, and nothing else does.

    before:
        def f(A: "float32[3, 8]", B: "out bfloat16[3, 8]"):
            with alloc("float32[3]") as S:
                for i in range(3):
                    for j in range(8):
                        S[i] = sum(exp(A[i, j]), over=j, init=0.0)
                for i_1 in range(3):
                    for j_1 in range(8):
                        B[i_1, j_1] = bfloat16(exp(A[i_1, j_1]) / S[i_1])
    call:    narrow_functions("S")
    after:
        def f(A: "float32[3, 8]", B: "out bfloat16[3, 8]"):
            with alloc("float32[3]") as S:
                for i in range(3):
                    for j in range(8):
                        S[i] = sum(exp_16(A[i, j]), over=j, init=0.0)
                for i_1 in range(3):
                    for j_1 in range(8):
                        B[i_1, j_1] = bfloat16(exp(A[i_1, j_1]) / S[i_1])

    before:
        def g(A: "float32[8]", B: "out float32[8]", C: "out bfloat16[8]", D: "out bfloat16[8]"):
            for i in range(8):
                B[i] = exp(A[i])
            for j in range(8):
                C[j] = bfloat16(exp(A[j]) - 1.0)
            for k in range(8):
                D[k] = bfloat16(A[k])
    refuses: narrow_functions("B")  # exp(A[i]) reaches B, of float32
    refuses: narrow_functions("C")  # exp(A[j]) reaches exp(A[j]) - 1.0, which may be off by more than a part of itself
    refuses: narrow_functions("D")  # D computes no function that has a form for 16 bits
    """
    places = find_stage(func, stage)
    found = False
    for place in places:
        s = place.stmt
        new: dict[Value, Value] = {}
        for x in (x for v in children(s) for x in nodes(v)):
            name = f"{x.fn.name}_16" if isinstance(x, Op) else ""
            if isinstance(x, Op) and name in REGISTRY and x.dtype.name == "float32":
                _require_rounded(func, s, x)
                new[x] = Op(REGISTRY[name], x.args)
        found |= bool(new)
        func = replace_stmt(func, s, with_values(s, new)) if new else func
    if not found:
        labels = join_names(dict.fromkeys(p.stmt.label for p in places))
        raise ScheduleError(
            f"{labels} computes no function that has a form for 16 bits", suggestion="a stage with exp or sigmoid"
        )
    return func


def _require_rounded(func: Func, s: Store | Reduce, function: Op) -> None:
    """Refuse unless all that is made of `function`, in `s`, is rounded to 16 bits."""
    pending: list[tuple[Store | Reduce, Node]] = [(s, function)]
    seen: set[str] = set()
    while pending:
        at, part = pending.pop()
        name = _reached(func, at, part, function)
        if name is None or name in seen:
            continue
        seen.add(name)
        if alloc_of(func, name) is None:
            raise _refused(function, f"{name}, of {_dtype(at)}")
        _require_plain_readers(func, name, function)
        for p in leaf_paths_of(func):
            pending += [(p.stmt, x) for x in _loads(p.stmt, name)]


def _dtype(s: Store | Reduce) -> str:
    return (s.buffer if isinstance(s, Store) else s.buffers[0]).dtype.name


def _loads(s: Store | Reduce, name: str) -> Iterator[Load]:
    found = (x for v in children(s) for x in nodes(v) if isinstance(x, Load) and x.buffer.name == name)
    yield from dict.fromkeys(found)


def _reached(func: Func, s: Store | Reduce, part: Node, function: Op) -> str | None:
    """The buffer that `s` stores what it makes of `part` into, off by as small a part of itself; None if it rounds
    that to 16 bits."""
    if any(x == part for v in (*s.at, *((s.init or ()) if isinstance(s, Reduce) else ())) for x in nodes(v)):
        raise _refused(function, f"where {s.label} stores, or starts from")
    values = s.values
    if _are_rounded(values, part, function):
        return None
    name = (s.buffer if isinstance(s, Store) else s.buffers[0]).name
    if isinstance(s, Reduce):
        _require_no_cancellation(s, function)
    if _is_updated(func, name):
        raise _refused(function, f"{name}, which a fold goes on from")
    return name


def _require_no_cancellation(s: Reduce, function: Op) -> None:
    """Refuse unless the fold is off by no larger part of itself than its terms are."""
    if len(s.buffers) > 1 or s.monoid.name not in ("sum", "max", "min"):
        raise _refused(function, f"{s.label}, a fold by {s.monoid.name}")
    if s.monoid.name == "sum" and not all(is_nonnegative(v, lambda _: False) for v in (*(s.init or ()), *s.values)):
        raise _refused(function, f"{s.label}, a sum of terms that may cancel")


def _is_updated(func: Func, name: str) -> bool:
    """Whether a fold into `name` may go on from what another statement stores there."""
    places = [p for p in leaf_paths_of(func) if name in stored_buffers(p.stmt)]
    folds = [(p.stmt, p.stmt.init, {*p.stmt.over}) for p in places if isinstance(p.stmt, Reduce)]
    return any(
        init is None or any(p.stmt is not s and not over.isdisjoint(x.var for x in p.loops) for p in places)
        for s, init, over in folds
    )


def _is_rounded(v: Value, part: Node, function: Op) -> bool:
    """Whether `v` rounds all that it makes of `part` to 16 bits; refuse if it makes something else of it first."""
    if v == part:
        return False
    if not any(x == part for x in nodes(v)):
        return True
    if isinstance(v, Cast) and v.dtype.is_float and v.value.dtype.is_float:
        return _is_rounded(v.value, part, function) or v.dtype.bytes <= 2
    if isinstance(v, Select) and not any(x == part for x in nodes(v.cond)):
        return _are_rounded((v.a, v.b), part, function)
    if isinstance(v, Op) and v.fn.name in RELATIVE:
        return _are_rounded(v.args, part, function)
    raise _refused(function, f"{text(v)}, which may be off by more than a part of itself")


def _are_rounded(values: Sequence[Value], part: Node, function: Op) -> bool:
    """Whether each of `values` rounds what it makes of `part`; all are looked at, as any may be refused."""
    each = [_is_rounded(x, part, function) for x in values]
    return all(each)


def _require_plain_readers(func: Func, name: str, function: Op) -> None:
    """Refuse if an instruction, a loop or a guard reads `name`."""
    for s in statements(func.body):
        read = set[str]()
        if isinstance(s, InstrRegion):
            read = accessed_buffers(s)
        elif isinstance(s, Loop | If):
            read = {x.buffer.name for x in nodes(s.extent if isinstance(s, Loop) else s.cond) if isinstance(x, Load)}
        elif not isinstance(s, Store | Reduce) and not _has_body(s):
            read = loaded_buffers(s)
        if name in read:
            raise _refused(function, f"{name}, which more than stores and folds read")


def _has_body(s: Stmt) -> bool:
    return hasattr(s, "body")


def _refused(function: Op, what: str) -> ScheduleError:
    return ScheduleError(
        f"{text(function)} reaches {what}",
        suggestion="a stage of whose values only products, sums without cancellation and the like are rounded to 16 "
        "bits",
    )
