"""fold_storage: a dimension of a buffer becomes a ring of a few rows, each of which is used again and again."""

from __future__ import annotations

from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dataflow.liveness import is_sliding_window, lifetime_clash
from loopir.analysis.dependence.access import statements_in
from loopir.analysis.regions.footprint import accesses_in
from loopir.arith.simplify_func import simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Func, Index, Int, Loop, Stmt
from loopir.ir.traverse.walk import accessed_buffers, free_vars, loops, nests_touching, replace, replace_stmt
from loopir.schedule.core.facts import known_at, known_in
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import witness_in_memory
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses


@primitive
def fold_storage(func: Func, buffer: str, dim: int, factor: int) -> Func:
    """Keep only `factor` rows of dimension `dim` of the intermediate `buffer`: row x lies where row x % factor does.

    Legal where no row is written while another one, which would lie in the same place, is still to be read.

    before:
        def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):
            with alloc("float32[n + 2]") as T:
                for j in range(n):
                    for i in range(min(j, 1) * -2 + 3):
                        T[j + min(j, 1) * 2 + i] = A[j + min(j, 1) * 2 + i] * 2.0
                    B[j] = T[j] + T[j + 2]
    call:    fold_storage("T", 0, 3)
    after:
        def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):
            with alloc("float32[3]") as T:
                for j in range(n):
                    for i in range(min(j, 1) * -2 + 3):
                        T[(j + min(j, 1) * 2 + i) % 3] = A[j + min(j, 1) * 2 + i] * 2.0
                    B[j] = T[j % 3] + T[(j + 2) % 3]
    refuses: fold_storage("T", 0, 2)  # T[2] would lie where T[0] lies, which is still to be read
    refuses: fold_storage("T", 0, 2)  # T at (j=0, i=2) writes T[2] where T[0] would lie, which B at (j=0) reads later
    refuses: fold_storage("A", 0, 3)  # A is an argument
    refuses: fold_storage("T", 1, 3)  # T has 1 dimension
    refuses: fold_storage("T", 0, 0)  # a ring of 0 rows
    """
    alloc = find_alloc(func, buffer)
    b = alloc.buffer
    if not 0 <= dim < len(b.shape):
        count = f"{len(b.shape)} dimension{'s' if len(b.shape) != 1 else ''}"
        raise ScheduleError(
            f"{b.name} has {count}, and there is no dimension {dim}",
            suggestion=f"a dimension from 0 to {len(b.shape) - 1}" if b.shape else "a buffer with dimensions",
        )
    if factor < 1:
        raise ScheduleError(
            f"a ring of {factor} rows; there is to be at least 1", suggestion="as many rows as are alive at a time"
        )
    if b.layout is not None:
        raise ScheduleError(f"{b.name} has a layout already", suggestion="fold its storage before set_layout")
    few = _in_one_row(func, alloc, dim) or _in_a_window(func, alloc, dim, factor)
    clash = None if few else lifetime_clash(func, b.name, dim, factor)
    size = b.shape[dim]
    if isinstance(size, Int) and size.value <= factor:
        return func
    new = _fold_alloc(func, alloc, dim, factor)
    if clash is not None and not same_values(func, new):
        one, other = (f"{b.name}[{', '.join(map(str, x))}]" if x else "an element" for x in (clash.new, clash.old))
        reason = f"{one} would lie where {other} lies, which is still to be read when it is written"
        witness = clash.witness(b.name, b.name)
        raise ScheduleError(clash.reason(reason), witness=witness, suggestion=f"more than {factor} rows")

    def place(name: str, at: tuple[int, ...]) -> object:
        return tuple(x % factor if name == b.name and d == dim else x for d, x in enumerate(at))

    try:
        left = {x.var for x in loops(new.body)}  # what no iteration did is gone
        require_loop_kinds(new, [x.var for x in loops(alloc.body) if x.var in left])
    except ScheduleError as error:  # about the rows that there would be
        reason = f"with {factor} rows of {b.name}, {error.reason}"
        witness = None if error.witness is None else witness_in_memory(func, error.witness, {b.name}, place)
        what = "a ring for each iteration that runs at once"
        raise ScheduleError(reason, loop=error.loop, witness=witness, suggestion=what) from None
    return new


def _in_one_row(func: Func, alloc: Alloc, dim: int) -> bool:
    """Whether all that is done with the buffer while it is there is done in one row, which loops around it choose."""
    name, inside = alloc.buffer.name, {x.var for x in loops(alloc.body)}
    touching = statements_in(func, nests_touching(name))
    found = {a.at[dim] for s in touching for a in s.accesses if a.buffer == name}
    return len(found) == 1 and all(x is not None and free_vars(x).isdisjoint(inside) for x in found)


def _in_a_window(func: Func, alloc: Alloc, dim: int, factor: int) -> bool:
    """Whether a loop right inside the allocation touches `factor` rows at most at a time, and moves in one direction.

    Then a row is written, and last read, while the window is on it; the rows that share its place are outside then.
    """
    name = alloc.buffer.name
    loop: Stmt | None = alloc
    while isinstance(loop, Alloc):
        using = [s for s in loop.body if name in accessed_buffers(s)]
        loop = using[0] if len(using) == 1 else None
    if not isinstance(loop, Loop):
        return False
    near = statements_in(func, nests_touching(name))
    start = next(s.when[: s.when.index(loop.var) + 1] for s in near if loop.var in s.dims and not s.init)
    if any(s.when[: len(start)] != start for s in near if s.uses({name})):
        return False  # a reduction that starts outside
    known = known_in(func, loop)
    return is_sliding_window([*accesses_in(loop.body, known, {name})], dim, known.here, loop.var, factor)


def _fold_alloc(func: Func, alloc: Alloc, dim: int, factor: int) -> Func:
    b = alloc.buffer
    shape = tuple(Int(factor) if d == dim else size for d, size in enumerate(b.shape))
    new = {b.name: replace(b, shape=shape)}

    def at(old: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(ix % factor if d == dim else ix for d, ix in enumerate(old))

    body = tuple(rebase_accesses(s, new, at) for s in alloc.body)
    (made,) = simplify_body((Alloc(new[b.name], body),), known_at(func, alloc), old=alloc.body)
    return replace_stmt(func, alloc, made)
