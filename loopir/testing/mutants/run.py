"""Hunting: examples are drawn until one tells a mutant from the real thing, and made small; the results as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from statistics import median
from time import monotonic

from hypothesis import given, seed as seeded, settings, strategies as st
from hypothesis.errors import Flaky

from loopir.ir.grammar import Func, Loop, Stmt
from loopir.ir.layout.layouts import evaluate
from loopir.ir.printer import text
from loopir.ir.traverse.walk import bodies, free_vars, loops
from loopir.testing.checking import QUIET, Wrong
from loopir.testing.mutants.mutant import Hunt, Mutant

EXAMPLES = 2000
"""Within so many a mutant has to be found."""


@dataclass(frozen=True)
class Found:
    """The smallest case that was found, and after how many examples the first one was."""

    wrong: Wrong
    examples: int

    @property
    def loops(self) -> int:
        return len(tuple(loops(self.wrong.before.body)))

    @property
    def extent(self) -> int:
        return largest_extent(self.wrong.before, self.wrong.sizes)


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed where `found`, else survived, or equivalent as it says."""

    mutant: Mutant
    found: Found | None
    seconds: float

    @property
    def outcome(self) -> str:
        return "killed" if self.found else "equivalent" if self.mutant.equivalent else "survived"


def hunted(mutant: Mutant, *, examples: int = EXAMPLES, seed: int = 0, patience: float = 5.0) -> Result:
    """Hunt one mutant with `examples` from `seed` on; what is found is made small for `patience` seconds."""
    start = monotonic()
    with mutant.applied():
        found = search(mutant.hunt, examples, seed, patience)
    return Result(mutant, found, monotonic() - start)


def search(hunt: Hunt, examples: int, seed: int, patience: float) -> Found | None:
    """The smallest failure of `hunt`, None if none of `examples` fails."""
    failures: list[Wrong] = []
    drawn: list[int] = [0, 0]
    until: list[float] = []

    @seeded(seed)
    @settings(QUIET, max_examples=examples)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        if (until and monotonic() > until[0]) or (not failures and drawn[0] == examples):
            return
        drawn[0] += not failures
        try:
            hunt(data)
        except Wrong as wrong:
            failures.append(wrong)
            until[:] = until or [monotonic() + patience]
            raise

    with suppress(Wrong, Flaky):  # Flaky without a failure: more was to be drawn when all examples had been
        run()
    return Found(min(failures, key=_mutant_size), drawn[0]) if failures else None


def parts(mutants: Sequence[Mutant], cases: int, seed: int) -> list[tuple[Hunt, int, int]]:
    """The hunts of `mutants` with `cases` examples in all: each with how many, and from which seed on."""
    hunts = list(dict.fromkeys(m.hunt for m in mutants))
    return [
        (hunt, min(EXAMPLES, mine - start), seed + start)
        for n, hunt in enumerate(hunts)
        for mine in (cases // len(hunts) + (n < cases % len(hunts)),)
        for start in range(0, mine, EXAMPLES)
    ]


def clean(mutants: Sequence[Mutant], cases: int, seed: int, nth: int | None = None) -> tuple[list[str], int]:
    """Alarms of the hunts of `mutants` without their faults, in `cases` examples in all, and how many were drawn.

    What is wrong, and what a step does not survive, is an alarm: a bug of ours, or a false one. With `nth`, that part
    of them alone.
    """
    alarms: list[str] = []
    drawn = 0
    every = parts(mutants, cases, seed)
    for hunt, count, start in every if nth is None else every[nth : nth + 1]:
        found = search(hunt, count, start, patience=2.0)
        drawn += count if found is None else found.examples
        if found is not None:
            alarms.append(str(found.wrong))
    return alarms, drawn


def _mutant_size(wrong: Wrong) -> tuple[int, int, int, str]:
    found = Found(wrong, 0)
    return found.loops, found.extent, len(str(wrong)), str(wrong)


def largest_extent(func: Func, sizes: Mapping[str, int]) -> int:
    """How often the longest loop of `func` runs at `sizes`; a size that is not given counts as 1."""
    known = {n: sizes.get(n, 1) for n in func.sizes}
    found = [0]

    def visit(body: Iterable[Stmt], around: dict[str, int]) -> None:
        for s in body:
            if isinstance(s, Loop):
                outer = [v for v in around if v in free_vars(s.extent)]
                for at in product(*(range(around[v]) for v in outer)):
                    try:
                        found.append(evaluate(s.extent, {**known, **dict(zip(outer, at, strict=True))}))
                    except Exception:  # it is read from memory
                        found.append(1)
                visit(s.body, {**around, s.var: max(1, found[-1])})
            else:
                for inner in bodies(s):
                    visit(inner, around)

    visit(func.body, {})
    return max(found)


# ---------------------------------------------------------------- told


def describe_result(result: Result) -> str:
    """One result as a person reads it: the fault, and the smallest case."""
    m, found = result.mutant, result.found
    head = f"{result.outcome:10} {m.family}: {m.name}: {m.fault}"
    if found is None:
        return f"{head}\n    {m.equivalent}" if m.equivalent else head
    w = found.wrong
    at = f" at {', '.join(f'{k}={v}' for k, v in w.sizes.items())}" if w.sizes else ""
    lines = [head, f"{w.oracle}: {w.why.splitlines()[0] if w.why else ''}", f"{w.call.strip()}{at}", text(w.before)]
    size = f"after {found.examples} examples; {found.loops} loops, extent {found.extent}; {result.seconds:.1f} s"
    return "\n    ".join([line for part in lines for line in part.rstrip().splitlines()] + [size])


def summary(results: Iterable[Result]) -> str:
    """How many of each family were killed, and how small the cases are."""
    every = [*results]
    lines: list[str] = []
    for name in dict.fromkeys(r.mutant.family for r in every):
        mine = [r for r in every if r.mutant.family == name]
        count = {k: sum(r.outcome == k for r in mine) for k in ("killed", "survived", "equivalent")}
        lines.append(f"{name}: " + ", ".join(f"{n} {k}" for k, n in count.items()))
    found = [r.found for r in every if r.found]
    if found:
        most = max(f.examples for f in found)
        lines.append(
            f"{len(found)} of {sum(not r.mutant.equivalent for r in every)} killed; median repro "
            f"{median(f.loops for f in found):g} loops, extent {median(f.extent for f in found):g}; "
            f"found after {median(f.examples for f in found):g} examples, {most} at most"
        )
    return "\n".join(lines)


HEAD = """# Mutants

Faults put into loopir's own rules, one at a time, and hunted by the random programs, schedules and exact oracles that
its tests are made of. This file is written by

    python -m loopir.testing.mutants --table docs/mutants.md

which also prints the smallest program by which each was found.

"""


def table(results: Sequence[Result]) -> str:
    """The results as Markdown: for each mutant the fault, what became of it, and how small the case is."""
    lines = [HEAD]
    for name in dict.fromkeys(r.mutant.family for r in results):
        lines += [
            f"## {name[0].upper()}{name[1:]}\n",
            "| mutant | the fault | outcome | seen by | found after | repro |",
        ]
        lines.append("|---|---|---|---|---|---|")
        for r in results:
            if r.mutant.family == name:
                f = r.found
                what = (f.wrong.oracle, str(f.examples), f"{f.loops} loops, extent {f.extent}") if f else ("", "", "")
                cells = (r.mutant.name, r.mutant.fault, r.outcome, *what)
                lines.append(f"| {' | '.join(x.replace('|', '/') for x in cells)} |")
        lines.append("")
    return "\n".join([*lines, "## In all\n", *(f"- {x}" for x in summary(results).splitlines()), ""])
