"""Who wrote what every statement read, as one number for each element: last-writer traces with no map between runs.

An element's number is a hash of the statement that wrote it last and of the numbers of all that it read, so it stands
for the whole tree of statements behind it. Two runs agree on an element exactly if every read on every way to it saw a
write by the same statement, of the same reads: in whatever loops, at whatever iterations. Folds of one reduction may
come in any order.

What nothing has written may be copied, and the copy is then as good as unwritten: no program uses it, so a step may
make anything of it. What comes of such elements is found by a second run, in which they are others, and not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from loopir.ir.grammar import Func, Load, Loop, Reduce, ValueToCond, ValueToIndex
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.queries import accessed_buffers, loaded_buffers
from loopir.ir.traverse.walk import leaf_paths, nodes, statements
from loopir.testing.oracles.access_trace import Env, Home, Lane, Run, digest


class Flow(Run):
    """A Run in which a write is identified by its statement alone, not by its iteration, and there are no events.

    `values` are all that were made, `used` those that were read, `writes` counts those of each statement.
    """

    others = 0
    """Which numbers stand for what nothing has written."""

    def __post_init__(self) -> None:
        self.values: Counter[int] = Counter()
        self.writes: Counter[str] = Counter()
        self.used: set[int] = set()
        self.given = {a.buffer.name for a in self.func.args if a.access != "out"}
        self.hollow = False
        """Whether something is read that nothing has written."""
        super().__post_init__()

    def access(
        self, name: str, at: tuple[int, ...], lane: Lane, label: str, *, write: bool = False, fold: str = ""
    ) -> int:
        if write:
            self.writes[self.name(label)] += 1
        home = self.home(name, lane)
        found = self.cells.get((home, at))
        if found is not None and (fold or not write):
            self.used.add(found)
        return self.unwritten(home, at) if found is None else found

    def env(self, lane: Lane, label: str) -> Env:
        return ()

    def made(self, value: int) -> None:
        self.values[value] += 1

    def unwritten(self, home: Home, at: tuple[int, ...]) -> int:
        if home[0] in self.given:
            return digest(home[0], at)
        self.hollow = True
        return digest(home[0], at, self.others)

    def filled(self) -> Flow:
        """This run without what came of elements that nothing had written."""
        if not self.hollow:
            return self
        other = _Otherwise(self.func, self.sizes)
        self.values &= other.values
        self.cells = {x: value for x, value in self.cells.items() if other.cells.get(x) == value}
        return self

    def left_in(self, names: Iterable[str]) -> dict[tuple[str, tuple[int, ...]], int]:
        """What is in the elements of the arguments `names` in the end, of those that were written."""
        homes = {(name, frozenset[tuple[str, int]]()) for name in names}
        return {(home[0], at): value for (home, at), value in self.cells.items() if home in homes}


class _Otherwise(Flow):
    """The same run, with other numbers for what nothing has written."""

    others = 1


def comparable(before: Func, after: Func) -> bool:
    """Whether all statements kept their labels, and arguments their names, no statement reads another array in place of
    one that is still there, and nothing that is hashed decides a path.

    What is computed once, and read where it was computed again, has other writes behind it, as it should."""
    same = same_names(before, after) and not _reads_others(before, after)
    return same and not any(map(_hidden, (before, after)))


def _reads_others(before: Func, after: Func) -> bool:
    """Whether a statement reads an array that was there before, and not one that it read then and that is still there:
    a step that moves arrays together leaves none of those that it moves."""
    old, new = _loads_by_label(before), _loads_by_label(after)
    there = [frozenset[str]().union(*map(accessed_buffers, f.body)) for f in (before, after)]
    return any((new[x] - old[x]) & there[0] and (old[x] - new[x]) & there[1] for x in old)


def same_names(before: Func, after: Func) -> bool:
    """Whether all statements kept their labels, and what they are, stores or reductions; and arguments their names."""
    return _names(before) == _names(after)


@memoized
def _loads_by_label(func: Func) -> dict[str, frozenset[str]]:
    """The arrays that each statement reads, by its label."""
    found = dict[str, frozenset[str]]()
    for p in leaf_paths(func.body):
        found[p.stmt.label] = found.get(p.stmt.label, frozenset()) | loaded_buffers(p.stmt)
    return found


@memoized
def _names(func: Func) -> tuple[set[tuple[str, bool]], list[str]]:
    labels = {(p.stmt.label, isinstance(p.stmt, Reduce)) for p in leaf_paths(func.body)}
    return labels, [a.buffer.name for a in func.args]


def _hidden(func: Func) -> bool:
    """Whether lanes run together, or memory decides a path."""
    return asks_memory(func) or any(isinstance(s, Loop) and s.kind == "vectorize" for s in statements(func.body))


@memoized
def asks_memory(func: Func) -> bool:
    """Whether a bound, a guard or a subscript reads memory, whose contents a Run does not have."""
    return any(
        isinstance(n, ValueToIndex | ValueToCond) and any(isinstance(x, Load) for x in nodes(n)) for n in nodes(func)
    )


def differing(before: Func, after: Func, sizes: Mapping[str, int]) -> str | None:
    """An element of an output that came about by other writes, and how; None if there is none, or nothing to compare.

    Where a statement runs more or less often (a tile that runs over its edge, say), there is no such map of the runs.
    """
    one, other = (Flow(f, dict(sizes)) for f in (before, after))
    if one.writes != other.writes:
        return None
    return unlike(one.filled(), other, [b.name for b in before.outputs()])


def unlike(one: Flow, other: Flow, names: Iterable[str]) -> str | None:
    """An element of the arguments `names` that came about by other writes in `other`, or by some in one run alone.

    If something is read in `one` that nothing wrote, other elements than it has may be written in `other`.
    """
    left = [run.left_in(names) for run in (one, other)]
    for name, at in sorted(left[0] if one.hollow else {*left[0], *left[1]}):
        if left[0].get((name, at)) != left[1].get((name, at)):
            return f"{name}[{', '.join(map(str, at))}] comes from other writes than before"
    return None
