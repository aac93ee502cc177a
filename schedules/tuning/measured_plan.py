"""Plans, by prediction or by measuring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import loopir as lp

from .. import forms, planner
from ..cuda.cheapest import Observer
from ..plan import Decision, Group, Plan
from ..rules import Rule
from .tune import tune


def plan(
    s: lp.Schedule,
    target: str = "auto",
    *,
    arch: str | lp.Machine | None = None,
    sizes: Mapping[str, int] | None = None,
    pins: Iterable[Sequence[str]] = (),
    vetoes: Iterable[Sequence[str]] = (),
    rules: Sequence[Rule] = (),
    budget: float | None = None,
    effort: Literal["greedy", "exact", "measure"] = "greedy",
    fuel: int | None = None,
    work: int | None = None,
    observer: Observer | None = None,
    **measuring: Any,
) -> Plan:
    """The plan of `s`, a program that no step was taken on, for `target`: "cuda", "llvm" or "auto".

    `arch` is as for `auto`. Prices are at `sizes`; one that is not given is taken for 1024. `pins` are stages that are
    to be in one group, `vetoes` pairs that are not. `rules` are tried beside those of the table. `budget` is the most
    bytes for what lives between kernels. `effort` "exact" tries every grouping of up to 12 nests; "measure" gives what
    `tune` chooses, which takes the options of `measuring` (`budget_s`, `executor`, `database`, `p99`), as one group
    whose seconds are measured. After `fuel` merges greedy stops. `work` is how many lines of nests rules may make
    before no more merges are priced, by default in proportion to the nests; the log says when it is used up.
    `observer` is called with the candidates (`schedules.Candidate`) of each comparison by price, of recipes for a
    product and of rules for a group, and the one that is taken.
    Raises ScheduleError for pins that cannot be, and ValueError for a budget that nothing found meets, or pins and the
    like for a plan that is measured.
    """
    if effort != "measure":
        if measuring:
            raise TypeError(f'{", ".join(measuring)}: options of effort="measure" alone')
        asked = planner.Planner(s, target, arch, sizes or {}, rules, work, observer)
        return forms.in_faster_form(asked).plan(pins, vetoes, budget, effort, fuel)
    if list(pins) or list(vetoes) or budget is not None or fuel is not None or work is not None:
        raise ValueError('effort="measure" takes no pins, vetoes, budget, fuel or work: edit the plan that it gives')
    target = lp.resolve_target(target)
    named = arch.arch if isinstance(arch, lp.Machine) else arch
    found = tune(s, target, arch=named, sizes=sizes, rules=rules, **measuring)
    made = planner.Planner(s, target, arch, dict(sizes or {}), rules)
    record, stages = found.record, made.program.stages
    trace = record.trace if record is not None else ()
    price = lp.predict(found.schedule, target, sizes=dict(sizes or {}))
    seconds = found.seconds or price.seconds
    group = Group(stages, found.name, trace, seconds, price.kernels, price.bytes, price.temp_bytes)
    log = Decision("measured", stages[:1], stages[1:], found.first_seconds * 1e6, seconds * 1e6, True, found.name)
    ids = frozenset(range(len(made.nests)))
    return replace(made.made({ids: group}, (log,)), program=s, is_measured=bool(found.seconds))
