"""What statements read and write, by name: enough where a primitive only has to know that something is untouched."""

from __future__ import annotations

from collections.abc import Iterable

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Index, Loop, Node, Reduce, Stmt
from loopir.ir.traverse.walk import free_vars, loaded_buffers, statements, stored_buffers
from loopir.schedule.core.find import join_names


def reads(of: Iterable[Node]) -> set[str]:
    """The buffers that are loaded from, in values, indices, conditions and extents. A fold's own element is not."""
    return set[str]().union(*map(loaded_buffers, of))


def writes(body: tuple[Stmt, ...]) -> set[str]:
    """The buffers that are stored or folded into."""
    return set[str]().union(*map(stored_buffers, body))


def allocates(body: tuple[Stmt, ...]) -> set[str]:
    """The buffers that live inside."""
    return {s.buffer.name for s in statements(body) if isinstance(s, Alloc)}


def require_stable_extent(*loops: Loop) -> None:
    """Refuse if a loop's extent is read from memory that one of `loops` writes, as it is about to be read again."""
    for loop in loops:
        read = reads([loop.extent])
        if read and (changed := sorted(read & writes(loops))):
            reason = f"how often {loop.var!r} runs is read from {join_names(changed)}, which the loop writes"
            raise ScheduleError(reason, loop=loop.var, suggestion="keep the bound in memory that the loop leaves alone")


def require_known_starts(loop: Loop, *ends: Index) -> None:
    """Refuse if a reduction in `loop` starts further out, at elements that the loop gives once it ends at `ends`.

    These may then not speak of what the reduction is over.
    """
    spoken = {v for end in ends for v in free_vars(end)}
    for s in statements(loop.body):
        if isinstance(s, Reduce) and s.init is not None and loop.var not in s.over and spoken & set(s.over):
            outside = join_names(sorted(spoken & set(s.over)))
            reason = f"{s.label} starts before {outside}, on which the iterations of {loop.var!r} would depend"
            raise ScheduleError(reason, loop=loop.var, suggestion=f'decompose_reduction("{s.label}") first')
