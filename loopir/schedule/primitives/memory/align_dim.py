"""align_dim: a dimension of an intermediate grows to a whole number of tiles."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Cmp, Func, If, InstrRegion, Int, Load, Loop, Store, Var
from loopir.ir.traverse.walk import (
    accessed_buffers,
    leaf_paths,
    leaf_paths_of,
    loaded_buffers,
    replace,
    replace_buffers,
    replace_stmt,
    rewrite,
    statements,
    stored_buffers,
)
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive


@primitive
def align_dim(func: Func, buffer: str, dim: int, multiple: int) -> Func:
    """Round the size of dimension `dim` of the intermediate `buffer` up to a multiple of `multiple`.

    What is added is read by nothing, so it is always legal. If one copy fills the buffer, its loop along the dimension
    grows as well, under a guard, so that `pad` of that copy fills the rest with a value. Instructions that work on
    whole tiles then find such.

    before:
        def f(A: "float32[6]", B: "out float32[6]"):
            with alloc("float32[6]") as T:
                for i in range(6):
                    T[i] = A[i]
                for j in range(6):
                    B[j] = T[5 - j]
    call:    align_dim("T", 0, 4)
    after:
        def f(A: "float32[6]", B: "out float32[6]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    if i < 6:
                        T[i] = A[i]
                for j in range(6):
                    B[j] = T[5 - j]
    refuses: align_dim("A", 0, 4)  # A is an argument of 'f', and its memory is the caller's
    refuses: align_dim("T", 1, 4)  # T has 1 dimension, and no dimension 1
    refuses: align_dim("T", 0, 3)  # T has 6 elements along dimension 0, a multiple of 3
    """
    alloc = find_alloc(func, buffer)
    b = alloc.buffer
    if not 0 <= dim < len(b.shape):
        count = f"{len(b.shape)} dimension{'s' * (len(b.shape) != 1)}"
        raise ScheduleError(f"{b.name} has {count}, and no dimension {dim}", suggestion="counted from 0")
    size = b.shape[dim]
    if not isinstance(size, Int) or multiple < 1:
        raise ScheduleError(
            f"dimension {dim} of {b.name} has no constant size to round up to a multiple of {multiple}",
            suggestion="an intermediate of constant size, and a multiple of 1 or more",
        )
    if size.value % multiple == 0:
        reason = f"{b.name} has {size.value} elements along dimension {dim}, a multiple of {multiple}"
        raise ScheduleError(reason, suggestion="no step at all")
    if b.layout is not None:
        raise ScheduleError(f"{b.name} has a layout of its size", suggestion="align_dim before set_layout")
    for s in statements(alloc.body):
        if isinstance(s, InstrRegion) and b.name in accessed_buffers(s):
            raise ScheduleError(f"{s.fn.name} has {b.name} as an operand", suggestion="align_dim before tensorize")
    wide = Int(-(-size.value // multiple) * multiple)
    new = replace(b, shape=(*b.shape[:dim], wide, *b.shape[dim + 1 :]))
    func = replace_buffers(func, {b.name: new})
    copy = _copy_along(func, b.name, dim, size)
    if copy is None:
        return func
    loop, store = copy
    inside = Cmp("<", Var(loop.var), size)
    asked = (s.extent if isinstance(s, Loop) else s.cond for s in statements(loop.body) if isinstance(s, Loop | If))
    if any(map(loaded_buffers, asked)):  # which has elements for the iterations that there were alone
        return replace_stmt(func, loop, replace(loop, extent=wide, body=(If(inside, loop.body),)))
    body = rewrite(loop.body, lambda s: If(inside, (store,)) if s is store else None)
    return replace_stmt(func, loop, replace(loop, extent=wide, body=body))


def _copy_along(func: Func, name: str, dim: int, size: Int) -> tuple[Loop, Store] | None:
    """The loop along dimension `dim` of the one copy that fills the buffer `name`, and that copy; None if it has no
    such, or does more in that loop."""
    writers = [p for p in leaf_paths_of(func) if name in stored_buffers(p.stmt)]
    if len(writers) != 1:
        return None
    store = writers[0].stmt
    if not (isinstance(store, Store) and isinstance(store.value, Load)):
        return None
    at = store.at[dim]
    loop = next((s for s in writers[0].loops if at == Var(s.var) and s.extent == size), None)
    alone = loop is not None and loop.kind == "serial" and len([*leaf_paths((loop,))]) == 1
    return (loop, store) if alone and loop is not None else None
