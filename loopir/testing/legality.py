"""`python -m loopir.testing.legality --seconds N [--each N]`: what primitives refuse and accept, beside what is legal.

Steps are drawn on random affine programs. One that is refused is taken all the same, without its checks, and both
programs are run at every small size (`loopir.testing.oracles.brute_force`): where nothing changes, a legal step was
refused. One that is accepted is run, too. Where there is nothing to take, as the step is refused for its form alone,
nothing is counted but that. With `--each N` primitives take turns in `--jobs` processes, until each has so many
counted steps or the time is over. The table in docs/legality.md is made by `--write docs/legality.md`.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from hypothesis import given, seed as seeded, settings, strategies as st

from loopir.errors import LoopirError, ScheduleError
from loopir.ir.grammar import FloorDiv, Func, Int, Mod, Mul
from loopir.ir.printer import text
from loopir.ir.traverse.walk import nodes, replace_loop
from loopir.schedule.core.find import find_loop
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.checking import QUIET
from loopir.testing.generate.draws import between
from loopir.testing.generate.families import FAMILIES, FROM_MEMORY, documented, forms
from loopir.testing.generate.gpu_families import BOXES
from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.steps import arguments_of, schedules
from loopir.testing.generate.strategies import funcs
from loopir.testing.oracles.brute_force import first_violation, larger_sizes, observed, runs, small_sizes, tagged
from loopir.testing.oracles.unchecked import unchecked

Say = Callable[[str], object]
VERDICTS = ("accepted", "accepted, illegal", "refused", "refused, legal", "no rewrite", "crash", "slow")
BEFORE = ("split", "reorder", "fuse", "compute_at", "cache_read", "decompose_reduction", "distribute", "fuse_loops")
"""Steps that a program may have been through already."""
REPEATS = ("compute_at", "compute_inline", "split", "tile", "unroll_and_jam")
"""Steps that may let an instance run more often."""
JUDGED = tuple(sorted(PRIMITIVES))
ROUND_SECONDS = 4.0
"""About what a round for one primitive takes, while it is not known."""
AFFINE = tuple(name for name in FAMILIES if name not in (*FROM_MEMORY, *BOXES))


@dataclass
class Table:
    """How often each verdict was given on the steps of each primitive, and the cases that should not be."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    wrong: list[str] = field(default_factory=list[str])

    def judge(self, func: Func, step: Step) -> None:
        found, told = verdict(func, step)
        self.counts.setdefault(step.name, Counter())[found] += 1
        if found in ("accepted, illegal", "refused, legal", "crash"):
            self.wrong.append(f"{'=' * 20} {found}: {step.name}\n{text(func)}\n{step}\n{told}")

    def add(self, other: Table) -> None:
        for name, counts in other.counts.items():
            self.counts.setdefault(name, Counter()).update(counts)
        self.wrong += other.wrong

    def __str__(self) -> str:
        head = (
            "| primitive | tried | accepted | refused | legal but refused | illegal but accepted | no rewrite | crash |"
        )
        rows = [self.row(name) for name in sorted(self.counts)]
        total = self._row("all", sum(self.counts.values(), Counter[str]()))
        return "\n".join((head, "|---|---|---|---|---|---|---|---|", *rows, total))

    def counted(self, name: str) -> int:
        """How many steps of a primitive there was something to take of."""
        counts = self.counts.get(name, Counter[str]())
        return counts.total() - counts["no rewrite"]

    def row(self, name: str) -> str:
        return self._row(name, self.counts.get(name, Counter[str]()))

    @staticmethod
    def _row(name: str, n: Counter[str]) -> str:
        accepted, lost = n["accepted"] + n["accepted, illegal"], n["refused, legal"]
        share = f"{lost} ({100 * lost / (accepted + lost):.2f} %)" if lost else "0"
        cells = (
            name,
            n.total(),
            accepted,
            n["refused"] + lost,
            share,
            n["accepted, illegal"],
            n["no rewrite"],
            n["crash"],
        )
        return f"| {' | '.join(map(str, cells))} |"


Taken = Func | ScheduleError | str
"""What a step came to: a program, a refusal, or what was told of a crash."""


def verdict(func: Func, step: Step) -> tuple[str, str]:
    """One of VERDICTS on a step, and what was said or is broken."""
    return judge_taken(func, step, take(func, step))


def take(func: Func, step: Step) -> Taken:
    """Take a step: all that loopir itself does."""
    try:
        return _taken(func, step)
    except ScheduleError as error:
        return error
    except Exception:
        return traceback.format_exc()


def judge_taken(func: Func, step: Step, after: Taken) -> tuple[str, str]:
    """One of VERDICTS on what a step came to, and what was said or is broken."""
    if isinstance(after, ScheduleError):
        return _on_refusal(func, step, after)
    if isinstance(after, str):
        return "crash", after
    why = first_violation(func, after, small_sizes(func))
    return ("accepted", "") if why is None else ("accepted, illegal", f"{why}\n{text(after)}")


def _on_refusal(func: Func, step: Step, error: ScheduleError) -> tuple[str, str]:
    """On a step that was refused: what is broken where it is taken, in the program and in one that hides nothing."""
    sizes = [*small_sizes(func, error.witness), *larger_sizes(func)]
    after = _unchecked(func, step)
    told = [error.witness.sizes] if error.witness is not None and error.witness.sizes else []
    if after is None or not runs(func, sizes) or not all(runs(func, [dict(at)]) for at in told):
        return "no rewrite", ""
    for f in (func, tagged(func)):
        new = _unchecked(f, step)
        why = None if new is None else first_violation(f, new, sizes, once=step.name not in REPEATS, writers=True)
        if why is not None:
            return "refused", why
    return "refused, legal", f"{error}\n{text(after)}"


def _taken(func: Func, step: Step) -> Func:
    return PRIMITIVES[step.name](func, *step.args, **dict(step.kwargs))


def _unchecked(func: Func, step: Step) -> Func | None:
    """What the step makes of `func` without its checks; None if there is nothing that it could make.

    A wavefront promises that the iterations of its outer loop are independent, and so that loop is parallel here. Warps
    of their own copy ahead, which pipeline puts in an order.
    """
    if step.name == "specialize_warps":
        given = dict(zip(("loop", "stages"), step.args, strict=False)) | dict(step.kwargs)
        step = Step("pipeline", (given["loop"], given.get("stages", 2)), ())
    with unchecked():
        try:
            new = _taken(func, step)
            if step.name != "wavefront":
                return new
            return replace_loop(new, find_loop(func, str(step.args[0])).var, lambda s: replace(s, kind="parallel"))
        except (LoopirError, ValueError, LookupError, AssertionError, StopIteration, TypeError):
            return None


@st.composite
def programs(draw: st.DrawFn, theme: str) -> Func:
    """An affine program: one that `theme` is explained with, such as people schedule, of any form, or under guards.

    In half of them every stored value tells its iteration, and mostly they are as they were written.
    """
    kind = draw(between(0, 10))
    if kind < 2:
        func = draw(documented([theme], memory=False))
    elif kind < 5:
        func = draw(forms(AFFINE))
    else:
        func = observed(draw(funcs(memory=False, families=()))) if kind < 8 else draw(guarded())
    func = tagged(func) if draw(st.booleans()) else func
    then = draw(schedules(func, most=2, primitives=BEFORE)).func if not draw(between(0, 2)) else func
    return then if affine(then) else func


def affine(func: Func) -> bool:
    """Whether no index is multiplied or divided by what is no number, as those that `fuse` makes at two sizes are."""
    pairs = (n for n in nodes(func) if isinstance(n, Mul | FloorDiv | Mod))
    return all(isinstance(n.b, Int) or (isinstance(n, Mul) and isinstance(n.a, Int)) for n in pairs)


def measure(
    seconds: float, seed: int = 0, primitives: Sequence[str] = (), *, each: int = 12, examples: int = 20
) -> Table:
    """Rounds of `examples` programs from `seed` on, with `each` steps on every one, until `seconds` have gone by."""
    table, end = Table(), monotonic() + seconds
    names = sorted(primitives or JUDGED)
    while True:
        judge_round(table, names, seed, each, examples)
        seed += 1
        if monotonic() >= end:
            return table


def evenly(
    least: int, seconds: float, seed: int = 0, primitives: Sequence[str] = (), *, jobs: int = 1, say: Say = str
) -> Table:
    """Rounds for one primitive each, in `jobs` processes, until all have `least` counted steps or `seconds` are over.

    The one that the least time was spent on has the next, so that none waits for another that offers little to count.
    """
    table, end = Table(), monotonic() + seconds
    rounds = {name: count(seed) for name in sorted(primitives or JUDGED)}
    spent = dict.fromkeys(rounds, 0.0)
    under_way: dict[Future[tuple[Table, float]], str] = {}
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        while True:
            waiting = [name for name in rounds if table.counted(name) < least and monotonic() < end]
            while waiting and len(under_way) < jobs:
                name = min(waiting, key=lambda n: spent[n])
                under_way[pool.submit(judged, name, next(rounds[name]))] = name
                spent[name] += ROUND_SECONDS
            if not under_way:
                return table
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                name, (found, took) = under_way.pop(done), done.result()
                spent[name] += took - ROUND_SECONDS
                table.add(found)
                say(table.row(name))


def judged(name: str, seed: int) -> tuple[Table, float]:
    """One round for a primitive, and the seconds that it took."""
    table, start = Table(), monotonic()
    judge_round(table, [name], seed, 2, 50)
    return table, monotonic() - start


def judge_round(table: Table, names: Sequence[str], seed: int, each: int, examples: int) -> None:
    """Judge `each` steps, of primitives among `names`, on each of `examples` programs."""
    drawn: dict[tuple[Func, Step], None] = {}

    def draw(data: st.DataObject) -> None:
        turn = Random(data.draw(st.integers(0, 2**32)))
        theme, *rest = (turn.choice(names) for _ in range(1 + 2 * each // 3))
        func = data.draw(programs(theme))
        taken = [theme] * (each - len(rest)) + rest
        drawn.update({(func, Step(n, *_call(data.draw(arguments_of(PRIMITIVES[n], func))))): None for n in taken})

    seeded(seed)(settings(QUIET, max_examples=examples)(given(st.data())(draw)))()
    for func, step in drawn:
        table.judge(func, step)


def _call(drawn: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    return drawn[0], tuple(drawn[1].items())


def renewed(page: str, table: str) -> str:
    """`page` with `table` where it has its own."""
    return re.sub(r"(^\|.*\n)+", f"{table}\n", page, count=1, flags=re.MULTILINE)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.legality", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (0: one round)")
    parser.add_argument("--seed", type=int, default=0, help="the first round")
    parser.add_argument("--primitives", nargs="*", default=[], help="these only")
    parser.add_argument("--each", type=int, help="so many counted steps of every primitive, as far as SECONDS go")
    parser.add_argument("--jobs", type=int, default=1, help="with --each, processes at once")
    parser.add_argument("--cases", type=Path, help="a file for the cases that should not be")
    parser.add_argument("--write", type=Path, help="a page to put the table into, where its table is")
    chosen: Any = parser.parse_args(argv)
    if chosen.each is None:
        table = measure(chosen.seconds, chosen.seed, chosen.primitives)
    else:
        told = partial(print, file=sys.stderr, flush=True)
        table = evenly(chosen.each, chosen.seconds, chosen.seed, chosen.primitives, jobs=chosen.jobs, say=told)
    print(table)
    if chosen.cases:
        chosen.cases.write_text("\n".join(table.wrong))
    if chosen.write:
        chosen.write.write_text(renewed(chosen.write.read_text(), str(table)))
    return min(100, sum(n["accepted, illegal"] + n["crash"] for n in table.counts.values()))


if __name__ == "__main__":
    sys.exit(main())
