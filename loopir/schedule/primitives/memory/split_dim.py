"""split_dim: a dimension of an intermediate becomes two, as a loop does by `split`."""

from __future__ import annotations

from loopir.arith.simplify_func import simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import FloorDiv, Func, Index, Int, Mod
from loopir.ir.printer import text
from loopir.ir.traverse.walk import replace, replace_stmt
from loopir.schedule.core.facts import Facts
from loopir.schedule.legality.scopes import find_alloc, require_no_operand
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses


@primitive
def split_dim(func: Func, buffer: str, dim: int, factor: int) -> Func:
    """Make dimension `dim` of the intermediate `buffer` two: one of its parts of `factor` elements, and one of these.

    Its elements stay where they are; what changes is how they are counted. Where a nest's loop was split into groups,
    a group then has a dimension of its own, and what an iteration touches beyond a group is no other one's.

    before:
        def f(A: "float32[12]", B: "out float32[12]"):
            with alloc("float32[12]") as T:
                for x in range(3):
                    for y in range(4):
                        T[x * 4 + y] = A[x * 4 + y] * 2.0
                for i in range(12):
                    B[i] = T[i]
    call:    split_dim("T", 0, 4)
    after:
        def f(A: "float32[12]", B: "out float32[12]"):
            with alloc("float32[3, 4]") as T:
                for x in range(3):
                    for y in range(4):
                        T[x, y] = A[x * 4 + y] * 2.0
                for i in range(12):
                    B[i] = T[i // 4, i % 4]
    refuses: split_dim("A", 0, 4)  # A is an argument of 'f', and its memory is the caller's
    refuses: split_dim("T", 1, 4)  # T has 1 dimension, and none is dimension 1
    refuses: split_dim("T", 0, 5)  # dimension 0 of T has 12 elements, which are no whole parts of 5
    refuses: split_dim("T", 0, 0)  # a part has 1 element or more, not 0

    before:
        def g(n: "size", A: "float32[n * 4]", B: "out float32[n * 4]"):
            with alloc("float32[n * 4]") as T:
                for i in range(n * 4):
                    T[i] = A[i]
                for j in range(n * 4):
                    B[j] = T[j]
    call:    split_dim("T", 0, 2)
    after:
        def g(n: "size", A: "float32[n * 4]", B: "out float32[n * 4]"):
            with alloc("float32[n * 2, 2]") as T:
                for i in range(n * 4):
                    T[i // 2, i % 2] = A[i]
                for j in range(n * 4):
                    B[j] = T[j // 2, j % 2]
    refuses: split_dim("T", 0, 3)  # dimension 0 of T has n * 4 elements, which are no whole parts of 3
    """
    alloc = find_alloc(func, buffer)
    b = alloc.buffer
    if not 0 <= dim < len(b.shape):
        count = f"{len(b.shape)} dimension{'s' * (len(b.shape) != 1)}"
        raise ScheduleError(f"{b.name} has {count}, and none is dimension {dim}", suggestion=f"below {len(b.shape)}")
    if factor < 1:
        raise ScheduleError(f"a part has 1 element or more, not {factor}", suggestion="a divisor of the dimension")
    if b.layout is not None:
        raise ScheduleError(f"{b.name} has a layout that tells its dimensions apart", suggestion="split them before")
    require_no_operand(alloc)
    facts = Facts.at(func, alloc)
    if not facts.divides(factor, b.shape[dim]):
        reason = f"dimension {dim} of {b.name} has {text(b.shape[dim])} elements, which are no whole parts of {factor}"
        raise ScheduleError(reason, suggestion="a divisor of it")

    def halves(x: Index) -> tuple[Index, Index]:
        return FloorDiv(x, Int(factor)), Mod(x, Int(factor))

    def split(at: tuple[Index, ...]) -> tuple[Index, ...]:
        return (*at[:dim], *halves(at[dim]), *at[dim + 1 :])

    parts = facts.tidy(FloorDiv(b.shape[dim], Int(factor)))
    new = replace(b, shape=(*b.shape[:dim], parts, Int(factor), *b.shape[dim + 1 :]))
    body = tuple(rebase_accesses(s, {b.name: new}, split) for s in alloc.body)
    return replace_stmt(func, alloc, replace(alloc, buffer=new, body=simplify_body(body, facts.place, old=alloc.body)))
