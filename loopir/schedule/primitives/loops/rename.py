"""rename: call a loop, a buffer or a stage by another name."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Loop, Reduce, Store
from loopir.ir.traverse.walk import replace, statements, taken_names
from loopir.schedule.core.find import all_buffers, close_names, find_loop, join_names
from loopir.schedule.core.naming import Renaming, free_name, rename_symbols
from loopir.schedule.schedule import primitive


@primitive
def rename(func: Func, old: str, new: str) -> Func:
    """Call `old` by the name `new`: a loop ("i" or "C.i"), a buffer, a stage, or a buffer and its stage together.

    before:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i in range(8):
                B[i] = A[i]
    call:    rename("i", "row")
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for row in range(8):
                B[row] = A[row]
    refuses: rename("i", "A")       # the name 'A' is taken
    refuses: rename("i", "lambda")  # 'lambda' is no usable name
    """
    free_name(new, taken_names(func))
    if "." in old:
        return rename_symbols(func, Renaming(loops={find_loop(func, old).var: new}))
    buffers = {b.name: replace(b, name=new) for b in all_buffers(func) if b.name == old}
    loops = {s.var: new for s in statements(func.body) if isinstance(s, Loop) and s.var == old}
    labels = {s.label: new for s in statements(func.body) if isinstance(s, Store | Reduce) and s.label == old}
    if not (buffers or loops or labels):
        if old in func.sizes:
            raise ScheduleError(
                f"{old!r} is a size; loops, buffers and stages can be renamed", suggestion="the name of one of these"
            )
        there = sorted(taken_names(func) - {func.name} - set(func.sizes))
        raise ScheduleError(
            f"nothing is called {old!r}; there are {join_names(there)}",
            suggestion=close_names(old, there),
        )
    return rename_symbols(func, Renaming(loops, labels, buffers))
