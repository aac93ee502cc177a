"""What scheduling costs, every check on: each primitive on each program, a whole schedule, and the import.

    python benchmarks/scheduling.py [primitive ...] [--program NAME ...] [--repeats N] [--detail] [--write]

One row a primitive, two columns a program: constant sizes, and symbolic ones. A cell is, in milliseconds, the median of
calls that are taken (of those that are refused, if all are) and the worst of all calls, from all over what the nest
offers. `!` marks a median of 2 ms or more, or a worst of 20 ms or more, and all such cells are listed below the table;
`--detail` prints each call. Every call starts from a nest that no cache has met but the verifier's, as in the first
step on it. Times are the processor's, so that a busy machine does not tell, and what the modules hold is kept from the
garbage collector, whose passes over it are no step's. `--write` puts what is printed into results/scheduling.txt.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from tables import Record, commit, machine, writing

import loopir as lp
from loopir.arith.simplify import clear_caches
from loopir.ir.grammar import Alloc, Int, Load, Loop, Reduce
from loopir.ir.traverse.walk import leaf_paths, nodes, statements
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate import nests

MEDIAN_MS, WORST_MS = 2.0, 20.0
CALLS = 6
"""Calls that are taken, and calls that are refused, of a primitive on a program: at most so many of each."""


# ---------------------------------------------------------------- what is called


class Offer:
    """The names that a nest offers to a primitive."""

    def __init__(self, s: lp.Schedule) -> None:
        body = s.func.body
        self.loops = s.loops()
        self.stages = s.stages
        self.bands = [tuple(loop.var for loop in p.loops) for p in leaf_paths(body)]
        """The loops around each stage."""
        self.nested = [pair for band in self.bands for pair in pairwise(band)]
        """Loops that stand one directly in the other, as far as a stage goes."""
        self.sizes = s.func.sizes
        self.roots = [x.var for x in _tops(body)]
        """The outermost loops, in order."""
        self.own = [x.buffer.name for x in statements(body) if isinstance(x, Alloc)]
        """The buffers that are allocated."""
        self.reads = [(p.stmt.label, b) for p in leaf_paths(body) for b in dict.fromkeys(_loaded(p.stmt))]
        """Each stage with each buffer that it reads."""
        self.short = [x for x in self.loops if isinstance(s.loop(x).extent, Int)]
        self.stands = [(p.stmt.label, x.var) for p in leaf_paths(body) for x in p.loops]
        """Each stage with each loop around it."""
        self.folds = [(p.stmt.label, v) for p in leaf_paths(body) if isinstance(p.stmt, Reduce) for v in p.stmt.over]
        """Each reduction with each loop that it folds over."""
        self.later = [(a, v) for n, a in enumerate(self.stages) for band in self.bands[n + 1 : n + 3] for v in band]
        """Each stage with the loops of the two after it."""
        self.earlier = [(a, v) for n, a in enumerate(self.stages) for v in self.bands[n - 1] if n]
        """Each stage with the loops of the one before it."""
        self.ranks = {x.buffer.name: len(x.buffer.shape) for x in statements(body) if isinstance(x, Alloc)}


def _tops(body: Iterable[Any]) -> Iterator[Loop]:
    for s in body:
        if isinstance(s, Alloc):
            yield from _tops(s.body)
        elif isinstance(s, Loop):
            yield s


def _loaded(stmt: Any) -> Iterator[str]:
    return (n.buffer.name for n in nodes(stmt) if isinstance(n, Load))


def call(*args: object, **kwargs: object) -> tuple[tuple[object, ...], tuple[tuple[str, object], ...]]:
    return args, tuple(kwargs.items())


def layout(rank: int, at: str) -> str:
    """A layout as set_layout takes it: dimensions a, b, c ... at `at`."""
    return f"lambda {', '.join('abcdef'[:rank])}: ({at})"


TABLE: dict[str, Callable[[Offer], Iterable[Any]]] = {
    "split": lambda o: (call(x, f, tail=t) for x in o.loops for f, t in ((32, "guard"), (30, "guard"), (30, "peel"))),
    "fuse": lambda o: (call(*pair) for pair in o.nested),
    "reorder": lambda o: (call(*reversed(pair)) for band in o.bands for pair in combinations(band, 2)),
    "tile": lambda o: (call(*pair, f, f) for band in o.bands for pair in combinations(band, 2) for f in (32, 30)),
    "unroll": lambda o: map(call, o.loops),
    "vectorize": lambda o: map(call, o.short),
    "parallel": lambda o: map(call, o.loops),
    "bind": lambda o: (call(x, axis) for x in o.loops for axis in ("blockIdx.x", "threadIdx.x")),
    "rename": lambda o: (call(x, "fresh") for x in (*o.loops, *o.own, *o.stages)),
    "peel": lambda o: (call(x, **ends) for x in o.loops for ends in ({"first": 1}, {"last": 2})),
    "partition": lambda o: map(call, o.loops),
    "simplify": lambda o: (call(), *map(call, o.roots)),
    "specialize": lambda o: (call(x, f"{n} % 32 == 0") for x in o.roots for n in o.sizes),
    "skew": lambda o: (call(*pair, f) for pair in o.nested for f in (1, -2)),
    "wavefront": lambda o: (call(*pair) for pair in o.nested),
    "distribute": lambda o: map(call, o.loops),
    "fuse_loops": lambda o: (call(*pair, shift=by) for pair in pairwise(o.roots) for by in (0, 2)),
    "compute_inline": lambda o: map(call, o.stages),
    "reverse_compute_inline": lambda o: map(call, o.stages),
    "compute_at": lambda o: (call(*at) for at in o.later),
    "reverse_compute_at": lambda o: (call(*at) for at in o.earlier),
    "cache_read": lambda o: (call(*x, "local", at=v) for x in o.reads for stage, v in o.stands if stage == x[0]),
    "cache_write": lambda o: (call(stage, "local", at=v) for stage, v in o.stands),
    "set_scope": lambda o: (call(b, scope) for b in o.own for scope in ("local", "shared")),
    "set_layout": lambda o: (
        call(b, layout(rank, ", ".join(reversed("abcdef"[:rank])))) for b, rank in o.ranks.items()
    ),
    "fold_storage": lambda o: (call(b, d, f) for b, rank in o.ranks.items() for d in range(rank) for f in (3, 4)),
    "pad": lambda o: (call(stage, v) for stage, v in o.stands),
    "rfactor": lambda o: (call(*fold) for fold in o.folds),
    "stream_k": lambda o: (call(stage, *pair, 7) for stage, v in o.folds for pair in o.nested if pair[1] == v),
    "decompose_reduction": lambda o: (call(*at) for at in o.stands),
    "atomic": lambda o: map(call, o.stages),
    "unroll_and_jam": lambda o: (call(x, f) for x in o.loops for f in (2, 3)),
    "merge": lambda o: (call(*pair, side_by_side=beside) for pair in pairwise(o.roots) for beside in (False, True)),
    "hoist": lambda o: (call(*at) for at in o.stands),
    "compute_root": lambda o: map(call, o.stages),
    "reuse": lambda o: (call(new, old) for old, new in combinations(o.own, 2)),
    "privatize": lambda o: (call(b, v) for b in o.own for v in o.loops[:8]),
    "double_buffer": lambda o: (call(b, v) for b in o.own for v in o.loops[:8]),
    "pipeline": lambda o: (call(v, stages=3) for v in o.loops),
    "tensorize": lambda o: (call(x, "dp4a") for x in o.loops),
    "reorder_dims": lambda o: (call(b, *reversed(range(rank))) for b, rank in o.ranks.items() if rank > 1),
    "fuse_dims": lambda o: (call(b, d) for b, rank in o.ranks.items() for d in range(rank - 1)),
    "reindex": lambda o: (call(*x) for x in o.reads),
    "scan_blocks": lambda o: (call(v, 32) for v in o.loops),
    "multicast": lambda o: map(call, o.loops),
    "specialize_warps": lambda o: (call(v, stages=3) for v in o.loops),
    "prefetch": lambda o: (call(*x, v) for x in o.reads for stage, v in o.stands if stage == x[0]),
}
"""The calls of each primitive that are measured, spread over what the nest offers."""


# ---------------------------------------------------------------- on which programs


def tiled(s: lp.Schedule) -> lp.Schedule:
    """A matmul in three levels of tiles: for a block, for a thread, for a vector."""
    s = s.tile("i", "j", 128, 128).split("k", 16).reorder("i_o", "j_o", "k_o", "i_i", "j_i", "k_i")
    s = s.tile("i_i", "j_i", 32, 32).tile("i_i_i", "j_i_i", 8, 8)
    return s.reorder("i_i_i_o", "j_i_i_o", "k_i", "i_i_i_i", "j_i_i_i")


WRITTEN = {
    "scan": """
def scan({sizes}A: "float32[{m}, {n}]", S: "out float32[{m}, {n}]"):
    for r in range({m}):
        for i in range({n}):
            S[r, i] = select(1 <= i, S[r, i - 1], 0.0) + A[r, i]
""",
    "staged": """
def staged({sizes}A: "float32[{m}, {n}, 16, 32]", B: "out float32[{m}, 2, {n}, 16]"):
    for b in bind("blockIdx.x", {m}):
        for r in bind("cluster", 2):
            for k in range({n}):
                with alloc("float32[16, 32]", scope="shared") as T:
                    for p in range(2):
                        for i in range(8):
                            for j in range(32):
                                T[p * 8 + i, j] = A[b, k, p * 8 + i, j]
                    for l in bind("lane", 16):
                        B[b, r, k, l] = T[l, r]
""",
}
"""Nests for the primitives that want something special: running sums by rows; blocks of a cluster that copy to shared
memory what they share."""


def written(name: str, symbolic: bool) -> lp.Schedule:
    sizes = {"m": "m", "n": "n", "sizes": 'm: "size", n: "size", '} if symbolic else {"m": 512, "n": 64, "sizes": ""}
    return lp.Schedule(lp.parse(WRITTEN[name].format(**sizes)))


PROGRAMS = (*nests.NESTS, *WRITTEN)


def programs(symbolic: bool) -> dict[str, lp.Schedule]:
    make = nests.symbolic if symbolic else nests.constant
    found = {name: lp.Schedule(make(name)) for name in nests.NESTS}
    slid = found["blur"].compute_at("h", "i_1")
    more = {name: written(name, symbolic) for name in WRITTEN}
    return {**found, "matmul, tiled": tiled(found["matmul"]), "blur, slid": slid, **more}


# ---------------------------------------------------------------- how it is measured


@dataclass(frozen=True)
class Timed:
    """One call, its times in milliseconds, and whether it was taken."""

    step: Step
    ms: list[float]
    taken: bool


def cold(source: str) -> lp.Schedule:
    """The nest in objects of its own, which no cache has met, and nothing remembered of indices like its."""
    clear_caches()
    return lp.Schedule(lp.parse(source))


def attempt(s: lp.Schedule, step: Step) -> tuple[float, bool]:
    """Milliseconds, and whether the step was taken."""
    start = time.process_time()
    try:
        s.apply(step)
        taken = True
    except lp.ScheduleError:
        taken = False
    return (time.process_time() - start) * 1e3, taken


def timed(name: str, s: lp.Schedule, repeats: int) -> list[Timed]:
    """The calls of primitive `name` on the nest, measured."""
    steps = [Step(name, *arguments) for arguments in TABLE[name](Offer(s))]
    outcome = [attempt(s, step)[1] for step in steps]
    chosen = [
        (step, wanted)
        for wanted in (True, False)
        for step in spread([x for x, taken in zip(steps, outcome, strict=True) if taken == wanted], CALLS)
    ]
    source = lp.text(s.func)
    gc.collect()
    return [Timed(x, [attempt(cold(source), x)[0] for _ in range(repeats)], taken) for x, taken in chosen]


def spread(items: list[Step], count: int) -> list[Step]:
    """At most `count` of `items`, from all over."""
    return items if len(items) <= count else [items[n * (len(items) - 1) // (count - 1)] for n in range(count)]


@dataclass(frozen=True)
class Cell:
    """What a primitive costs on a program."""

    median: float
    worst: float
    slowest: Step

    @staticmethod
    def of(calls: list[Timed]) -> Cell | None:
        if not calls:
            return None
        taken = [c for c in calls if c.taken] or calls
        slowest = max(calls, key=lambda c: max(c.ms))
        return Cell(statistics.median(statistics.median(c.ms) for c in taken), max(slowest.ms), slowest.step)

    @property
    def over(self) -> bool:
        return self.median >= MEDIAN_MS or self.worst >= WORST_MS

    def __str__(self) -> str:
        return f"{self.median:6.2f} {self.worst:5.1f}{'!' if self.over else ' '}"


def table(names: list[str], nests: dict[str, lp.Schedule], asked: Options) -> Iterator[str]:
    """The rows, and the cells that are over a bound."""
    columns = {name: max(13, len(name) + 2) for name in nests}
    yield f"{'':24s}" + "".join(f"{p:>{width}s}" for p, width in columns.items())
    over: list[str] = []
    count = 0
    for name in names:
        row = {p: timed(name, s, asked.repeats) for p, s in nests.items()}
        cells = {p: Cell.of(calls) for p, calls in row.items()}
        yield f"{name:24s}" + "".join(str(c or "-").rjust(columns[p]) for p, c in cells.items())
        count += sum(c is not None for c in cells.values())
        over += [f"{name:24s} {p:24s} {c}  {c.slowest}" for p, c in cells.items() if c is not None and c.over]
        for p, calls in row.items() if asked.detail else ():
            for c in calls:
                how = "taken" if c.taken else "refused"
                yield f"    {p:24s} {statistics.median(c.ms):7.2f} {max(c.ms):7.2f}  {how:8s} {c.step}"
    yield f"\n{len(over)} cells over a bound, of {count}{', with the slowest call:' if over else ''}"
    yield from over


# ---------------------------------------------------------------- a whole schedule, and the import


def whole(f: Any) -> lp.Schedule:
    s = lp.Schedule(f).tile("i", "j", 64, 64).split("k", 16).reorder("i_o", "j_o", "k_o", "i_i", "k_i", "j_i")
    return s.split("j_i", 8).vectorize("j_i_i").parallel("i_o")


def whole_ms() -> float:
    times: list[float] = []
    for _ in range(20):
        start = time.process_time()
        whole(nests.constant("matmul"))
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times)


def import_ms() -> float:
    code = "import time; t = time.perf_counter(); import loopir; print((time.perf_counter() - t) * 1e3)"
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


class Options(argparse.Namespace):
    """What is asked for on the command line."""

    primitives: list[str]
    program: list[str] | None
    repeats: int
    detail: bool
    write: bool


def report(asked: Options) -> Iterator[str]:
    names = asked.primitives or [name for name in PRIMITIVES if name in TABLE]
    yield f"{machine()}, Python {platform.python_version()}, loopir {lp.__version__} at {commit()}"
    yield f"median and worst ms of a call; ! where the median reaches {MEDIAN_MS:g} or the worst {WORST_MS:g}\n"
    constant, symbolic = programs(False), programs(True)
    found: dict[str, lp.Schedule] = {}
    for name in sorted(constant, key=lambda x: PROGRAMS.index(x.split(",")[0])):
        if not asked.program or name.split(",")[0] in asked.program:
            found |= {name: constant[name], f"{name} [n]": symbolic[name]}
    gc.collect()
    gc.freeze()
    yield from table(names, found, asked)
    if not asked.primitives:
        left_out = sorted(PRIMITIVES.keys() - TABLE.keys())
        yield f"\nnot measured: {', '.join(left_out) or 'none'}"
        yield f"matmul made, Schedule and 5 steps: {whole_ms():.1f} ms; import loopir: {import_ms():.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("primitives", nargs="*", help="those to measure; all, if none is named")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="those to measure on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--detail", action="store_true", help="print each call")
    writing(parser)
    asked = parser.parse_args(namespace=Options())
    record = Record("scheduling.txt", asked.write)
    for line in report(asked):
        record(line)
    record.done(None)


if __name__ == "__main__":
    main()
