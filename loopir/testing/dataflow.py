"""Who wrote what every statement read, as one number for each element: last-writer traces with no map between runs.

An element's number is a hash of the statement that wrote it last and of the numbers of all that it read, so it stands
for the whole tree of statements behind it. Two runs agree on an element exactly if every read on every way to it saw a
write by the same statement, of the same reads: in whatever loops, at whatever iterations. Folds of one reduction may
come in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from loopir.ir.grammar import Func, Loop, Opaque, Truth
from loopir.ir.walk import nodes, places, statements
from loopir.testing.instances import Env, Lane, Run


class Flow(Run):
    """A Run in which a write is told by its statement alone, not by its iteration."""

    def env(self, lane: Lane, label: str) -> Env:
        return ()


def comparable(before: Func, after: Func) -> bool:
    """Whether all statements kept their labels and arguments their names, and nothing that is hashed decides a path."""
    labels = [{p.stmt.label for p in places(f.body)} for f in (before, after)]
    arguments = [[a.buffer.name for a in f.args] for f in (before, after)]
    return labels[0] == labels[1] and arguments[0] == arguments[1] and not any(map(_hidden, (before, after)))


def _hidden(func: Func) -> bool:
    """Whether lanes run together, or memory decides a path."""
    return asks_memory(func) or any(isinstance(s, Loop) and s.kind == "vectorize" for s in statements(func.body))


def asks_memory(func: Func) -> bool:
    """Whether a bound, a guard or a subscript reads memory, whose contents a Run does not have."""
    return any(isinstance(n, Opaque | Truth) for n in nodes(func))


def differing(before: Func, after: Func, sizes: Mapping[str, int]) -> str | None:
    """An element of an output that came about by other writes, and how; None if there is none, or nothing to compare.

    Where a statement runs more or less often (a tile that runs over its edge, say), there is no such map of the runs.
    """
    one, other = (Flow(f, dict(sizes)) for f in (before, after))
    counts = [Counter(e.label for e in run.events if e.write) for run in (one, other)]
    if counts[0] != counts[1]:
        return None
    for b in before.outputs():
        home = (b.name, frozenset[tuple[str, int]]())
        cells = {at for run in (one, other) for where, at in run.cells if where == home}
        for at in sorted(cells):
            if one.cells.get((home, at)) != other.cells.get((home, at)):
                return f"{b.name}[{', '.join(map(str, at))}] comes from other writes than before"
    return None
