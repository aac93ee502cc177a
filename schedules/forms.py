"""Forms of a program, one of which is planned: arrays between convolutions as they are written, or with channels last.

Which is faster is not known before recipes for both are priced. In a small program all nests are, products with what
fills their borders and takes their sums. In a large one that would take too long; there the product that has the most
work, over all that differ in names alone, stands for all.
"""

from __future__ import annotations

from math import prod

import loopir as lp

from .common.nest_queries import extent
from .cuda.channels_last import channels_last
from .greedy import MOST_WHOLE, Greedy
from .nest_groups import Ids
from .planner import Planner


def in_faster_form(planner: Planner) -> Planner:
    """`planner`, or that of its program in the other form, if that is predicted to be faster."""
    program = channels_last(planner.program) if planner.target == "cuda" else planner.program
    if program is planner.program:
        return planner
    return min((planner, planner.in_form(program)), key=_seconds_of_form)


def _seconds_of_form(planner: Planner) -> float:
    """Seconds by which forms are compared: of all, in a small program; else of the product of the most work."""
    if len(planner.nests) <= MOST_WHOLE:
        greedy = Greedy(planner, (), [], len(planner.nests))
        greedy.begin(planner.singles(frozenset()))
        return sum(g.seconds for g in greedy.groups.values())
    group = heaviest_product(planner)
    found = planner.price_below(group, 2) or planner.price(group) if group else None
    return 0.0 if found is None else found.seconds


def heaviest_product(planner: Planner) -> Ids:
    """The product of the most work, with what fills its borders and its reader; of those that differ in names alone the
    work is added. No nests where there is no product with a reader of its own."""
    start = planner.singles(frozenset())
    greedy = Greedy(planner, (), [], 0)
    fills, work, groups = greedy.fills(start), dict[str, float](), dict[str, Ids]()
    for a, b in greedy.read_by_one(start):
        view = planner.found(a).view
        if view.products and not planner.found(b).view.folds:
            key = planner.key(a)
            terms = (extent(view.schedule, x) or lp.TYPICAL_SIZE for x in view.schedule.loops(view.products[0]))
            work[key] = work.get(key, 0.0) + prod(terms)
            groups.setdefault(key, b.union(a, *fills.get(a, ())))
    return groups[max(work, key=lambda x: work[x])] if work else frozenset()
