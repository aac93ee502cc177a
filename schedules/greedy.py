"""Greedy search for groups: start with each nest by itself, and merge pairs by the predicted seconds that they save.

All that the search changes is one state, `Greedy`: the groups so far, the log, the merges that are left, and the work
that is left. Work is counted and not timed, so that every machine finds the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from .common.nest_queries import evaluates_functions
from .common.products import several
from .nest_groups import Ids, Partition
from .plan import Decision, Group
from .rules import NOTHING_TO_WIN, least_launches

if TYPE_CHECKING:
    from .planner import Planner

NEARLY_EQUAL = 1.25
"""How many times the least seconds of a product and its reader their kernel takes, at most, for neither to be priced by
itself."""
TICK = 1.0e-7
"""Seconds: predictions that differ by less are equal."""
EXPECTED = 0.9
"""The part of the most that a merge may save that it is expected to save before it is priced. What is known to save
nearly as much comes first, and pairs are not priced that something else is merged with anyway."""
SMALL_GROUP = 8
"""Nests of a group up to which merges come by what they save alone; larger groups come by size first."""
NEAR_BOUND = 1.05
"""How near to its lower bound a candidate has to be for others not to be tried."""
MOST_ALIKE = 4
"""Groups of the same form that a group is tried with, at most."""
MOST_BETWEEN = 8
"""Nests of two products and what is between them, at most, that are tried as one group."""
MOST_WHOLE = 12
"""Nests of a program, at most, that is tried as a single group."""

Vetoes = Sequence[tuple[Ids, ...]]
"""Sets of nests no two of which may be in one group."""


def vetoed(g: Ids, apart: Vetoes) -> bool:
    """Whether a group has two nests of which the user said that they stay apart."""
    return any(sum(bool(g & x) for x in pair) > 1 for pair in apart)


class _Index:
    """Which groups share memory, or have the same form, so that no other pairs are considered."""

    def __init__(self, planner: Planner, groups: Iterable[Ids]) -> None:
        self.planner = planner
        self.touching: dict[str, set[Ids]] = {}
        self.alike: dict[str, set[Ids]] = {}
        for g in groups:
            self._add(g)

    def _keys(self, g: Ids) -> tuple[frozenset[str], frozenset[str]]:
        p = self.planner
        return frozenset[str]().union(*(p.nests[n].reads | p.nests[n].writes for n in g)), p.copies(g)

    def _add(self, g: Ids) -> None:
        touched, keys = self._keys(g)
        for x in touched:
            self.touching.setdefault(x, set()).add(g)
        if len(keys) == 1:
            self.alike.setdefault(next(iter(keys)), set()).add(g)

    def merge(self, a: Ids, b: Ids) -> None:
        for g in (a, b):
            touched, keys = self._keys(g)
            for x in touched:
                self.touching[x].discard(g)
            for key in keys:
                self.alike.get(key, set[Ids]()).discard(g)
        self._add(a | b)

    def related(self, g: Ids) -> list[Ids]:
        """The groups that touch memory that `g` touches, and the next few of the same form."""
        touched, keys = self._keys(g)
        if len(self.planner.nests) <= MOST_WHOLE:
            touched = self.touching.keys()
        found = {x for name in touched for x in self.touching[name]}
        if len(keys) == 1:
            after = sorted(self.alike[next(iter(keys))], key=lambda x: (min(x) < min(g), min(x)))
            found.update([x for x in after if x != g][:MOST_ALIKE])
        return sorted(found - {g}, key=min)


def _rank(seconds: float, nests: int) -> tuple[int, int, int]:
    """Where a merge that saves so many seconds stands in the heap, the smallest first.

    Savings are compared in ticks; of those that differ by less, the smaller group comes first. Of groups of more than
    SMALL_GROUP nests the small come before those of twice as many. So a chain is merged in pairs, and these in pairs,
    which have the same form and are priced once, and not link by link.
    """
    return (max(nests, SMALL_GROUP) - 1).bit_length(), -round(seconds / TICK), nests


@dataclass
class Greedy:
    """The state of the search: what it has grouped, what it logged, and how many merges are left."""

    planner: Planner
    apart: Vetoes
    log: list[Decision]
    merges: int
    whole: bool = True
    """Whether the program is tried as a single group, too."""
    groups: dict[Ids, Group] = field(default_factory=dict[Ids, Group])

    def search(self, start: Sequence[Ids]) -> dict[Ids, Group]:
        """The groups that merging `start` leads to: products with what belongs to them first, then producers with
        their consumers, then siblings, too."""
        self.begin(start)
        for kinds in (("producer",), ("producer", "shared input", "alike")):
            self._merge_pairs(kinds)
        self._move_nests(start)
        if self.whole:
            self._try_whole()
        if self.planner.exhausted:
            self.log.append(Decision("work", (), (), 0.0, 0.0, False, self.planner.describe_work()))
        return self.groups

    def begin(self, start: Sequence[Ids]) -> None:
        """Group products with what belongs to them, and price all groups."""
        if self.planner.target == "cuda":
            self._product_chains(start)
            self._epilogues([g for g in start if not any(g <= x for x in self.groups)])
        self.groups |= {g: self.planner.price(g) for g in start if not any(g <= x for x in self.groups)}

    def _refuse(self, kind: str, a: Ids, b: Ids, why: str) -> None:
        names = self.planner.stages(a), self.planner.stages(b)
        self.log.append(Decision(kind, *names, 0.0, 0.0, False, why))

    def _accept(self, kind: str, a: Ids, b: Ids, before: float, g: Group, why: str) -> None:
        """Make `a` and `b` one group, `g`."""
        names = self.planner.stages(a), self.planner.stages(b)
        self.log.append(Decision(kind, *names, before * 1e6, g.seconds * 1e6, True, why))
        self.groups.pop(a, None)
        self.groups.pop(b, None)
        self.groups[a | b] = g
        self.merges -= 1

    # ------------------------------------------------------------ products

    def _product_chains(self, start: Sequence[Ids]) -> None:
        """Group two products with the folds between them, where a rule makes one kernel of all.

        No pair of these stages need be faster as one kernel, so that merging pairs does not find such a group.
        """
        for a, both in self._between_products(start):
            for every in dict.fromkeys((both | self._made_of(both, start), both)):
                if self._take_chain(a, max(both), every):
                    break

    def _take_chain(self, a: Ids, last: int, both: Ids) -> bool:
        """Group `both`, from the product `a` to the stage `last`, if it may be a group, and is one kernel for about the
        least that these two take; whether it is."""
        p = self.planner
        if self.merges <= 0 or any(both & g for g in self.groups) or vetoed(both, self.apart):
            return False
        if p.order([both, *self.groups, *p.singles(both.union(*self.groups))]) is None or not p.may_price(both):
            return False
        parts = [p.found(frozenset((n,))).bound for n in (min(a), last)]
        g, least = p.price_below(both, 2), sum(parts) + p.machine.launch
        if g is None or g.kernels != 1 or g.seconds > NEARLY_EQUAL * least:
            return False
        self._accept("producer", a, both - a, least, g, f"{g.how}; apart, it is about that")
        return True

    def _made_of(self, both: Ids, start: Sequence[Ids]) -> Ids:
        """The nests that are made of stages of `both` alone, element by element, as the logarithm of each row's sum."""
        nests, single = self.planner.nests, {min(g) for g in start if len(g) == 1}
        made = {n for n in single - both if nests[n].needs and nests[n].needs <= both}
        return frozenset(n for n in made if self._takes_each(frozenset((n,))))

    def _between_products(self, start: Sequence[Ids]) -> list[tuple[Ids, Ids]]:
        """Two products and all that depends on the one and is needed by the other, folds among them and no products;
        with what alone takes the elements of the second."""
        p = self.planner
        single = {min(g) for g in start if len(g) == 1}
        views = {n: p.found(frozenset((n,))).view for n in single}
        readers = dict(self.read_by_one(start))
        out: list[tuple[Ids, Ids]] = []
        products = {n for n in single if views[n].products}
        for b in sorted(products):
            reached = self._reached_from(b, single - products)
            for a in sorted(reached & products):
                found = {a}
                for n in sorted(reached):
                    found |= {n} if p.nests[n].needs & found else set()
                last = readers.get(frozenset((b,)))
                both = frozenset({*found, b}).union(last if last and not views[min(last)].folds else ())
                if found <= single and any(views[n].folds for n in found - {a}) and len(both) <= MOST_BETWEEN:
                    out.append((frozenset((a,)), both))
        return out

    def _reached_from(self, b: int, through: set[int]) -> set[int]:
        """The nests that `b` needs, directly or `through` others."""
        reached, pending = set[int](), [b]
        while pending and len(reached) <= MOST_BETWEEN:
            for k in self.planner.nests[pending.pop()].needs - reached:
                reached.add(k)
                pending += [k] if k in through else []
        return reached

    def _epilogues(self, start: Sequence[Ids]) -> None:
        """Group a product with the one stage that takes its elements, so that neither is priced by itself: if that is a
        single kernel that takes about the least that the two may take, or if the stage is in the nest that makes the
        sums, as recipes for a product cost about the same whatever takes these."""
        p, taken = self.planner, set[Ids]()
        partition = Partition([n.needs for n in p.nests], [*self.groups, *start])
        fills = self.fills(start)
        for a, b in self.read_by_one(start):
            product, reader = p.found(a), p.found(b)
            if self.merges <= 0 or not product.view.products or reader.view.folds or taken & {a, b}:
                continue
            if partition.separated(a, b):
                continue
            for own in dict.fromkeys((a.union(*fills.get(a, ())), a)):
                g = None if vetoed(own | b, self.apart) else self._with_epilogue(own, b)
                if g is not None:
                    for n in own - a:
                        partition.merge(frozenset((n,)), a)
                        a |= {n}
                    partition.merge(a, b)
                    taken |= {frozenset((n,)) for n in a | b}
                    break

    def _with_epilogue(self, a: Ids, b: Ids) -> Group | None:
        """A product with what fills its borders, `a`, and its reader `b` as one group, if that is to be taken."""
        p, each = self.planner, [frozenset((n,)) for n in a | b]
        if p.order([a | b, *self.groups, *p.singles((a | b).union(*self.groups))]) is None or not p.may_price(a | b):
            return None
        least, g = sum(p.found(x).bound for x in each), p.price_below(a | b, 2)
        if g is None:
            return None
        near = g.kernels == 1 and g.seconds <= NEARLY_EQUAL * least
        others = [x for x in each if not p.found(x).view.products]
        if not near and not (self._takes_each(b) and not any(p.is_alone(x, g) for x in others)):
            return None
        why = "apart, it is at least that" if near else "apart, as much, with more stored, and more launches"
        self._accept("producer", a, b, least, g, f"{g.how}; {why}")
        return g

    def fills(self, start: Sequence[Ids]) -> dict[Ids, list[Ids]]:
        """For each product over several loops, the nests that it alone reads, and that take each element of one array
        without much work: those that fill up borders, above all."""
        p, found = self.planner, dict[Ids, list[Ids]]()
        for f, a in self.read_by_one(start):
            view, product = p.found(f).view, p.found(a).view
            stages = view.schedule.stages
            reads = [t for x in stages for t in view.schedule.accesses(x) if not t.write]
            if view.folds or len(reads) != 1 or not any(several(product.schedule, x) for x in product.products):
                continue
            if not any(evaluates_functions(view.schedule, x) for x in stages):
                found.setdefault(a, []).append(f)
        return found

    def _takes_each(self, a: Ids) -> bool:
        """Whether a nest takes elements in the order in which they are stored."""
        return set(self.planner.found(a).view.classes.values()) == {"elementwise"}

    def read_by_one(self, start: Sequence[Ids]) -> list[tuple[Ids, Ids]]:
        """Of groups of one nest, those that one other alone reads, with that one."""
        readers: dict[int, set[int]] = {}
        nests = self.planner.nests
        for n, nest in enumerate(nests):
            for k in nest.needs:
                if nest.reads & nests[k].writes:
                    readers.setdefault(k, set()).add(n)
        known = set(start)
        found = ((a, frozenset(readers.get(min(a), ()))) for a in start if len(a) == 1)
        return [(a, b) for a, b in found if len(b) == 1 and b in known]

    # ------------------------------------------------------------ pairs

    def _merge_pairs(self, kinds: Sequence[str]) -> None:
        """Merge pairs of these kinds, while there are merges left, by the seconds that they save."""
        p, groups = self.planner, self.groups
        heap: list[tuple[tuple[int, int, int], int, int, Ids, Ids, Group | None, str]] = []
        known, nth = {(d.a, d.b) for d in self.log}, count()
        partition, index = Partition([n.needs for n in p.nests], groups), _Index(p, groups)

        def push(a: Ids, b: Ids) -> None:
            a, b = sorted((a, b), key=min)
            kind = p.related(a, b, groups)
            if kind not in kinds or kind is None or (p.stages(a), p.stages(b)) in known:
                return
            if vetoed(a | b, self.apart):
                self._refuse("veto", a, b, "asked for")
            elif partition.separated(a, b):
                self._refuse(kind, a, b, "a stage between them would wait for itself")
            elif (saved := self._at_most(a, b)) <= 0.0:
                self._refuse(kind, a, b, "there is nothing to save")
            else:
                heapq.heappush(heap, (_rank(EXPECTED * saved, len(a | b)), min(a | b), next(nth), a, b, None, kind))

        for a in sorted(groups, key=min):
            for b in index.related(a):
                if min(a) < min(b):
                    push(a, b)
        while heap and self.merges > 0:
            *_, a, b, g, kind = heapq.heappop(heap)
            if a not in groups or b not in groups or partition.separated(a, b):
                continue
            before = groups[a].seconds + groups[b].seconds
            if g is None:  # priced when nothing that is left is expected to save more
                g = self._priced(kind, a, b)
                if g is not None:
                    rank = _rank(before - g.seconds, len(a | b))
                    heapq.heappush(heap, (rank, min(a | b), next(nth), a, b, g, kind))
                continue
            self._accept(kind, a, b, before, g, g.how)
            partition.merge(a, b)
            index.merge(a, b)
            for other in index.related(a | b):
                push(a | b, other)

    def _priced(self, kind: str, a: Ids, b: Ids) -> Group | None:
        """Two groups as one, if that is faster; what it costs is logged if not."""
        p, groups = self.planner, self.groups
        if not p.may_price(a | b):
            self._refuse(kind, a, b, "not priced, as the work of planning is used up")
            return None
        if p.target == "cuda":
            kernels = sum(map(self._kernels_to_save, (a, b)))
        else:  # fewer loops are not always faster; more products are where a rule says so
            kernels = NOTHING_TO_WIN if all(map(self._has_product, (a, b))) else None
        before, g = groups[a].seconds + groups[b].seconds, p.price_below(a | b, kernels)
        if g is not None and g.seconds < before:
            return g
        if g is None:
            self._refuse(kind, a, b, "no rule gives fewer kernels")
        else:
            names, cost = (p.stages(a), p.stages(b)), (before * 1e6, g.seconds * 1e6)
            self.log.append(Decision(kind, *names, *cost, False, "that is no faster", g.refused))
        return None

    def _kernels_to_save(self, g: Ids) -> int:
        """The kernels of a group that merging may save some of: what else a product needs, it needs in any group."""
        kernels = self.groups[g].kernels
        return min(kernels, least_launches(self.planner.found(g).view)) if self._has_product(g) else kernels

    def _has_product(self, g: Ids) -> bool:
        return any(self.planner.found(frozenset((n,))).view.products for n in g)

    def _at_most(self, a: Ids, b: Ids) -> float:
        """Seconds that merging two groups may save: launches, and moving what both touch."""
        p, groups, every = self.planner, self.groups, (a, b)
        if p.target != "cuda":
            return groups[a].seconds + groups[b].seconds
        reads, writes = (
            [frozenset[str]().union(*(getattr(p.nests[n], w) for n in g)) for g in every] for w in ("reads", "writes")
        )
        made = (writes[0] & reads[1]) | (writes[1] & reads[0])
        gone = {x for x in made - p.results if p.touching[x] <= a | b}
        shared = (reads[0] & reads[1]) | made
        kernels = groups[a].kernels + groups[b].kernels - 1
        saved = kernels * (p.machine.launch + 2 * p.machine.latency)
        return saved + p.machine.memory_seconds(sum(p.bytes[x] for x in shared), sum(p.bytes[x] for x in gone))

    def _move_nests(self, start: Sequence[Ids]) -> None:
        """Move single nests, or what was together from the start, to another group or out of one, while that saves:
        what a nest was merged with first may leave no place for it where it saves more."""
        p = self.planner
        if len(p.nests) > MOST_WHOLE or p.target != "cuda":
            return
        pending = list(start)
        while pending and self.merges > 0:
            unit = pending.pop(0)
            own = next(g for g in self.groups if unit <= g)
            if own != unit and self._moved(unit, own):
                pending += [x for x in start if x not in pending]

    def _moved(self, unit: Ids, own: Ids) -> bool:
        """Move `unit` from its group to the first where that saves time; whether there is one."""
        p, groups, rest = self.planner, self.groups, own - unit
        for other in [frozenset[int](), *(g for g in groups if g != own and self._touch(g, unit))]:
            both = other | unit
            before = groups[own].seconds + (groups[other].seconds if other else 0.0)
            others = [g for g in groups if g not in (own, other)]
            if vetoed(both, self.apart) or p.order([*others, rest, both]) is None:
                continue
            if sum(p.found(g).bound for g in (rest, both)) / NEAR_BOUND >= before - TICK:
                continue
            if not (p.may_price(rest) and p.may_price(both)):
                return False
            if p.price(rest).seconds + p.found(both).bound / NEAR_BOUND >= before - TICK:
                continue  # however fast the other is
            made = {g: p.price(g) for g in (rest, both)}
            after = sum(g.seconds for g in made.values())
            if after < before - TICK:
                names, cost = (p.stages(unit), p.stages(other or rest)), (before * 1e6, after * 1e6)
                self.log.append(Decision("move", *names, *cost, True, made[both].how))
                self.groups = {g: groups[g] for g in others} | made
                self.merges -= 1
                return True
        return False

    def _touch(self, a: Ids, b: Ids) -> bool:
        """Whether nests of both touch some memory."""
        nests = self.planner.nests
        touched = [frozenset[str]().union(*(nests[n].reads | nests[n].writes for n in g)) for g in (a, b)]
        return not touched[0].isdisjoint(touched[1])

    def _try_whole(self) -> None:
        """All stages as one group, if that is cheaper: what pays for all may pay for no two of them."""
        p, groups = self.planner, self.groups
        every = frozenset(range(len(p.nests)))
        if len(groups) < 2 or len(p.nests) > MOST_WHOLE or vetoed(every, self.apart):
            return
        if not p.may_price(every):
            return
        before = sum(g.seconds for g in groups.values())
        fewer = sum(g.kernels for g in groups.values()) if p.target == "cuda" else NOTHING_TO_WIN + 1
        whole = p.price_below(every, fewer)
        if whole is None:
            return
        (first, *others) = (p.stages(g) for g in groups)
        names = first, tuple(x for g in others for x in g)
        taken = whole.seconds < before
        cost = before * 1e6, whole.seconds * 1e6
        self.log.append(Decision("whole", *names, *cost, taken, whole.how if taken else ""))
        if taken:
            self.groups = {every: whole}
