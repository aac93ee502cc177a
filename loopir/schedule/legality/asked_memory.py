"""Memory that decides where or how often something is done: is it there where nothing ran that asked it before?

To read it where no iteration did is a use of memory that nothing may have written, or that lies outside of a buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopir.analysis.dataflow.coverage import fills, is_filled_by_earlier_nest
from loopir.arith.simplify import nonnegative, poly
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Buffer, Cond, Func, If, Index, Load, Loop, Node, Stmt
from loopir.ir.traverse.rebuild import nodes
from loopir.ir.traverse.walk import StmtPath, child_stmts, leaf_paths
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.effects import reads


def unwritten_memory(func: Func, label: str, asked: Iterable[Node], left: Iterable[Loop | If | Cond]) -> list[str]:
    """The memory that `asked` reads and that nothing may have written where one of `left`, what stood around it until
    now, lets nothing run.

    Arguments are written, and so is what a nest before that of the statement `label` fills. So are all where `left` are
    loops that surely run.
    """
    given = {a.buffer.name for a in func.args if a.access != "out"}
    found = [b for b in sorted(reads(asked) - given) if not (label and is_filled_by_earlier_nest(func, label, b))]
    return found if found and not all(surely_runs(func, s) for s in left) else []


def is_written_on_the_way(place: StmtPath, end: Stmt, b: Buffer, at: Sequence[Index]) -> bool:
    """Whether what surely runs before `end`, each time, in a body around it and around `place`, stores the element `at`
    of `b`, or fills `b`."""
    for depth, outer in enumerate(place.around):
        if outer is end:
            return False
        if isinstance(outer, Loop | If | Alloc):
            here = place.path[depth + 1]
            first = len(outer.then) if isinstance(outer, If) and here >= len(outer.then) else 0
            for s in child_stmts(outer)[first:here]:
                found = (p for p in leaf_paths((s,)) if b in p.stmt.buffers)
                if any(fills(p, b) or (p.stmt is s and p.stmt.at == tuple(at)) for p in found):
                    return True
    return False


def surely_runs(func: Func, shell: Loop | If | Cond) -> bool:
    """Whether a loop has an iteration wherever it stands; no guard is known to hold."""
    if not isinstance(shell, Loop):
        return False
    known = known_at(func, shell).here
    return nonnegative(poly(shell.extent - 1, known), known)


def outside_elements(func: Func, asked: Iterable[Node], left: Iterable[Loop | If]) -> list[str]:
    """The buffers of which `asked` may read an element that is none, where one of `left` lets nothing run."""
    shells = [*left]
    if not shells or all(surely_runs(func, s) for s in shells):
        return []
    known = known_at(func, shells[0]).here
    found = set[str]()
    for load in (n for x in asked for n in nodes(x) if isinstance(n, Load)):
        for ix, size in zip(load.at, load.buffer.shape, strict=True):
            if not (nonnegative(poly(ix, known), known) and nonnegative(poly(size - ix - 1, known), known)):
                found.add(load.buffer.name)
    return sorted(found)


def require_extent_there(func: Func, loop: Loop, left: Sequence[Loop | If]) -> None:
    """Refuse if the extent of `loop` would be read where it is not: where one of `left`, which stand around it now and
    will not, lets nothing run."""
    first = next((p.stmt.label for p in leaf_paths((loop,))), "")
    asked = unwritten_memory(func, first, (loop.extent,), left) or outside_elements(func, (loop.extent,), left)
    if asked and left:
        reason = f"how often {loop.var!r} runs would be read from {join_names(asked)} where it is not now"
        raise ScheduleError(reason, loop=loop.var, suggestion=f"loops around {loop.var!r} that surely run")
