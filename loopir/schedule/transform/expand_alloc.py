"""Expand an allocation: memory of one iteration becomes memory of all (scalar expansion).

That is what lets a loop be cut between the statement that fills such a buffer and the one that reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar, cast

from loopir.arith.upper_bound import max_trip_count
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Buffer, Func, Index, Load, Loop, Node, Reduce, Store, Var
from loopir.ir.layout.layouts import reads_only
from loopir.ir.printer import text
from loopir.ir.traverse.walk import is_affine_visible, path_to, replace
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.reduction_starts import rebuild_starting
from loopir.schedule.transform.split_range import without_unused_over

N = TypeVar("N", bound=Node)


def expand_buffer(func: Func, loop: Loop, alloc: Alloc, why: str) -> Buffer:
    """The buffer of `alloc`, which stands in `loop`, with an element for each iteration there may be.

    Refuses with `why` where no size bounds these.
    """
    b = alloc.buffer
    around = {s.var: s.extent for s in path_to(func, loop)[:-1] if isinstance(s, Loop)}
    size = max_trip_count(loop, around)
    if size is None or not reads_only(size, frozenset(func.sizes)):
        reason = f"{why}, and how large {b.name} would be is not known: {loop.var!r} runs {text(loop.extent)} times"
        raise ScheduleError(reason, loop=loop.var, suggestion=f"keep the statements that use {b.name} together")
    if b.layout is not None or b.scope != "global":
        what = "has a layout" if b.layout is not None else f"is in {b.scope} memory"
        reason = f"{why}, and {b.name}, which {what}, is not made larger"
        raise ScheduleError(reason, loop=loop.var, suggestion=f"take this step before {b.name} is placed")
    return replace(b, shape=(size, *b.shape))


def expand_accesses(node: N, loop: str, buffers: Collection[Buffer]) -> N:
    """`node`, in which each of `buffers` (as expanded_buffer makes them) is used at iteration `loop`."""
    new = {b.name: b for b in buffers}

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return new.get(n.name, n)
        if isinstance(n, Index) and is_affine_visible(n):
            return n
        n = rebuild_starting(n, visit)
        match n:
            case Load(buffer, at) if buffer.name in new:
                return replace(n, at=(Var(loop), *at))
            case Store(buffer=buffer, at=at) if buffer.name in new:
                return replace(n, at=(Var(loop), *at))
            case Reduce(buffers=folded, at=at, over=over) if any(b.name in new for b in folded):
                if not all(b.name in new for b in folded):
                    raise _one_index(n, loop)
                return replace(n, at=(Var(loop), *at), over=tuple(v for v in over if v != loop))
            case Reduce():  # its element may be read from one of them
                return without_unused_over(n)
            case _:
                return n

    return cast(N, visit(node))


def _one_index(s: Reduce, loop: str) -> ScheduleError:
    names = join_names(b.name for b in s.buffers)
    reason = f"{s.label} folds into {names} at one index, and not all of them would have one for each iteration"
    return ScheduleError(reason, loop=loop, suggestion=f"keep the statements that use {names} together")
