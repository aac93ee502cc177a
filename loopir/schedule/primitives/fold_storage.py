"""fold_storage: a dimension of a buffer becomes a ring of a few rows, each of which is used again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from loopir.analysis.lifetimes import overwritten
from loopir.errors import ScheduleError, pairs
from loopir.ir.grammar import Buffer, Func, Index, Int, Load, Node, Reduce, Store
from loopir.ir.text import text
from loopir.ir.walk import rebuild, rewrite
from loopir.schedule.facts import rewrite_loop
from loopir.schedule.schedule import primitive
from loopir.schedule.scopes import find_alloc


@primitive
def fold_storage(func: Func, buffer: str, dim: int, factor: int) -> Func:
    """Keep only `factor` rows of dimension `dim` of the intermediate `buffer`: row x lies where row x % factor does.

    Legal where no row is written while another one, which would lie in the same place, is still to be read.

    before:
        def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):
            with alloc("float32[n + 2]") as T:
                for j in range(n):
                    for i in range(3 - min(j, 1) * 2):
                        T[j + min(j, 1) * 2 + i] = A[j + min(j, 1) * 2 + i] * 2.0
                    B[j] = T[j] + T[j + 2]
    call:    fold_storage("T", 0, 3)
    after:
        def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):
            with alloc("float32[3]") as T:
                for j in range(n):
                    for i in range(3 - min(j, 1) * 2):
                        T[(j + min(j, 1) * 2 + i) % 3] = A[j + min(j, 1) * 2 + i] * 2.0
                    B[j] = T[j % 3] + T[(j + 2) % 3]
    refuses: fold_storage("T", 0, 2)  # T at (j=0, i=2) writes T[2] where T[0] lies, which B at (j=0) is still to read
    refuses: fold_storage("A", 0, 3)  # A is an argument
    refuses: fold_storage("T", 1, 3)  # T has 1 dimension
    refuses: fold_storage("T", 0, 0)  # a ring of 0 rows
    """
    alloc = find_alloc(func, buffer)[0]
    b = alloc.buffer
    if not 0 <= dim < len(b.shape):
        count = f"{len(b.shape)} dimension{'s' if len(b.shape) != 1 else ''}"
        raise ScheduleError(f"{b.name} has {count}, and there is no dimension {dim}")
    if factor < 1:
        raise ScheduleError(f"a ring of {factor} rows; there is to be at least 1")
    if b.layout is not None:
        raise ScheduleError(f"{b.name} has a layout already", suggestion="fold its storage before set_layout")
    clash = overwritten(func, b.name, dim, factor)
    if clash is not None:
        where = f" (at {pairs(clash.sizes)})" if clash.sizes else ""
        new, old = (f"{b.name}[{', '.join(map(str, x))}]" for x in (clash.new, clash.old))
        raise ScheduleError(
            f"{clash.writer} at ({pairs(clash.writing)}) writes {new} where {old} lies, which "
            f"{clash.reader} at ({pairs(clash.reading)}) is still to read{where}",
            suggestion=f"more than {factor} rows",
        )
    return _folded(func, b, dim, factor)
