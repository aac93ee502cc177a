"""How long `schedules.plan` and `schedules.auto` take: whole programs, chains that grow, and single kernels.

    python benchmarks/planning.py [--rows layers,chain] [--repeats 3] [--write]

Seconds are of the processor, the least of `--repeats` runs on new programs, after one run that imports what is needed.
Each plan is of a program that no cache has seen. For chains and layers the growth says how much longer `auto` takes for
the program of twice the length. No GPU is needed: schedules are for an H200, but where they are for this machine's CPU.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import gpu_plans
import memory_rows
import named_programs
import tables

import loopir as lp
import schedules

ARCH, HEADS, TOKENS, WIDTH = "sm_90a", 8, 2048, 1024
given = gpu_plans.given


def layers(count: int) -> list[Any]:
    """Transformer layers one after the other, the sums between them stored."""
    bf, each = gpu_plans.BF, WIDTH // HEADS
    x = given("x", TOKENS, WIDTH, dtype=bf)
    for n in range(count):
        normed = gpu_plans.rms(x, given(f"g{n}", WIDTH, dtype=bf))
        weights = [given(f"{name}{n}", WIDTH, WIDTH, dtype=bf) for name in "qkvo"]
        q, k, v = (
            lp.transpose(lp.reshape(normed @ w, (TOKENS, HEADS, each)), (1, 0, 2)) for w in weights[:3]
        )  # fmt: skip
        scores = (q @ lp.transpose(k, (0, 2, 1))).astype(gpu_plans.F32) * each**-0.5
        heard = lp.transpose(lp.softmax(scores).astype(bf) @ v, (1, 0, 2))
        x = (x + lp.reshape(heard, (TOKENS, WIDTH)) @ weights[3]).named(f"h{n}")
        wide = lp.gelu(gpu_plans.rms(x, given(f"f{n}", WIDTH, dtype=bf)) @ given(f"u{n}", WIDTH, 4 * WIDTH, dtype=bf))
        x = (x + wide @ given(f"d{n}", 4 * WIDTH, WIDTH, dtype=bf)).named(f"x{n}")
    return [x]


def rows(count: int) -> list[Any]:
    """Stages along rows, each a maximum and what is left without it."""
    x = given("x", 4096, 4096)
    for n in range(count):
        x = (x - lp.max(x, axis=1, keepdims=True)).named(f"x{n}")
    return [x]


def largest(count: int) -> list[Any]:
    """The largest of each row, and where they are."""
    return list(lp.topk(given("x", 4096, 1024), count))


def largest_two() -> list[Any]:
    """The sum of the two largest of each row, by a sort."""
    return [lp.sum(lp.sort(given("a", 1024, 1024))[:, -2:])]


def attention(depth: int) -> list[Any]:
    q, k, v = (given(name, HEADS, TOKENS, depth, dtype=gpu_plans.BF) for name in "qkv")
    scores = (q @ lp.transpose(k, (0, 2, 1))).astype(gpu_plans.F32) * depth**-0.5
    return [lp.softmax(scores).astype(gpu_plans.BF) @ v]


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    "transformer block": gpu_plans.block,
    **{f"attention of {d}": lambda d=d: attention(d) for d in (64, 128)},
    "sum of what is sorted": largest_two,
    **{f"layers, {n}": lambda n=n: layers(n) for n in (4, 8, 16)},
    **{f"chain of row stages, {n}": lambda n=n: rows(n) for n in (4, 8, 16, 32)},
    **{f"largest of rows, {n}": lambda n=n: largest(n) for n in (4, 8)},
    **{f"layers for a CPU, {n}": lambda n=n: layers(n) for n in (4, 8, 16)},
}


def least(repeats: int, make: Callable[[], lp.Schedule], run: Callable[[lp.Schedule], object]) -> float:
    """The least seconds of the processor that `run` takes on what `make` gives."""
    found: list[float] = []
    for _ in range(repeats):
        s = make()
        begun = time.process_time()
        run(s)
        found.append(time.process_time() - begun)
    return min(found)


def single_kernels() -> dict[str, Callable[[], lp.Schedule]]:
    """Programs that `auto` makes one kernel of: the suite's named ones, and the rows of the memory-bound table."""
    found: dict[str, Callable[[], lp.Schedule]] = {}
    for name, p in named_programs.PROGRAMS.items():
        for how, sizes in (("constant", p.fits), ("symbolic", ())):
            found[f"{name}, {how}"] = lambda p=p, sizes=sizes: p.schedule(*sizes)
    for row in memory_rows.rows():
        found[row.name] = lambda row=row: row.ours(symbolic=False)
    return found


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    wanted, record = tables.chosen(asked.rows), tables.Record("planning.txt", asked.write)

    def auto(s: lp.Schedule, target: str = "cuda", arch: str | None = ARCH) -> lp.Schedule:
        return schedules.auto(s, target, arch=arch)

    auto(lp.Schedule(gpu_plans.statistics()))
    record(f"commit {tables.commit()}; {tables.machine()}; seconds of the processor, least of {asked.repeats}")
    record(f"{'program':28} {'nests':>5} {'plan s':>7} {'auto s':>7} {'growth':>6}")
    before: tuple[str, float] = "", 0.0
    for name, program in PROGRAMS.items():
        if wanted and not any(w in name for w in wanted):
            continue
        target, arch = ("llvm", None) if "CPU" in name else ("cuda", ARCH)
        planned, took = (
            least(asked.repeats, lambda program=program: lp.Schedule(program()), partial(f, target=target, arch=arch))
            for f in (schedules.plan, auto)
        )
        kind = name.rpartition(",")[0]
        growth = f"{took / before[1]:6.2f}" if kind and kind == before[0] else ""
        before = kind, took
        record(f"{name:28} {len(lp.nests(lp.Schedule(program()).func)):5} {planned:7.3f} {took:7.3f} {growth}")
    times: dict[str, float] = {}
    for name, make in single_kernels().items():
        if (not wanted or any(w in name for w in wanted)) and lp.predict(auto(make()), "cuda", arch=ARCH).kernels == 1:
            times[name] = least(asked.repeats, make, auto)
    if times:
        slowest = sorted(times, key=lambda x: -times[x])[:5]
        record(f"auto on {len(times)} single kernels: median {statistics.median(times.values()) * 1e3:.0f} ms; slowest "
               + ", ".join(f"{x} {times[x] * 1e3:.0f}" for x in slowest))  # fmt: skip
    record.done(None)


if __name__ == "__main__":
    main()
