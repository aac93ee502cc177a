"""Find elements that a nest, as a person wrote it, reads though nothing has written them, or that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from loopir.errors import VerifyError
from loopir.ir.grammar import Func, If, Index, Int, Load, Reduce, Store
from loopir.ir.layout.layouts import evaluate, reads_only
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
        _require_elements(func, place, [load for load, conds in found if not conds])
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


CORNERS = 4
"""Loops whose first and last iterations are tried together."""


def _require_elements(func: Func, place: StmtPath, loads: Sequence[Load]) -> None:
    """VerifyError where a statement that is sure to run, as all loops around it have a known number of iterations, is
    outside of a dimension of known size in the first iteration of some of these and the last of the others."""
    extents = {x.var: x.extent.value for x in place.loops if isinstance(x.extent, Int) and x.extent.value > 0}
    if len(extents) < len(place.loops) or any(isinstance(s, If) for s in place.around):
        return
    own = place.stmt.buffers if isinstance(place.stmt, Reduce) else (place.stmt.buffer,)
    for buffer, at in [*((x.buffer, x.at) for x in loads), *((b, place.stmt.at) for b in own)]:
        for d, (ix, size) in enumerate(zip(at, buffer.shape, strict=False)):
            if not isinstance(size, Int):
                continue
            for here, index in _indices_at_ends(ix, extents):
                if not 0 <= index < size.value:
                    when = f"at {', '.join(f'{v}={n}' for v, n in here.items())}, " if here else ""
                    raise VerifyError(
                        f"{func.name}: {text(place.stmt).strip()} is outside of {buffer.name}: {when}index {d} is "
                        f"{index}, and {buffer.name} has {size.value} there; an if around it guards it"
                    )


def _indices_at_ends(ix: Index, extents: Mapping[str, int]) -> Iterator[tuple[dict[str, int], int]]:
    """What `ix` is where each of its loops is in its first or its last iteration, and these; nothing if it depends on
    what is not known."""
    inside = [v for v in extents if v in free_vars(ix)]
    if len(inside) <= CORNERS and reads_only(ix, frozenset(inside)):
        for ends in product((False, True), repeat=len(inside)):
            here = {v: extents[v] - 1 if end else 0 for v, end in zip(inside, ends, strict=True)}
            yield here, evaluate(ix, here)
