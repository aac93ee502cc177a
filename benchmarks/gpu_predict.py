"""What `Schedule.report` predicts beside what is measured, for the memory-bound kernels and products of matrices.

    python benchmarks/gpu_predict.py [--rows softmax,sum] [--parts] [--write]

The rows are those of gpu_memory.py, and products in float32 and bfloat16. `--parts` prints what each part of a kernel
would take alone, to see which of them is off.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import gpu_memory
import gpu_timing
import tables
import torch

import loopir as lp
from loopir import schedules

ROUNDS, REPEATS = 5, 10
ALLOWED = {"memory": 0.25, "matmul": 0.35}


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("--parts", action="store_true", help="print the seconds of every part")
    asked = parser.parse_args()
    wanted = tables.chosen(asked.rows)
    rows = list(gpu_memory.rows(wanted))
    record = gpu_timing.record("gpu_predict.txt", asked.write)
    record(f"{'kernel':34} {'predicted us':>12} {'measured us':>12} {'error':>7}  bound by")
    off: dict[str, list[float]] = {kind: [] for kind in ALLOWED}
    for kind, name, s, inputs in programs(rows, wanted):
        report, kernel = s.report(), s.build("cuda")
        run = partial(kernel, *inputs, out=(kernel(*inputs),))
        measured = gpu_timing.in_turns({"": run}, ROUNDS, REPEATS)[""]
        error = report.seconds / measured - 1
        off[kind].append(abs(error))
        bounds = ", ".join(dict.fromkeys(k.bound for k in report.kernels))
        record(f"{name:34} {report.seconds * 1e6:12.1f} {measured * 1e6:12.1f} {error:+7.0%}  {bounds}")
        if asked.parts:
            print(str(report).partition("\n")[2])
    for kind, errors in off.items():
        if errors:
            within, middle = sum(e <= ALLOWED[kind] for e in errors), statistics.median(errors)
            counted = f"{kind}: {within} of {len(errors)} within {ALLOWED[kind]:.0%}"
            record(f"{counted}; median {middle:.0%}, worst {max(errors):.0%}")
    record.done(None)


Program = tuple[str, str, lp.Schedule, tuple[torch.Tensor, ...]]
"""Which of ALLOWED it is held to, its name, and what runs on what."""


def programs(rows: list[gpu_memory.Row], wanted: list[str]) -> Iterator[Program]:
    """The rows of gpu_memory.py that are given, and the products that are wanted."""
    for row in rows:
        yield "memory", row.name, row.ours, row.inputs()
    for short, shape in (("f32", (4096, 4096, 4096)), ("bf16", (4096, 4096, 4096)), ("f32", (1024, 1024, 1024)),
                         ("bf16", (1024, 1024, 1024)), ("bf16", (8192, 1024, 16384))):  # fmt: skip
        name = f"matmul {short} {'x'.join(map(str, shape))}"
        if not wanted or any(w in name for w in wanted):
            yield "matmul", name, *product(short, *shape)


def product(short: str, m: int, n: int, k: int) -> tuple[lp.Schedule, tuple[torch.Tensor, ...]]:
    dtype, name = gpu_memory.DTYPES[short]
    A, B = lp.placeholder((m, k), name, name="A"), lp.placeholder((k, n), name, name="B")
    over = lp.reduce_axis(k, name="k")
    terms = lambda i, j: lp.cast(A[i, over], "float32") * lp.cast(B[over, j], "float32")  # noqa: E731
    C = lp.compute((m, n), lambda i, j: lp.sum(terms(i, j), axis=over), name="C").astype(name)
    inputs = gpu_memory.random(m, k, dtype=dtype), gpu_memory.random(k, n, dtype=dtype)
    return schedules.auto(lp.Schedule(C), "cuda"), inputs


if __name__ == "__main__":
    main()
