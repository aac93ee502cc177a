"""A program's nests in groups, and which groups have to run before which, as groups are merged.

Sets of nests are bit masks here, so that asking whether two groups may become one takes no walk over the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Ids = frozenset[int]


def topological(needs: Sequence[Ids], groups: Iterable[Ids]) -> list[Ids] | None:
    """The groups in an order in which each has what it needs, else as they stand; None if some wait for one another."""
    left = sorted(groups, key=min)
    of = {n: g for g in left for n in g}
    waits = {g: {of[k] for n in g for k in needs[n] if k in of} - {g} for g in left}
    out: list[Ids] = []
    done: set[Ids] = set()
    while left:
        ready = next((g for g in left if waits[g] <= done), None)
        if ready is None:
            return None
        left.remove(ready)
        done.add(ready)
        out.append(ready)
    return out


class Partition:
    """Groups of nests that do not wait for one another, and for each the nests before it and after it."""

    def __init__(self, needs: Sequence[Ids], groups: Iterable[Ids]) -> None:
        order = topological(needs, groups)
        assert order is not None
        self.mask = {g: sum(1 << n for n in g) for g in order}
        self.before: dict[Ids, int] = {}
        self.after = dict.fromkeys(order, 0)
        of = {n: g for g in order for n in g}
        for g in order:
            needed = {of[k] for n in g for k in needs[n] if k in of} - {g}
            self.before[g] = 0
            for x in needed:
                self.before[g] |= self.mask[x] | self.before[x]
        for g in order:
            for x in order:
                if self.before[g] & self.mask[x]:
                    self.after[x] |= self.mask[g]

    def separated(self, a: Ids, b: Ids) -> bool:
        """Whether another group has to run between two groups, so that they cannot be one."""
        both = self.mask[a] | self.mask[b]
        return bool((self.after[a] & self.before[b] | self.after[b] & self.before[a]) & ~both)

    def merge(self, a: Ids, b: Ids) -> None:
        """Make one group of two that are not `separated`."""
        both = a | b
        mask = self.mask.pop(a) | self.mask.pop(b)
        before = (self.before.pop(a) | self.before.pop(b)) & ~mask
        after = (self.after.pop(a) | self.after.pop(b)) & ~mask
        for g, own in self.mask.items():
            if own & before:
                self.after[g] |= mask | after
            if own & after:
                self.before[g] |= mask | before
        self.mask[both], self.before[both], self.after[both] = mask, before, after
