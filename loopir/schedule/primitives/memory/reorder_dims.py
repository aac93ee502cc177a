"""reorder_dims: the dimensions of an intermediate in another order, as loops are by `reorder`."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Index
from loopir.ir.traverse.walk import replace, replace_stmt
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.scopes import find_alloc, require_no_operand
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses


@primitive
def reorder_dims(func: Func, buffer: str, *order: int) -> Func:
    """Put the dimensions of the intermediate `buffer` in the order in which `order` names those that there are.

    Every access names them so, too, so it is always legal. A matrix is transposed by (1, 0): its elements then lie side
    by side along what were its columns, and an instruction that wants rows finds the columns to be rows.

    before:
        def f(A: "float32[4, 8]", B: "out float32[8, 4]"):
            with alloc("float32[4, 8]") as T:
                for i in range(4):
                    for j in range(8):
                        T[i, j] = A[i, j] * 2.0
                for y in range(8):
                    for x in range(4):
                        B[y, x] = T[x, y]
    call:    reorder_dims("T", 1, 0)
    after:
        def f(A: "float32[4, 8]", B: "out float32[8, 4]"):
            with alloc("float32[8, 4]") as T:
                for i in range(4):
                    for j in range(8):
                        T[j, i] = A[i, j] * 2.0
                for y in range(8):
                    for x in range(4):
                        B[y, x] = T[y, x]
    refuses: reorder_dims("A", 1, 0)  # A is an argument of 'f', and its memory is the caller's
    refuses: reorder_dims("T", 1, 1)  # T has dimensions 0 and 1, and the order is of 1 and 1
    """
    alloc = find_alloc(func, buffer)
    b = alloc.buffer
    if sorted(order) != [*range(len(b.shape))]:
        there, asked = (join_names(map(str, x)) or "none" for x in (range(len(b.shape)), order))
        raise ScheduleError(f"{b.name} has dimensions {there}, and the order is of {asked}", suggestion="each of them")
    if b.layout is not None:
        reason = f"{b.name} has a layout that tells its dimensions apart"
        raise ScheduleError(reason, suggestion="reorder them before set_layout")
    require_no_operand(alloc)

    def moved(at: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(at[d] for d in order)

    new = replace(b, shape=moved(b.shape))
    return replace_stmt(
        func,
        alloc,
        replace(alloc, buffer=new, body=tuple(rebase_accesses(s, {b.name: new}, moved) for s in alloc.body)),
    )
