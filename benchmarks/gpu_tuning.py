"""`schedules.tune` on forty GPU programs that no table has, each beside what `schedules.auto` makes of it.

    python benchmarks/gpu_tuning.py [--products 20] [--memory 20] [--budget 35] [--workers 12] [--seconds 140] [--write]

Programs are drawn from families of wide_programs.py. Several processes schedule and compile; a lock lets one at a time
on the GPU. Of each program the choice of `auto` and that of the tuner are compared with torch in float64 on fresh
random inputs, and raced in rounds that had no part in choosing, the L2 cache emptied before every run. `--plan` prints
what would be tried, compiled, and needs no GPU. Programs that do not end in `--seconds` are listed without a figure.
"""

from __future__ import annotations

import argparse
import fcntl
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tables
from gpu_wide import off, several, tensors
from loopir.schedules.auto import choose_by_formula
from loopir.schedules.tuning.measure import ask_worker
from loopir.schedules.tuning.records import canonical
from wide_programs import FAMILIES, Program

import loopir as lp
from loopir import schedules

PRODUCTS = ("few_rows", "typed", "odd", "batched", "deep", "siblings", "gated", "quantized", "integers", "mlp")
MEMORY = ("chain", "softmax", "permute", "columns", "layernorm", "outputs", "stencil", "pool", "adamw", "causal_conv")
SEED = 25
MOST_BYTES, LEAST_BYTES = 96 << 20, 1 << 20
"""Of the inputs of a program: what is larger takes too long to copy, and what is smaller measures a launch."""
ROUNDS = 21
TWICE = 'def f(x: "float32[1]", y: "out float32[1]"):\n    y[0] = x[0] * 2.0\n'


def drawn(names: tuple[str, ...], count: int) -> list[Program]:
    """`count` programs, of one family after the other."""
    found: list[Program] = []
    for k in range(count):
        name = names[k % len(names)]
        tries = (FAMILIES[name](random.Random(f"{SEED} {name} {k} {n}")) for n in range(1000))
        found.append(next(p for p in tries if LEAST_BYTES <= sum(x.bytes for x in p.inputs) <= MOST_BYTES))
    return found


def all_drawn(products: int, memory: int) -> list[Program]:
    """Products and memory-bound programs in turn, so that a run that is cut short has both."""
    lists = [drawn(PRODUCTS, products), drawn(MEMORY, memory)]
    return [x[k] for k in range(max(products, memory)) for x in lists if k < len(x)]


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """Nothing else that asks is on the GPU meanwhile."""
    with open(Path(folder) / "gpu.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class OneAtATime(Executor):
    """Compiles what a question holds, then has it answered while no other process measures.

    The process that answers, and its context on the GPU, are made before.
    """

    def __init__(self, folder: str, arch: str) -> None:
        self.folder, self.arch, self.seen = folder, arch, set[str]()
        self._max_workers = 1
        job = {"program": "", "reference": TWICE, "sizes": [], "target": "cuda", "arch": None, "threads": None}
        ask_worker({**job, "tolerance": 1e-6, "what": "check", "nests": [], "rounds": 1}, 60.0)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        job: Mapping[str, Any] = args[0]
        for text in {job["reference"], *job["nests"]} - self.seen:
            self.seen.add(text)
            with suppress(lp.LoopirError):  # which the process that measures names
                lp.compile_source(lp.Schedule(lp.parse(text)), arch=self.arch)
        future: Future[Any] = Future()
        with alone(self.folder):
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)
        return future


def raced(first: Any, second: Any, program: Program) -> tuple[float, float, float, float]:
    """Seconds of both, the median of first by second, and how far the worse result is off, 1 allowed."""
    import torch  # noqa: PLC0415

    given = tensors(torch, program)
    wrong = max(off(torch, program, several(k(*given)), given) for k in (first, second))
    times: list[tuple[float, float]] = []
    with first.timer(*given) as a, second.timer(*given) as b:
        for n in range(ROUNDS + 3):
            x, y = (a(), b()) if n % 2 else (b(), a())[::-1]
            times.append((x, y))
    times = times[3:] if first is not second else [(x, x) for x, _ in times[3:]]
    median = statistics.median
    return median(x for x, _ in times), median(y for _, y in times), median(x / y for x, y in times), wrong


def measured(number: int, counts: tuple[int, int], budget: float, folder: str) -> dict[str, Any]:
    """One program: what tuning gained, and whether both results are right."""
    program = all_drawn(*counts)[number]
    row: dict[str, Any] = {"number": number, "name": f"{program.family} {program.name}"}
    row["kind"] = "product" if program.family in PRODUCTS else "memory"
    try:
        gpu = lp.local_machine()
        arch = gpu.arch if gpu is not None else "sm_90a"
        s = canonical(program.schedule())
        executor = OneAtATime(folder, arch)
        begun = time.monotonic()
        found = schedules.tune(s, "cuda", "quick", budget_s=budget, executor=executor, database=folder, progress=False)
        row |= {"choice": found.name, "spent": time.monotonic() - begun, "measured": found.measured}
        row["lost"] = [f"{name}: {outcome}: {said}" for name, outcome, _, said in found.rows if outcome != "ok"]
        ratios = [r for _, outcome, r, _ in found.rows if outcome == "ok"]
        row["best"] = 1.0 / min(ratios, default=1.0)
        auto = choose_by_formula(s, "cuda")
        kernels = [auto.build("cuda")] * 2
        if lp.text(found.schedule.func) != lp.text(auto.func):
            kernels[1] = found.schedule.build("cuda")
        with alone(folder):
            row["auto"], row["tuned"], row["gain"], row["off"] = raced(kernels[0], kernels[1], program)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
    return row


def planned(number: int, counts: tuple[int, int], arch: str) -> str:
    """What would be tried for a program, each candidate compiled."""
    from loopir.schedules.tuning.candidates import FIRST, Candidate, NoCandidate, Space  # noqa: PLC0415

    program = all_drawn(*counts)[number]
    begun = time.monotonic()
    space = Space(canonical(program.schedule()), "cuda", arch, {})
    made = [*space.plans(), *(space.made(FIRST, v) for v in space.neighbours(FIRST, {}))]
    lines = [f"{program.family} {program.name}: {sum(isinstance(x, Candidate) for x in made)} candidates"]
    for x in made:
        if isinstance(x, NoCandidate):
            lines.append(f"    {x.label}: {x.said}")
        elif x is not None:
            source = lp.compile_source(lp.Schedule(lp.parse(x.text)), arch=arch)
            spilled = sum(r.spill_stores for r in source.resources.values())
            lines.append(f"    {x.label}: {x.seconds * 1e6:.1f} us predicted, {spilled} bytes spilled")
    return "\n".join([f"{lines[0]}, {time.monotonic() - begun:.1f} s", *lines[1:]])


def lines_of(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{'program':60s}{'auto us':>9s}{'tuned us':>9s}{'gain':>7s}{'tried':>6s}{'off':>6s}  choice"
    for r in sorted(rows, key=lambda r: (r["kind"], r["number"])):
        if "gain" not in r:
            yield f"{r['name'][:59]:60s}  {r.get('error', 'not ended')}"
            continue
        times = f"{r['auto'] * 1e6:9.1f}{r['tuned'] * 1e6:9.1f}{r['gain']:7.3f}{r['measured']:6d}{r['off']:6.2f}"
        yield f"{r['name'][:59]:60s}{times}  {r['choice']}{'  WRONG' if r['off'] > 1 else ''}"
        yield from (f"    {x[:110]}" for x in r["lost"] if ": failed:" not in x)
    for kind in ("product", "memory"):
        mine = [r for r in rows if r["kind"] == kind and "gain" in r]
        if mine:
            gains = [r["gain"] for r in mine]
            close = sum(max(r["gain"], r["best"]) <= 1.03 for r in mine)
            yield (
                f"{kind}: {len(mine)} programs, geometric mean {statistics.geometric_mean(gains):.3f}, least "
                f"{min(gains):.3f}, most {max(gains):.3f}; auto within 3 % of the best found at {close}; "
                f"{sum(r['measured'] for r in mine)} candidates, {sum(r['off'] > 1 for r in mine)} programs wrong, "
                f"{statistics.median(r['spent'] for r in mine):.0f} s each"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=20)
    parser.add_argument("--memory", type=int, default=20)
    parser.add_argument("--budget", type=float, default=35.0, help="seconds of one program, waits for the GPU included")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=140.0, help="of the whole run")
    parser.add_argument("--plan", default="", help="print the candidates for this architecture")
    tables.writing(parser)
    asked = parser.parse_args()
    counts = asked.products, asked.memory
    start, names = time.monotonic(), [f"{p.family} {p.name}" for p in all_drawn(*counts)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOOPIR_TUNING_DIR"] = folder
        pool = ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn"))
        if asked.plan:
            for said in pool.map(planned, range(len(names)), [counts] * len(names), [asked.plan] * len(names)):
                print(said, flush=True)
            return
        futures = [pool.submit(measured, n, counts, asked.budget, folder) for n in range(len(names))]
        done, _ = wait(futures, timeout=asked.seconds - (time.monotonic() - start))
        rows: list[dict[str, Any]] = []
        for n, future in enumerate(futures):
            kind = "product" if names[n].split()[0] in PRODUCTS else "memory"
            row: dict[str, Any] = {"number": n, "name": names[n], "kind": kind}
            try:
                rows.append(future.result() if future in done else row)
            except Exception as error:  # the process died
                rows.append(row | {"error": f"{type(error).__name__}: {error}"})
        record = tables.Record("gpu_tuning.txt", asked.write)
        record(f"commit {tables.commit()}; {len(names)} programs in {time.monotonic() - start:.0f} s")
        for line in lines_of(rows):
            record(line)
        record.done(None)
        sys.stdout.flush()
        for process in multiprocessing.active_children():
            process.kill()
    os._exit(any(r.get("off", 0.0) > 1 for r in rows))


if __name__ == "__main__":
    main()
