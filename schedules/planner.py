"""Planning: a program's nests are put into groups that run together, by predicted seconds.

Each group is scheduled by the cheapest rule of the table, on its nests alone, and priced; groups that differ in names
alone are looked at once. Greedy starts with every nest by itself and merges, from a heap of pairs by seconds saved,
what belongs together: a producer and its consumer, siblings that read the same, and small groups that are alike. A
group may have no stage outside that waits for one of it while another of it waits for that; the program as one group
is tried, too. Exact tries every partition into such groups, by dynamic programming over the sets of nests that may
have run, and is there for tests of the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import inf, prod
from typing import Any, cast

import loopir as lp

from .common.nest_queries import extent, iterations
from .cuda.channels_last import channels_last
from .cuda.cheapest import Candidate, Choices, Observer, in_one_kernel, observing, remembering
from .greedy import MOST_WHOLE, NEAR_BOUND, TICK, Greedy, Vetoes, vetoed
from .nest_groups import Ids, topological
from .normal_form import normal_form
from .plan import VERSION, Decision, Group, Plan, Trace, flat, frozen
from .rules import RULES, Rule, Traits, View, traits_of

SHARED_BYTES = 1 << 20
"""What siblings read together, at least, to be considered for one launch."""
SMALL_SAVING = 5.0e-5
"""Seconds of a group that is small, whose launch is worth sharing."""
LITTLE = 1.0e-5
"""Seconds of a group that is little more than its launch, which any other such group of a small program may share."""
FAR = 4.0
"""From how many times its lower bound on a group is tried as it is written, too."""
MOST_EXACT = 12
"""Nests of a program, at most, all groupings of which are tried."""
WORK, NEST_WORK = 1000, 50
"""Work that greedy may do, for a program and for each of its nests: lines of the nests that rules make, each of which
is scheduled, lowered and priced. What several rules make alike is lowered and priced once, and counts once."""


def least_seconds(s: lp.Schedule, machine: lp.Machine) -> float:
    """Seconds that no schedule of `s` is faster than on a GPU: what it touches of its arguments moved once, by one
    launch, which starts with a load and waits for one."""
    busy, reads = least_busy(s, machine)
    return _seconds_of_launch(busy, machine, reads=reads)


def least_busy(s: lp.Schedule, machine: lp.Machine, sizes: Mapping[str, int] | None = None) -> tuple[float, bool]:
    """Seconds in which a GPU moves once what `s` touches of its arguments, and whether it reads any of them."""
    held, touched = lp.buffer_bytes(s, sizes), _bytes_touched(s)
    read, written = (
        sum(
            min(held[a.buffer.name], touched.get((a.buffer.name, write), 0.0)) for a in s.func.args if a.access != other
        )
        for write, other in ((False, "out"), (True, "in"))
    )
    return machine.memory_seconds(read, written), read > 0


def _seconds_of_launch(busy: float, machine: lp.Machine, *, reads: bool) -> float:
    """Seconds of a launch, at least, one part of which is `busy` for so long: what reads waits for its first load
    before it, and for another one in place of what is shorter (`lp.Report`)."""
    return machine.launch + (machine.latency + max(busy, machine.latency) if reads else busy)


def _bytes_touched(s: lp.Schedule) -> dict[tuple[str, bool], float]:
    """For each buffer and whether it is written, the bytes that are touched at most: an element for each iteration of
    the loops that its subscripts depend on; infinitely many where the length of such a loop is not known."""
    found = dict[tuple[str, bool], float]()
    for stage in s.stages:
        for t in s.accesses(stage):
            along = iterations(s, [x for x in s.loops(stage) if not t.invariant(x)])
            key = t.buffer, t.write
            found[key] = found.get(key, 0.0) + (inf if along is None else float(along * t.dtype.bytes))
    return found


def product_seconds(
    s: lp.Schedule, products: Iterable[str], machine: lp.Machine, sizes: Mapping[str, int] | None = None
) -> float:
    """Seconds that tensor cores take at least for `products`, stages of `s` that no step was taken on."""
    held, seconds = lp.buffer_bytes(s, sizes), 0.0
    for stage in products:
        touches = s.accesses(stage)
        rates = [machine.tensor_rate(x) for x in {"bfloat16", *(t.dtype.name for t in touches)}]
        results = min((held[t.buffer] / t.dtype.bytes for t in touches if t.write and t.buffer in held), default=0.0)
        terms = prod(extent(s, x) or (sizes or {}).get(lp.text(s.loop(x).extent), 1) for x in s.reduced(stage))
        seconds += 2.0 * results * terms / max(max(r.warp, r.warpgroup) for r in rates)
    return seconds


@dataclass
class Found:
    """What is known of groups that differ in names alone: by rule, what it made of them, or what it said."""

    schedule: lp.Schedule
    view: View
    bound: float
    tried: dict[int, Group | str | None]
    alone: list[Group] | None = None
    """What rules made one kernel of, where the cheapest schedule has several; None if they were not asked."""


class Planner:
    """A program, its nests, and what groups of these were found to cost."""

    def __init__(
        self,
        s: lp.Schedule,
        target: str,
        arch: str | lp.Machine | None,
        sizes: Mapping[str, int],
        rules: Sequence[Rule] = (),
        work: int | None = None,
        observer: Observer | None = None,
        program: lp.Schedule | None = None,
    ) -> None:
        """`observer` is called for each comparison of recipes by price, and for each group with what rules made of it,
        as programs of their own, and what is taken. `program` is what is planned, if not the normal form of `s`."""
        if not isinstance(s, lp.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"plan takes a Schedule, as lp.Schedule(A @ B), and is given a {type(s).__name__}")
        self.target = lp.resolve_target(target)
        self.in_form = partial(Planner, s, target, arch, sizes, rules, work, observer)
        """The planner that is asked the same of another form of the program."""
        if program is None:
            program = normal_form(s) if self.target == "cuda" else s
        self.program = s = program
        local = lp.local_machine() if self.target == "cuda" and arch is None else None
        self.machine = lp.machine(arch if arch is not None else local or "portable")
        self.sizes = dict(sizes)
        self.observer = observer
        self.choices = Choices()
        added = sorted(RULES, key=lambda r: r.ours)  # those of users first, as what is near its bound ends the search
        self.rules = [r for r in (*rules, *added) if r.target == self.target]
        self.nests = lp.nests(s.func)
        self.bytes = lp.buffer_bytes(s, self.sizes)
        self.touching: dict[str, Ids] = {}
        for n, nest in enumerate(self.nests):
            for x in nest.reads | nest.writes:
                self.touching[x] = self.touching.get(x, Ids()) | {n}
        self.results = frozenset(a.buffer.name for a in s.func.args if a.access != "in")
        self.cache: dict[str, Found] = {}
        self.predicted: dict[str, Any] = {}
        """Prices by the text of what is priced: several rules may give the same."""
        self.lone: dict[Trace, frozenset[str]] = {}
        """By the steps that a rule takes on a part, the stages that have a nest of their own then."""
        self.parted: dict[Ids, frozenset[str]] = {}
        self.parts: dict[Ids, tuple[lp.Part, str]] = {}
        self.traits: dict[str, dict[str, Traits]] = {}
        self.priced: dict[tuple[Ids, int | None], Group | None] = {}
        self.work = WORK + NEST_WORK * len(self.nests) if work is None else work
        self.spent = 0
        self.whole_tried = frozenset[str]()
        """Rules that are not tried on the program as one group, as the caller knows what they give."""
        self.exhausted = False

    # ------------------------------------------------------------ prices

    def stages(self, ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(x for n in sorted(ids) for x in self.nests[n].stages)

    def part(self, ids: Ids) -> tuple[lp.Part, str]:
        """A group as a program of its own, and its text: the same for groups that differ in names alone."""
        if ids not in self.parts:
            found = lp.extract(self.program.func, self.stages(ids))
            self.parts[ids] = found, lp.text(found.func)
        return self.parts[ids]

    def key(self, ids: Ids) -> str:
        return self.part(ids)[1]

    def _view(self, ids: Ids, s: lp.Schedule) -> View:
        """The group as rules see it; what kind of stage each is was asked of its nest alone, once for all alike."""
        original = {old: new for new, old in self.part(ids)[0].labels.items()}
        every: dict[str, Traits] = {}
        for n in ids:
            found = traits_of(*self.part(frozenset((n,))), self.traits)
            every |= {original[x]: kind for x, kind in found.items()}
        labels = self.part(ids)[0].labels

        def alone_trace(stages: tuple[str, ...]) -> Trace:
            inner = self.ids(tuple(labels[x] for x in stages))
            part = lp.Schedule(lp.extract(s.func, stages).func)
            found = self._one_kernel(inner) if self.key(inner) == lp.text(part.func) else None
            if found is None:
                raise lp.ScheduleError(f"no rule makes one kernel of {', '.join(stages)}")
            return found.trace

        return View(s, self.target, {x: every[x] for x in s.stages}, alone_trace)

    def price(self, ids: Ids) -> Group:
        """The group of these nests, scheduled by the cheapest rule."""
        found = self.price_below(ids, None)
        assert found is not None
        return found

    def price_below(self, ids: Ids, kernels: int | None) -> Group | None:
        """As `price`, but only by rules that may give fewer `kernels` than these; None if there is none."""
        if (ids, kernels) not in self.priced:
            found = self._cheapest(ids, kernels)
            self.priced[ids, kernels] = None if found is None else replace(found, stages=self.stages(ids))
        return self.priced[ids, kernels]

    def _one_kernel(self, ids: Ids) -> Group | None:
        """The group as a single kernel, by the cheapest rule that makes one of it."""
        best = self.price_below(ids, 2)
        if best is not None and best.kernels == 1:
            return best
        known = self.found(ids)
        if known.alone is None:
            with in_one_kernel():
                made = [self._tried(known.schedule, known.view, r) for r in self.rules if not r.last_resort]
            known.alone = [g for g in made if isinstance(g, Group) and g.kernels == 1]
        return min(known.alone, key=lambda g: g.seconds, default=None)

    def may_price(self, ids: Ids) -> bool:
        """Whether there is work left to price a group that may be left alone; one that was priced costs none."""
        if self.spent < self.work or self.found(ids).tried:
            return True
        self.exhausted = True
        return False

    def describe_work(self) -> str:
        """Say that the work is used up, and what follows."""
        used = f"the work of planning, {self.work} lines of nests scheduled and priced, is used up"
        return f"{used}: pairs that were not priced stay apart, and this is the best plan so far"

    def found(self, ids: Ids) -> Found:
        part, key = self.part(ids)
        if key not in self.cache:
            s = lp.Schedule(part.func)
            view = self._view(ids, s)
            self.cache[key] = Found(s, view, self._bound(s, view), {})
        return self.cache[key]

    def _cheapest(self, ids: Ids, kernels: int | None = None, only: str | None = None) -> Group | None:
        known = self.found(ids)
        best: Group | None = None
        prices: list[tuple[str, float]] = []
        refused: list[tuple[str, str]] = []
        for n, rule in self._to_try(ids, only):
            near = FAR if rule.last_resort else 1.0
            if best is not None and best.seconds <= near * known.bound:
                break
            if kernels is not None and (rule.last_resort or rule.least_kernels(known.view) >= kernels):
                continue
            if n not in known.tried:
                known.tried[n] = self._tried(known.schedule, known.view, rule)
            found = known.tried[n]
            if isinstance(found, str):
                refused.append((rule.name, found))
            elif found is not None:
                prices.append((rule.name, found.seconds))
                best = found if best is None or found.seconds < best.seconds else best
        if best is None and kernels is not None:
            return None
        if best is None:
            said = "; ".join(f"{name}: {why}" for name, why in refused) or "no rule matches"
            raise lp.ScheduleError(f"nothing schedules {', '.join(self.stages(ids))} ({said})")
        self._observed(known, best)
        return replace(best, candidates=tuple(prices), refused=tuple(refused))

    def _observed(self, known: Found, best: Group) -> None:
        """Show the observer what rules made of a group."""
        if self.observer is None:
            return
        s, made = known.schedule, dict[int, Candidate]()
        for n, g in known.tried.items():
            if isinstance(g, Group):
                made[n] = Candidate(self.rules[n].schedule, s.schedule_nests((s.stages, g.trace)), g.seconds)
        taken = next(n for n in made if known.tried[n] is best)
        self.observer([*made.values()], made[taken])

    def _to_try(self, ids: Ids, only: str | None) -> list[tuple[int, Rule]]:
        """The rules to try on a group, those called `only` alone if that is given, with their places in the table."""
        known = self.whole_tried if len(ids) == len(self.nests) else frozenset[str]()
        return [(n, r) for n, r in enumerate(self.rules) if only in (None, r.name) and r.name not in known]

    def _tried(self, s: lp.Schedule, view: View, rule: Rule) -> Group | str | None:
        """What `rule` makes of a group; what it says if it refuses; None if it does not match."""
        try:
            with lp.scheduling_for(self.machine), observing(self.observer), remembering(self.choices):
                match = rule.matches(view)
                if match is None:
                    return None
                made = rule(s, match)
                steps = made.steps_since(s)
                if steps is None:
                    raise lp.ScheduleError("what it gives does not come from the Schedule that it was given")
                key = lp.text(made.func)
                if key not in self.predicted:
                    self.spent += key.count("\n")
                    self.predicted[key] = lp.predict(made, self.target, sizes=self.sizes)
                cost = self.predicted[key]
        except lp.LoopirError as error:
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        except (Exception, SystemExit) as error:  # whatever a rule raises, it is no candidate
            said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            return f"the rule has an error of its own and says nothing of these stages ({said})"
        trace = flat(steps)
        self.lone[trace] = frozenset(n.stages[0] for n in lp.nests(made.func) if len(n.stages) == 1)
        return Group((), rule.name, trace, cost.seconds, cost.kernels, cost.bytes, cost.temp_bytes)

    def is_alone(self, ids: Ids, g: Group) -> bool:
        """Whether the schedule of a group has some of these of its nests by themselves."""
        labels = self.part(self.ids(g.stages))[0].labels
        return not {labels.get(x) for x in self.lone[g.trace]}.isdisjoint(self.stages(ids))

    def _bound(self, s: lp.Schedule, view: View) -> float:
        """Seconds that are so near to what no schedule of a group is faster than that no others need be tried."""
        if self.target != "cuda":
            return 0.0
        busy, reads = least_busy(s, self.machine, self.sizes)
        busy = max(busy, product_seconds(s, view.products, self.machine, self.sizes))
        least = _seconds_of_launch(busy, self.machine, reads=reads)
        return max(NEAR_BOUND * (busy + self.machine.launch), least + TICK)

    # ------------------------------------------------------------ which nests may be a group

    def order(self, groups: Iterable[Ids]) -> list[Ids] | None:
        """The groups in an order in which each has what it needs; None if some wait for one another."""
        return topological([n.needs for n in self.nests], groups)

    def related(self, a: Ids, b: Ids, groups: Mapping[Ids, Group]) -> str | None:
        """What two groups have to do with one another that may make them worth merging."""
        if any(self.nests[m].needs & a for m in b) or any(self.nests[m].needs & b for m in a):
            return "producer"
        reads = [frozenset[str]().union(*(self.nests[n].reads for n in g)) for g in (a, b)]
        if sum(self.bytes[x] for x in reads[0] & reads[1]) >= SHARED_BYTES:
            return "shared input"
        small = all(groups[g].seconds < SMALL_SAVING for g in (a, b))
        little = len(self.nests) <= MOST_WHOLE and all(groups[g].seconds < LITTLE for g in (a, b))
        return "alike" if small and (little or self.alike(a, b)) else None

    def alike(self, a: Ids, b: Ids) -> bool:
        """Whether two groups are copies of one, or of its copies: nests that differ in names alone."""
        return len(self.copies(a) | self.copies(b)) == 1

    def copies(self, ids: Ids) -> frozenset[str]:
        """The texts of the parts of a group that need nothing of one another."""
        if ids not in self.parted:
            part = {n: frozenset((n,)) for n in ids}
            for n in sorted(ids):
                for k in self.nests[n].needs & ids:
                    both = part[n] | part[k]
                    part |= dict.fromkeys(both, both)
            self.parted[ids] = frozenset(map(self.key, set(part.values())))
        return self.parted[ids]

    # ------------------------------------------------------------ plans

    def plan(
        self,
        pins: Iterable[Sequence[str]] = (),
        vetoes: Iterable[Sequence[str]] = (),
        budget: float | None = None,
        effort: str = "greedy",
        fuel: int | None = None,
    ) -> Plan:
        """The plan of the program, as `schedules.plan` says; greedy, unless `effort` is "exact"."""
        pinned = [self.ids(p) for p in pins]
        apart = [tuple(self.ids((x,)) for x in pair) for pair in vetoes]
        start = self._start(pinned, apart)
        log: list[Decision] = [
            Decision("pin", self.stages(p)[:1], self.stages(p)[1:], 0.0, 0.0, True, "asked for") for p in pinned
        ]
        match effort:
            case "greedy":
                merges = len(self.nests) if fuel is None else fuel
                groups = Greedy(self, apart, log, merges, whole=fuel is None).search(start)
            case "exact":
                groups = self._exact(start, apart)
            case _:
                raise ValueError(f'effort is "greedy" or "exact", not {effort!r}')
        if budget is not None:
            groups = self._within(groups, apart, budget, log)
        return self.made(groups, log)

    def ids(self, stages: Sequence[str]) -> Ids:
        of = {x: n for n, nest in enumerate(self.nests) for x in nest.stages}
        if missing := [x for x in stages if x not in of]:
            raise lp.ScheduleError(f"there is no stage {missing[0]!r}; there are {', '.join(of)}")
        return frozenset(of[x] for x in stages)

    def _start(self, pinned: Sequence[Ids], apart: Vetoes) -> list[Ids]:
        """Every nest by itself, but for those that are pinned together, or share a label."""
        groups = [frozenset((n,)) for n in range(len(self.nests))]
        labelled = [frozenset(n for n, nest in enumerate(self.nests) if x in nest.stages) for x in self.program.stages]
        for wanted in (*(x for x in labelled if len(x) > 1), *pinned):
            joined = frozenset[int]().union(*(g for g in groups if g & wanted))
            groups = [*(g for g in groups if not g & wanted), joined]
        for g in groups:
            if vetoed(g, apart):
                raise lp.ScheduleError(f"{', '.join(self.stages(g))} are pinned together, and two of them vetoed")
        if self.order(groups) is None:
            waits = next(g for g in groups if len(g) > 1 and self.order([g, *self.singles(g)]) is None)
            raise lp.ScheduleError(f"{', '.join(self.stages(waits))} cannot be one group: a stage runs between them")
        return groups

    def singles(self, but: Ids) -> list[Ids]:
        return [frozenset((n,)) for n in range(len(self.nests)) if n not in but]

    def _exact(self, start: Sequence[Ids], apart: Vetoes) -> dict[Ids, Group]:
        """The cheapest of all groupings, from no nest done to all, a group at a time."""
        if len(start) > MOST_EXACT:
            raise ValueError(f'effort="exact" takes up to {MOST_EXACT} nests, and there are {len(start)}')
        units = self.order(start)
        assert units is not None
        of = {n: k for k, unit in enumerate(units) for n in unit}
        needs = [frozenset(of[k] for n in unit for k in self.nests[n].needs) - {u} for u, unit in enumerate(units)]
        best: dict[Ids, tuple[float, tuple[Ids, ...]]] = {frozenset(): (0.0, ())}
        for done in sorted(self._ideals(needs), key=len):
            cost, groups = best[done]
            for more in self._next(done, needs):
                g = frozenset[int]().union(*(units[k] for k in more))
                if vetoed(g, apart):
                    continue
                total, key = cost + self.price(g).seconds, done | more
                if key not in best or total < best[key][0]:
                    best[key] = total, (*groups, g)
        return {g: self.price(g) for g in best[frozenset(range(len(units)))][1]}

    @staticmethod
    def _ideals(needs: Sequence[Ids]) -> list[Ids]:
        """The sets of nests that have all that they need."""
        found: set[Ids] = {frozenset()}
        pending = [*found]
        while pending:
            done = pending.pop()
            for k, wanted in enumerate(needs):
                if k not in done and wanted <= done and (more := done | {k}) not in found:
                    found.add(more)
                    pending.append(more)
        return list(found)

    def _next(self, done: Ids, needs: Sequence[Ids]) -> list[Ids]:
        """The sets of nests that may run next, as one group."""
        found: set[Ids] = set()
        pending: list[Ids] = [frozenset()]
        while pending:
            more = pending.pop()
            for k, wanted in enumerate(needs):
                if k not in done | more and wanted <= done | more and (larger := more | {k}) not in found:
                    found.add(larger)
                    pending.append(larger)
        return list(found)

    # ------------------------------------------------------------ memory

    def peak(self, order: Sequence[Ids], groups: Mapping[Ids, Group]) -> float:
        """The most bytes that live between kernels at once, over the groups in this order."""
        given = {a.buffer.name for a in self.program.func.args}
        touched = [frozenset[str]().union(*(self.nests[n].reads | self.nests[n].writes for n in g)) for g in order]
        most = 0.0
        for k, g in enumerate(order):
            before, after = (frozenset[str]().union(*part) for part in (touched[: k + 1], touched[k:]))
            crossing = {x for x in before & after if sum(x in t for t in touched) > 1}
            most = max(most, sum(self.bytes[x] for x in crossing - given) + groups[g].temp_bytes)
        return most

    def _within(self, groups: dict[Ids, Group], apart: Vetoes, budget: float, log: list[Decision]) -> dict[Ids, Group]:
        """Groups merged, by least added seconds, until what lives between kernels fits `budget` bytes."""
        while (peak := self._peak_of(groups)) > budget:
            found: list[tuple[float, int, Ids, Ids, Group]] = []
            for a, b in combinations(sorted(groups, key=min), 2):
                rest, both = {g: x for g, x in groups.items() if g not in (a, b)}, a | b
                if self.related(a, b, groups) != "producer" or vetoed(both, apart):
                    continue
                if self.order([*rest, both]) is None:
                    continue
                g = self.price(both)
                if self._peak_of({**rest, both: g}) < peak:
                    found.append((g.seconds - groups[a].seconds - groups[b].seconds, min(both), a, b, g))
            if not found:
                least = f"{peak / 1e6:.1f} MB is the least found"
                raise ValueError(f"no plan keeps within {budget / 1e6:.1f} MB between kernels; {least}")
            added, _, a, b, g = min(found, key=lambda x: x[:2])
            before = groups[a].seconds + groups[b].seconds
            names = self.stages(a), self.stages(b)
            log.append(Decision("memory", *names, before * 1e6, (before + added) * 1e6, True, "for the budget"))
            groups = {**{x: y for x, y in groups.items() if x not in (a, b)}, a | b: g}
        return groups

    def _peak_of(self, groups: Mapping[Ids, Group]) -> float:
        order = self.order(groups)
        assert order is not None
        return self.peak(order, groups)

    # ------------------------------------------------------------ making and changing plans

    def made(self, groups: Mapping[Ids, Group], log: Sequence[Decision]) -> Plan:
        order = self.order(groups)
        assert order is not None
        arch = self.machine.arch if self.target == "cuda" else None
        found = tuple(groups[g] for g in order)
        return Plan(self.program, found, tuple(log), self.target, arch, self.sizes, self.peak(order, groups),
                    sum(any(found.tried.values()) for found in self.cache.values()), self.edited)  # fmt: skip

    def edited(
        self, plan: Plan, fuse: Sequence[Sequence[str]], split: Sequence[Sequence[str]], how: Mapping[str, str]
    ) -> Plan:
        """The plan with groups merged, taken apart, or scheduled by other rules."""
        groups = {self.ids(g.stages): g for g in plan.groups}
        log = list(plan.decisions)
        for stages in split:
            log += self._split_groups(groups, self.ids(stages))
        for stages in fuse:
            log.append(self._merge_groups(groups, self.ids(stages)))
        for stage, name in how.items():
            (g,) = (g for g in groups if self.ids((stage,)) <= g)
            if name not in (r.name for r in self.rules):
                known = ", ".join(dict.fromkeys(r.name for r in self.rules))
                raise lp.ScheduleError(f"there is no rule {name!r} for {self.target}; there are {known}")
            found = self._cheapest(g, only=name)
            assert found is not None
            groups[g] = replace(found, stages=self.stages(g))
        if self.order(groups) is None:
            raise lp.ScheduleError("these groups would wait for one another")
        return self.made(groups, log)

    def _split_groups(self, groups: dict[Ids, Group], alone: Ids) -> list[Decision]:
        """Split each group in two that has some of the nests `alone` and others, as is asked for."""
        log: list[Decision] = []
        for g in [g for g in groups if g & alone and g - alone]:
            before = groups.pop(g)
            for part in (g - alone, g & alone):
                groups[part] = self.price(part)
            after = groups[g - alone].seconds + groups[g & alone].seconds
            names = self.stages(g - alone), self.stages(g & alone)
            log.append(Decision("split", *names, before.seconds * 1e6, after * 1e6, True, "asked for"))
        return log

    def _merge_groups(self, groups: dict[Ids, Group], wanted: Ids) -> Decision:
        """Merge the groups that have any of the nests `wanted`, as is asked for."""
        old = [g for g in groups if g & wanted]
        both = frozenset[int]().union(*old)
        before = sum(groups.pop(g).seconds for g in old)
        if self.order([*groups, both]) is None:
            raise lp.ScheduleError(f"{', '.join(self.stages(both))} cannot be one group: a stage runs between them")
        groups[both] = self.price(both)
        names = self.stages(old[0]), tuple(x for g in old[1:] for x in self.stages(g))
        return Decision("pin", *names, before * 1e6, groups[both].seconds * 1e6, True, "asked for")


def load(s: lp.Schedule, text: str) -> Plan:
    """The plan that `Plan.json` wrote, for the same program `s`: its steps are proved again, and no code runs.

    Raises ValueError for what is no such JSON or of another version or program, ScheduleError for a step that is not
    legal.
    """
    try:
        read: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    if not isinstance(read, dict) or cast("dict[str, Any]", read).get("loopir plan") != VERSION:
        raise ValueError(f"this is no plan of version {VERSION}, as Plan.json() writes it")
    read = cast("dict[str, Any]", read)
    given, normal = read.get("program"), normal_form(s)
    forms = (form() for form in (lambda: normal, lambda: s, lambda: channels_last(normal)))
    program = next((x for x in forms if given == lp.text(x.func)), None)
    if program is None:
        raise ValueError("this plan is of another program")
    try:
        groups = [_group(g) for g in read["groups"]]
        sizes = {str(k): int(v) for k, v in read["sizes"].items()}
        planner = Planner(s, str(read["target"]), read["arch"], sizes, program=None if program is s else program)
        by_ids = {planner.ids(g.stages): g for g in groups}
        is_measured = bool(read.get("measured", False))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("this plan is damaged: its groups, sizes or target are not as Plan.json() has them") from None
    if sum(map(len, by_ids)) != len(planner.nests) or planner.order(by_ids) is None:
        raise ValueError("the groups of this plan are not all stages of the program, each once, in an order")
    found = replace(planner.made(by_ids, ()), is_measured=is_measured)
    found.apply()
    return found


def _group(g: Any) -> Group:
    if not all(isinstance(x, str) for x in (*g["stages"], g["how"])):
        raise TypeError
    return Group(tuple(g["stages"]), g["how"], frozen(g["trace"]), float(g["seconds"]), int(g["kernels"]),
                 float(g["bytes"]), float(g["temp_bytes"]))  # fmt: skip
