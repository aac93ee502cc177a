"""What one simplification costs, over the indices and conditions that real schedules simplify.

    python benchmarks/simplify.py [--peers]

The lines of simplify_calls.txt (made by simplify_collect.py) are simplified as scheduling does it: in the order in
which they were met, those in one place in one Context, and the Contexts of a program grow out of each other. Every
repeat starts with nothing remembered. Prints one row a program: microseconds a call, the median and the worst line;
`again` is a call that the Context has answered before; then what one loop or guard of a Context costs. `--peers` adds
the same lines through sympy (`simplify`) and through isl (build the function, `gist` it in its domain), on every tenth
line that they can say, as times the cost here.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy

import loopir as lp
from loopir.arith.simplify import EMPTY, Context, clear_caches, simplify, simplify_cond
from loopir.ir.grammar import Add, And, Cmp, Cond, FloorDiv, Index, Int, Min, Mod, Mul, Var
from loopir.ir.traverse.walk import free_vars
from loopir.testing.oracles.isl_points import NotAffine, Points, read

CALLS = Path(__file__).with_name("simplify_calls.txt")
REPEATS = 25
Step = tuple[str, str | Cond, Index | None]
"""("for", loop, extent) or ("if", condition, None)."""


@dataclass(frozen=True)
class Place:
    """Where some calls stand: the program, what is known there, and what is simplified."""

    program: str
    steps: tuple[Step, ...]
    calls: tuple[Index | Cond, ...]

    def context(self) -> Context:
        ctx = EMPTY
        for kind, what, extent in self.steps:
            ctx = ctx.loop(str(what), extent) if kind == "for" else ctx.given(what)  # type: ignore[arg-type]
        return ctx


def step(source: str) -> Step:
    kind, rest = source.split(" ", 1)
    if kind == "for":
        var, extent = rest.split(" in ", 1)
        return kind, var, read(extent)  # type: ignore[return-value]
    return kind, read(rest), None  # type: ignore[return-value]


def places() -> Iterator[Place]:
    found: dict[tuple[str, ...], list[str]] = {}
    for line in CALLS.read_text().splitlines():
        *where, what = line.split(" | ")
        found.setdefault(tuple(where), []).append(what)
    for (program, *steps), calls in found.items():
        yield Place(program, tuple(map(step, steps)), tuple(read(c) for c in calls))


def call(x: Index | Cond, ctx: Context) -> Index | Cond:
    return simplify(x, ctx) if isinstance(x, Index) else simplify_cond(x, ctx)


def timed(fn: Callable[[], object]) -> float:
    start = time.perf_counter()
    fn()
    return (time.perf_counter() - start) * 1e6


def measure(program: list[Place]) -> tuple[list[float], list[float], list[float]]:
    """(first calls, calls again, steps of the contexts): the medians of the repeats."""
    first: list[list[float]] = [[] for p in program for _ in p.calls]
    again: list[list[float]] = [[] for p in program for _ in p.calls]
    contexts: list[list[float]] = [[] for _ in program]
    for _ in range(REPEATS):
        clear_caches()
        n = 0
        for at, p in enumerate(program):
            contexts[at].append(timed(p.context) / max(1, len(p.steps)))
            ctx = p.context()
            for x in p.calls:
                first[n].append(timed(lambda x=x, ctx=ctx: call(x, ctx)))
                again[n].append(timed(lambda x=x, ctx=ctx: call(x, ctx)))
                n += 1
    return tuple([statistics.median(t) for t in times] for times in (first, again, contexts))  # type: ignore


def row(name: str, first: list[float], again: list[float], contexts: list[float]) -> None:
    print(
        f"{name:22s} {len(first):6d} {statistics.median(first):10.1f} {max(first):8.1f} "
        f"{statistics.median(again):8.1f} {statistics.median(contexts):10.1f}"
    )


def peers(found: list[Place]) -> None:
    """The same lines through sympy and isl; a line that one cannot say is left out there."""
    lines = [(p, x) for p in found for x in p.calls][::10]
    for name, make in (("sympy simplify", by_sympy), ("isl gist", by_isl)):
        ratios: list[float] = []
        for p, x in lines:
            run = make(p, x)
            if run is not None:
                ctx = p.context()
                ours = timed(lambda x=x, ctx=ctx: call(x, ctx))
                ratios.append(timed(run) / ours)
        print(f"{name}: {statistics.median(ratios):.0f} times the cost here (median of {len(ratios)} lines)")


def by_sympy(p: Place, x: Index | Cond) -> Callable[[], object] | None:
    names: dict[str, Any] = {}

    def visit(ix: Any) -> Any:
        if isinstance(ix, Int):
            return sympy.Integer(ix.value)
        if isinstance(ix, Var):
            return names.setdefault(ix.name, sympy.Symbol(ix.name, integer=True, nonnegative=True))
        a, b = visit(ix.a), visit(ix.b)
        if isinstance(ix, Add | Mul):
            return a + b if isinstance(ix, Add) else a * b
        if isinstance(ix, FloorDiv | Mod):
            return sympy.floor(a / b) if isinstance(ix, FloorDiv) else sympy.Mod(a, b)
        return sympy.Min(a, b) if isinstance(ix, Min) else sympy.Max(a, b)

    return (lambda: sympy.simplify(visit(x))) if isinstance(x, Index) else None


def by_isl(p: Place, x: Index | Cond) -> Callable[[], object] | None:
    conds = [c for kind, c, _ in p.steps if isinstance(c, Cond)]
    for _, v, extent in p.steps:
        if extent is not None:
            conds += [Cmp("<=", Int(0), Var(str(v))), Cmp("<", Var(str(v)), extent)]
    points = Points(sorted(free_vars(And((*conds, Cmp("==", x, x) if isinstance(x, Index) else x)))))

    def run() -> object:
        domain = points.cond(And(tuple(conds)))
        return (points.index(x) if isinstance(x, Index) else points.cond(x)).gist(domain)

    try:
        run()
    except NotAffine:
        return None
    return run


def main() -> None:
    found = list(places())
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, loopir {lp.__version__}")
    print(f"{'us a call':22s} {'lines':>6s} {'median':>10s} {'worst':>8s} {'again':>8s} {'a step of':>10s}")
    total: tuple[list[float], ...] = ([], [], [])
    for program in dict.fromkeys(p.program for p in found):
        measured = measure([p for p in found if p.program == program])
        row(program, *measured)
        for all_, these in zip(total, measured, strict=True):
            all_ += these
    row("all", *total)
    if "--peers" in sys.argv:
        peers(found)


if __name__ == "__main__":
    main()
