"""Every recipe whose price is compared for a product, measured: whether the cheapest by prediction is the fastest.

    python benchmarks/gpu_candidates.py [--rows few,int8] [--workers 14] [--write]

The rows are those of gpu_matmul.py and gpu_fused.py for which `schedules.auto` compares recipes by price. Several
processes compile every candidate first; each is then checked against torch in float64, and the candidates of a row are
timed in turns. Printed for each: microseconds predicted and measured, and of each row what the choice costs over the
fastest. The last line is the mean and the worst of that, and the median error of the predictions.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import gpu_fused
import gpu_matmul
import gpu_timing
import tables
import torch

import loopir as lp
import schedules
from schedules import Candidate

ROUNDS = 5
LIMIT = 1e-2
"""The largest difference from float64 that is right, of the largest magnitude."""


def compared(s: lp.Schedule) -> tuple[lp.Schedule, list[Candidate]]:
    """What `schedules.auto` gives of `s`, and all candidates that it compared by price, each once."""
    found: dict[str, Candidate] = {}

    def seen(candidates: Sequence[Candidate], _: Candidate) -> None:
        for c in candidates:
            found.setdefault(str(c.schedule.func), c)

    chosen = schedules.auto(s, "cuda", observer=seen)
    found.setdefault(str(chosen.func), Candidate("auto", chosen, lp.predict(chosen, "cuda").seconds))
    whole = [c for c in found.values() if c.schedule.func.args == chosen.func.args]  # others are of a part of it
    return chosen, whole


def programs() -> dict[str, Any]:
    """The rows of both tables, by name."""
    return {x.name: x for x in (*gpu_matmul.rows(), *gpu_fused.ROWS)}


def schedule(row: Any) -> lp.Schedule:
    """The program of a row of either table."""
    if hasattr(row, "given"):
        return lp.Schedule(row.ours(*(lp.placeholder(*x, name=f"x{n}") for n, x in enumerate(row.given))))
    return row.ours()


def build(name: str) -> tuple[str, lp.Schedule, list[Candidate]]:
    """What is chosen for the row `name`, and the candidates, compiled into the cache."""
    chosen, candidates = compared(schedule(programs()[name]))
    for c in candidates:
        c.schedule.build("cuda")
    return name, chosen, candidates


def main() -> int:
    parser = tables.options(__doc__)
    parser.add_argument("--workers", type=int, default=14)
    asked = parser.parse_args()
    wanted = tables.chosen(asked.rows)
    rows = programs()
    names = [x for x in rows if not wanted or any(w in x for w in wanted)]
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        several = [x for x in pool.map(build, names) if len(x[2]) > 1]
    record = gpu_timing.record("gpu_candidates.txt", asked.write)
    record(f"{'microseconds':72} predicted  measured   error")
    costs: list[float] = []
    errors: list[float] = []
    for name, chosen, candidates in several:
        row = rows[name]
        inputs, want = given(row)
        kernels = [c.schedule.build("cuda") for c in candidates]
        for c, kernel in zip(candidates, kernels, strict=True):
            wrong = off(kernel(*inputs), want)
            if not wrong <= LIMIT:
                record(f"{row.name}: {c.name}: WRONG by {wrong:.1e}")
                record.done(None)
                return 1
        out = kernels[0](*inputs)
        runs = {str(n): partial(k, *inputs, out=(out,)) for n, k in enumerate(kernels)}
        taken = gpu_timing.in_turns(runs, ROUNDS)
        picked = str(chosen.func)
        record(row.name)
        at = None
        for n, c in enumerate(candidates):
            mark = "*" if str(c.schedule.func) == picked else " "
            at = n if mark == "*" else at
            errors.append(c.seconds / taken[str(n)] - 1)
            record(f"  {mark} {c.name[:68]:68} {c.seconds * 1e6:9.1f} {taken[str(n)] * 1e6:9.1f} {errors[-1]:+7.0%}")
        if at is not None:
            costs.append(taken[str(at)] / min(taken.values()))
            record(f"    {costs[-1]:.3f} x the fastest")
    mean = math.exp(statistics.fmean(map(math.log, costs)))
    record(
        f"choices of {len(costs)} products: {mean:.3f} x the fastest, worst {max(costs):.3f}; "
        f"{len(errors)} predictions, median error {statistics.median(map(abs, errors)):.0%}"
    )
    record.done(None)
    return 0


def given(row: Any) -> tuple[list[Any], Any]:
    """Random inputs of a row, and what torch makes of them in float64."""
    if hasattr(row, "given"):
        inputs = [gpu_fused.made(*x) for x in row.given]
    else:
        inputs = [torch.randn(*s, device="cuda", dtype=getattr(torch, row.dtype)) for s in row.shapes()]
    return inputs, row.torch(*(x.double() if x.is_floating_point() else x for x in inputs))


def off(got: Any, want: Any) -> float:
    return float((got.double() - want.double()).abs().max() / want.double().abs().max())


if __name__ == "__main__":
    sys.exit(main())
