"""Find elements that a nest, as a person wrote it, reads though nothing can have written them."""

from __future__ import annotations

from loopir.errors import VerifyError
from loopir.ir.grammar import Func, If, Int, Load, Reduce, Store
from loopir.ir.printer import text
from loopir.ir.traverse.walk import StmtPath, allocated_buffers, free_vars, guarded_loads, leaf_paths


def require_written_first(func: Func) -> None:
    """VerifyError where the first statement that touches an output or an allocation reads it in its first iteration,
    and where a constant subscript counts from the end.

    Statements under an if, and loops whose extents depend on other loops, are not looked at: they may run later.
    """
    empty = {a.buffer.name for a in func.args if a.access == "out"} | {b.name for b in allocated_buffers(func)}
    outputs = {a.buffer.name for a in func.args}
    for place in leaf_paths(func.body):
        written = {place.stmt.buffer.name} if isinstance(place.stmt, Store) else {b.name for b in place.stmt.buffers}
        found = guarded_loads(place.stmt)
        _require_counted_from_start(func, place, tuple(load for load, _ in found))
        if _runs_first(place):
            reads = {load.buffer.name for load, conds in found if not conds}
            reads |= written if isinstance(place.stmt, Reduce) and place.stmt.init is None else set()
            if names := sorted(reads & empty):
                name = names[0]
                cure = f'annotate it "inout", if the caller fills it, or write {name} first'
                raise VerifyError(
                    f"{func.name}: {text(place.stmt).strip()} reads {name}, which nothing has written; "
                    f"{cure if name in outputs else f'write {name} first'}"
                )
        empty -= written | {load.buffer.name for load, _ in found}


def _runs_first(place: StmtPath) -> bool:
    """Whether the first iteration of all loops around `place` comes before any other of its iterations."""
    loops = {x.var for x in place.loops}
    return not any(isinstance(s, If) for s in place.around) and not any(
        free_vars(x.extent) & loops for x in place.loops
    )


def _require_counted_from_start(func: Func, place: StmtPath, loads: tuple[Load, ...]) -> None:
    for buffer, at in ((x.buffer, x.at) for x in loads):
        for d, ix in enumerate(at):
            if isinstance(ix, Int) and ix.value < 0:
                raise VerifyError(
                    f"{func.name}: {text(place.stmt).strip()} reads {buffer.name} at index {ix.value}; indices "
                    f"count from 0, so the last is {text(buffer.shape[d] - 1)}"
                )
