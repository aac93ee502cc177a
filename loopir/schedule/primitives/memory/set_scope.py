"""set_scope: the memory that an intermediate lies in, as a choice of its own."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Fragment, Func
from loopir.ir.traverse.walk import path_to, replace, replace_buffers
from loopir.schedule.legality.scopes import find_alloc, require_place, scope_called
from loopir.schedule.schedule import primitive


@primitive
def set_scope(func: Func, buffer: str, scope: str) -> Func:
    """Keep the intermediate `buffer` in memory of `scope`: "global", "shared" (a block's), "local" (a thread's), or
    "fragment" (tiles that the lanes of a warp hold together, in registers, as an instruction wants them).

    Shared memory is allocated inside the loops that are bound to blocks and outside those bound to threads, all of
    which see it. On a CPU, small shared and local memory lies on the stack of the thread.

    before:
        def f(A: "float32[8, 64]", B: "out float32[8, 64]"):
            for i in bind("blockIdx.x", 8):
                with alloc("float32[64]") as T:
                    for j in bind("threadIdx.x", 64):
                        T[j] = A[i, j] + 1.0
                    for k in bind("threadIdx.x", 64):
                        B[i, k] = T[63 - k]
    call:    set_scope("T", "shared")
    after:
        def f(A: "float32[8, 64]", B: "out float32[8, 64]"):
            for i in bind("blockIdx.x", 8):
                with alloc("float32[64]", scope="shared") as T:
                    for j in bind("threadIdx.x", 64):
                        T[j] = A[i, j] + 1.0
                    for k in bind("threadIdx.x", 64):
                        B[i, k] = T[63 - k]
    refuses: set_scope("A", "shared")  # A is an argument of 'f', and its memory is the caller's
    refuses: set_scope("T", "cache")   # there is no scope 'cache'; the scopes are global, shared, local

    before:
        def g(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in bind("blockIdx.x", 8):
                    T[i] = A[i] + 1.0
                for j in bind("blockIdx.x", 8):
                    B[j] = T[7 - j]
    refuses: set_scope("T", "shared")  # no block sees another's shared memory
    """
    alloc = find_alloc(func, buffer)
    around = path_to(func, alloc)[:-1]
    wanted = scope_called(scope)
    if isinstance(alloc.buffer.layout, Fragment) and wanted != "fragment":
        raise ScheduleError(
            f"the layout of {alloc.buffer.name} says which lane holds which element, and {wanted} memory has no lanes",
            suggestion=f"this step before the layout is given, or a copy of {alloc.buffer.name} by cache_read",
        )
    require_place(alloc.buffer.name, wanted, around, alloc.body)
    return replace_buffers(func, {alloc.buffer.name: replace(alloc.buffer, scope=wanted)})
