"""`python -m loopir.testing.acceptance`: how many of the steps that `schedules` draws are accepted, by primitive.

A step that is refused tries a refusal and leaves the program as it was; the rules that rewrite are tried only by what
is accepted. So arguments are drawn until a primitive accepts them, most of the time, and this counts how well that
does. Each primitive is drawn as the fuzz run draws it, on programs of all kinds.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import given, seed as seeded, settings, strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.checking import QUIET
from loopir.testing.fuzz import themed
from loopir.testing.generate.steps import Crash, schedules

ROUND = 20
"""Programs drawn from one seed: few, as those of one seed are alike."""


class Share(NamedTuple):
    """Steps of a primitive that were tried, those accepted, and the reasons why the others were not."""

    tried: int
    accepted: int
    why: Counter[str]

    def __str__(self) -> str:
        return f"{100 * self.accepted / max(1, self.tried):.0f} %"


def acceptance(programs: int = 60, seed: int = 0, primitives: Iterable[str] | None = None) -> dict[str, Share]:
    """By primitive, the steps tried and those accepted, on `programs` programs each, and why the others were not."""
    tried: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    why: dict[str, Counter[str]] = {}
    names = sorted(PRIMITIVES if primitives is None else primitives)

    def refused(func: Func, step: Step, error: ScheduleError) -> None:
        tried[step.name] += 1
        why.setdefault(step.name, Counter())[error.reason] += 1

    def drawn(name: str, programs: int, start: str) -> None:
        @seeded(start)
        @settings(QUIET, max_examples=programs)
        @given(st.data())
        def run(data: st.DataObject) -> None:
            func, weighted = data.draw(themed(name))
            with suppress(Crash):
                s = data.draw(schedules(func, primitives=weighted, refused=refused))
                tried.update(step.name for step in s.trace)
                accepted.update(step.name for step in s.trace)

        run()

    for name in names:
        for start in range(0, programs, ROUND):
            drawn(name, min(ROUND, programs - start), f"{name} {seed} {start}")
    return {name: Share(tried[name], accepted[name], why.get(name, Counter[str]())) for name in names}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.acceptance", description=__doc__)
    parser.add_argument("--programs", type=int, default=100, help="programs for each primitive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--primitives", nargs="*", help="these only")
    parser.add_argument("--why", type=int, default=0, metavar="N", help="the N most frequent refusals of each, too")
    chosen: Any = parser.parse_args(argv)
    print("| primitive | steps | accepted |\n|---|---|---|")
    found = acceptance(chosen.programs, chosen.seed, chosen.primitives)
    for name, share in found.items():
        print(f"| {name} | {share.tried} | {share} |")
        for reason, count in share.why.most_common(chosen.why):
            print(f"    {count} {reason}")
    total, taken = sum(x.tried for x in found.values()), sum(x.accepted for x in found.values())
    print(f"| all | {total} | {100 * taken / max(1, total):.0f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
