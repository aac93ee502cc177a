"""narrow_sum: a sum of integers in a narrower type, which is proved to hold it."""

from __future__ import annotations

from math import prod

from loopir.arith.upper_bound import max_trip_count
from loopir.arith.value_range import Range, fits, value_range
from loopir.errors import ScheduleError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cast,
    Const,
    Func,
    InstrRegion,
    Int,
    Load,
    Node,
    Op,
    Reduce,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.ops import MONOIDS
from loopir.ir.traverse.queries import child_stmts
from loopir.ir.traverse.walk import (
    children,
    leaf_paths_of,
    nodes,
    rebuild,
    replace,
    replace_stmt,
    stored_buffers,
)
from loopir.schedule.legality.reductions import Fold, find_reduce
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import find_dtype

RING = frozenset({"add", "sub", "mul", "neg"})
"""Operations whose result in a narrower type depends on the arguments in that type alone."""


@primitive
def narrow_sum(func: Func, stage: str, dtype: str = "int32") -> Func:
    """Add up the sum `stage` of integers in `dtype`, where the types of its terms, and how many there are, prove that
    this type holds it. Those that read the sum widen it.

    before:
        def f(A: "int8[4, 64]", B: "int8[64]", C: "out int64[4]"):
            with alloc("int64[4]") as S:
                for i in range(4):
                    for k in range(64):
                        S[i] = sum(int64(A[i, k]) * int64(B[k]), over=k, init=0)
                for i_1 in range(4):
                    C[i_1] = S[i_1]
    call:    narrow_sum("S")
    after:
        def f(A: "int8[4, 64]", B: "int8[64]", C: "out int64[4]"):
            with alloc("int32[4]") as S:
                for i in range(4):
                    for k in range(64):
                        S[i] = sum(int32(A[i, k]) * int32(B[k]), over=k, init=0)
                for i_1 in range(4):
                    C[i_1] = int64(S[i_1])
    refuses: narrow_sum("S", "i0")     # 'i0' is not an element type
    refuses: narrow_sum("S", "int64")  # S is of int64, which is no wider than int64
    refuses: narrow_sum("S", "int16")  # S may be -1040384 to 1048576, and int16 ends at 32767

    before:
        def g(n: "size", A: "int8[n]", C: "out int64[1]", D: "out int64[1]"):
            with alloc("int64[1]") as S:
                for k in range(n):
                    S[0] = sum(int64(A[k]), over=k, init=0)
                C[0] = S[0]
            for j in range(9):
                D[0] = sum(int64(j), over=j, init=0)
    refuses: narrow_sum("S")  # S has as many terms as 'k' has iterations, which no constant bounds
    refuses: narrow_sum("D")  # D is an argument of 'g'
    """
    fold, wanted = find_reduce(func, stage), find_dtype(dtype)
    s = fold.reduce
    b, old = s.buffers[0], s.buffers[0].dtype
    alloc = find_alloc(func, b.name)
    if not (old.is_integer and wanted.is_integer and wanted.bits < old.bits):
        raise ScheduleError(
            f"{b.name} is of {old}, which is no wider than {wanted}", suggestion="a sum of int64 in int32"
        )
    _require_alone(func, fold)
    least, most = _sum_range(fold)
    if not fits((least, most), wanted):
        raise ScheduleError(
            f"{b.name} may be {least} to {most}, and {wanted} ends at {wanted.greatest}",
            suggestion="fewer terms, or terms of narrower types",
        )
    assert s.init is not None
    start = tuple(_narrowed(v, wanted) for v in s.init)
    new = replace(s, monoid=MONOIDS["sum"]((wanted,)), values=(_narrowed(s.values[0], wanted),), init=start)
    made = replace_stmt(func, s, new)
    narrow = replace(alloc.buffer, dtype=wanted)
    return replace(made, body=tuple(_widened(x, narrow, old) for x in made.body))


def _require_alone(func: Func, fold: Fold) -> None:
    """Refuse unless the fold is a sum that starts from a value of its own, alone writes its buffer, and stores and
    folds alone read it."""
    s = fold.reduce
    name = s.buffers[0].name
    if s.monoid.name != "sum" or s.init is None or {*fold.over} != {*s.over}:
        raise ScheduleError(f"{s.label} is no sum that starts where its loops do", suggestion="a sum as it is written")
    if any(name in stored_buffers(p.stmt) for p in leaf_paths_of(func) if p.stmt is not s):
        raise ScheduleError(
            f"{s.label} is not alone to write {name}", suggestion="a sum before its start is decomposed"
        )
    if _read_by_others(func.body, name):
        raise ScheduleError(
            f"more than stores and folds read {name}", suggestion="a sum that no loop, guard or instruction reads"
        )


def _read_by_others(body: Body, name: str) -> bool:
    """Whether a loop, a guard or an instruction in `body` touches the buffer `name`."""
    pending: list[Stmt] = [*body]
    while pending:
        x = pending.pop()
        if isinstance(x, Store | Reduce):
            continue
        inner = () if isinstance(x, InstrRegion) else child_stmts(x)
        own = [c for c in children(x) if c not in inner and not isinstance(x, Alloc)]
        if any(isinstance(n, Buffer) and n.name == name for c in own for n in nodes(c)):
            return True
        pending += inner
    return False


def _sum_range(fold: Fold) -> Range:
    """What the sum, and each part of it, lies between."""
    s = fold.reduce
    around = {x.var: x.extent for x in fold.place.loops}
    counts: list[int] = []
    for x in fold.loops():
        if Var(x.var) in s.at and x.var not in s.over:
            continue  # it tells elements apart
        count = max_trip_count(x, around)
        if not isinstance(count, Int):
            raise ScheduleError(
                f"{s.label} has as many terms as {x.var!r} has iterations, which no constant bounds",
                loop=x.var, suggestion="a loop of a known length",
            )  # fmt: skip
        counts.append(count.value)
    assert s.init is not None
    terms = max(0, prod(counts))
    (first, last), (low, high) = value_range(s.init[0]), value_range(s.values[0])
    return first + min(0, low) * terms, last + max(0, high) * terms


def _narrowed(v: Value, t: DType) -> Value:
    """`v` modulo the numbers that `t` has."""
    if v.dtype == t:
        return v
    match v:
        case Const(x) if t.holds(int(x)):
            return Const(int(x), t)
        case Cast(x) if x.dtype.is_integer and (v.dtype.widens(x.dtype) or v.dtype.bits >= t.bits):
            return _narrowed(x, t)
        case Cast(x) if x.dtype.kind == "bool":
            return Cast(x, t)
        case Op(fn, args) if fn.name in RING and v.dtype.bits >= t.bits:
            return Op(fn, tuple(_narrowed(a, t) for a in args))
        case _:
            return Cast(v, t)


def _widened(node: Node, narrow: Buffer, old: DType) -> Node:
    """`node` with the buffer as `narrow`, and what is loaded of it as `old`."""

    def visit(n: Node) -> Node:
        if isinstance(n, Load) and n.buffer.name == narrow.name:
            return Cast(rebuild(n, visit), old)
        if isinstance(n, Buffer):
            return narrow if n.name == narrow.name else n
        return rebuild(n, visit)

    return visit(node)
