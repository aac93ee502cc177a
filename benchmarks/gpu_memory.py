"""Memory-bound kernels on the GPU beside torch eager and torch.compile, in one run on one GPU.

    python benchmarks/gpu_memory.py [--rows gelu,softmax] [--no-compile] [--write]

Each row is checked against torch in float64 before it is timed, sums on integers, where they are exact; then the three
are timed in turns, on random numbers, and medians are taken. Printed: TB/s of the compulsory bytes (inputs once,
outputs once), the share of a device-to-device copy that was measured in the same run, and how many times as fast as
eager and as torch.compile it is.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gpu_timing
import prepared
import tables
import torch
import torch.nn.functional as F

import loopir as lp

ROUNDS, REPEATS = 7, 20
DTYPES = {"f32": (torch.float32, "float32"), "bf16": (torch.bfloat16, "bfloat16")}


@dataclass(frozen=True)
class Row:
    """One kernel: what we compute, what torch computes, on which inputs."""

    name: str
    ours: lp.Schedule
    torch: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    checked_with: Callable[[], tuple[Any, ...]]
    bytes: int
    tolerance: float


def rows(wanted: list[str]) -> Iterator[Row]:
    chosen = prepared.rows(wanted)
    for row, ours in zip(chosen, prepared.prepared([(row, False) for row in chosen]), strict=True):
        dtype = getattr(torch, row.dtype)
        loose = 0.0 if row.kernel == "transpose" else tolerance(dtype)
        loose = torch.finfo(dtype).eps / 2 if row.summed else loose  # exact, but for the type of the result
        yield Row(
            row.name,
            ours,
            BY_TORCH[row.kernel],
            lambda shapes=row.shapes, dtype=dtype: tuple(random(*shape, dtype=dtype) for shape in shapes),
            lambda row=row, dtype=dtype: gpu_timing.checked_with(row, dtype),
            row.bytes,
            loose,
        )


# ---------------------------------------------------------------- the same by torch


def torch_rmsnorm(x: Any, w: Any) -> Any:
    wide = x.float() if x.dtype == torch.bfloat16 else x
    return (wide * torch.rsqrt((wide**2).mean(-1, keepdim=True) + 1e-6) * w).to(x.dtype)


BY_TORCH: dict[str, Callable[..., Any]] = {
    "gelu": lambda x: x * 0.5 * (1.0 + torch.tanh(x * 0.7978845608028654 + x * x * x * 0.044715 * 0.7978845608028654)),
    "sin^2+cos^2": lambda x: torch.sin(x) ** 2 + torch.cos(x) ** 2,
    "add": lambda x: x + 2,
    "transpose": lambda x: x.t().contiguous(),
    "scale+bias+relu": lambda x, s, b: torch.relu(x * s + b),
    "softmax": lambda x: F.softmax(x, -1),
    "layernorm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rmsnorm": torch_rmsnorm,
    "row sum": lambda x: x.sum(1),
    "column sum": lambda x: x.sum(0),
    "full sum": lambda x: x.sum(),
    "jacobi": lambda u: 0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]),
}


# ---------------------------------------------------------------- measuring


def random(*shape: int, dtype: Any) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def tolerance(dtype: Any) -> float:
    """Of the largest magnitude there is: a few units in the last place."""
    return 8 * torch.finfo(dtype).eps


def error(row: Row, got: Any, inputs: tuple[Any, ...]) -> float:
    """The largest difference from torch in float64, as a share of the largest magnitude."""
    want = row.torch(*(x.double() for x in inputs)).double()
    if not torch.isfinite(got).all():
        return math.inf
    return float((got.double() - want).abs().max() / want.abs().max().clamp(min=1e-30))


def measure(row: Row, compiled: bool) -> tuple[dict[str, float], float]:
    kernel = row.ours.build("cuda")
    inputs = row.checked_with()
    wrong = error(row, kernel(*inputs), inputs)
    if not wrong <= row.tolerance:
        raise SystemExit(f"{row.name}: off by {wrong:.2e} of the largest value, and {row.tolerance:.2e} is allowed")
    inputs = row.inputs()
    out = kernel(*inputs)
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: kernel(*inputs, out=(out,)),
        "eager": lambda: row.torch(*inputs),
    }
    if compiled:
        torch._dynamo.reset()
        fast = torch.compile(row.torch, dynamic=False)
        runs["compile"] = lambda: fast(*inputs)
    source, target = (
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda"),
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda"),
    )
    runs["copy"] = lambda: target.copy_(source)
    return gpu_timing.in_turns(runs, ROUNDS, REPEATS), wrong


def shown(row: Row, times: dict[str, float], wrong: float) -> tuple[str, float]:
    """A line of the table, and how many times as fast as torch.compile we are."""
    speed, copy = row.bytes / times["ours"] / 1e12, 2 * (1 << 30) / times["copy"] / 1e12
    ratio, eager = times.get("compile", math.nan) / times["ours"], times["eager"] / times["ours"]
    return f"{row.name:34} {speed:6.2f} {speed / copy:8.1%} {eager:8.2f} {ratio:9.2f} {wrong:9.1e}", ratio


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    asked = parser.parse_args()
    ratios: list[float] = []
    chosen = list(rows(tables.chosen(asked.rows)))
    record = gpu_timing.record("gpu_memory.txt", asked.write)
    record(f"{'kernel':34} {'TB/s':>6} {'of copy':>8} {'x eager':>8} {'x compile':>9} {'error':>9}")
    for row in chosen:
        line, ratio = shown(row, *measure(row, not asked.no_compile))
        ratios.append(ratio)
        record(line)
    if ratios and not asked.no_compile:
        record(f"geometric mean over torch.compile: {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    record.done("gpu_memory")


if __name__ == "__main__":
    sys.exit(main())
