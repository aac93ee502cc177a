"""Memory-bound kernels on the GPU beside torch eager and torch.compile, in one run on one GPU.

    python benchmarks/gpu_memory.py [--rows gelu,softmax] [--no-compile]

Each row is checked against torch in float64 before it is timed, then the three are timed in turns, and medians are
taken. Printed: TB/s of the compulsory bytes (inputs once, outputs once), the share of a device-to-device copy that was
measured in the same run, and how many times as fast as eager and as torch.compile it is.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gpu_timing
import torch
import torch.nn.functional as F

import loopir as lp
import schedules

ROUNDS, REPEATS = 7, 20
DTYPES = {"f32": (torch.float32, "float32"), "bf16": (torch.bfloat16, "bfloat16")}


@dataclass(frozen=True)
class Row:
    """One kernel: what we compute, what torch computes, on which inputs."""

    name: str
    ours: Callable[[], lp.Schedule]
    torch: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    bytes: int
    tolerance: float


def rows() -> Iterator[Row]:
    for short, (dtype, name) in DTYPES.items():
        yield from elementwise_rows(short, dtype, name)
        for shape in ((8192, 8192), (32768, 1024), (4096, 32768), (8191, 5003)):
            yield from along_rows(short, dtype, name, *shape)
    yield jacobi(8192)


def elementwise_rows(short: str, dtype: Any, name: str) -> Iterator[Row]:
    n, size = 1 << 26, dtype.itemsize
    for kernel, (expression, eager) in CHAINS.items():
        yield Row(
            f"{kernel} {short} 64M",
            lambda e=expression: one(e, [(n,)], name),
            eager,
            lambda: (random(n, dtype=dtype),),
            2 * n * size,
            tolerance(dtype),
        )
    for r, c in ((8192, 8192), (8191, 5003)):
        yield Row(
            f"transpose {short} {r}x{c}",
            lambda r=r, c=c: lp.Schedule(lp.placeholder((r, c), name, name="x").T),
            lambda x: x.t().contiguous(),
            lambda r=r, c=c: (random(r, c, dtype=dtype),),
            2 * r * c * size,
            0.0,
        )
        yield Row(
            f"scale+bias+relu {short} {r}x{c}",
            lambda r=r, c=c: one(lambda x, s, b: lp.relu(x * s + b), [(r, c), (c,), (c,)], name),
            lambda x, s, b: torch.relu(x * s + b),
            lambda r=r, c=c: (random(r, c, dtype=dtype), random(c, dtype=dtype), random(c, dtype=dtype)),
            (2 * r * c + 2 * c) * size,
            tolerance(dtype),
        )


def along_rows(short: str, dtype: Any, name: str, r: int, c: int) -> Iterator[Row]:
    """Softmax, norms and sums of an r by c matrix."""
    size, shape = dtype.itemsize, f"{short} {r}x{c}"

    def inputs(count: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (random(r, c, dtype=dtype), *(random(c, dtype=dtype) for _ in range(count)))

    def given(expression: Callable[..., Any], count: int) -> Callable[[], lp.Schedule]:
        return lambda: one(expression, [(r, c)] + count * [(c,)], name)

    both = 2 * r * c * size
    yield Row(f"softmax {shape}", given(lp.softmax, 0), lambda x: F.softmax(x, -1), inputs(0), both, tolerance(dtype))
    yield Row(
        f"layernorm {shape}",
        given(layernorm, 2),
        lambda x, w, b: F.layer_norm(x, (c,), w, b),
        inputs(2),
        both + 2 * c * size,
        tolerance(dtype),
    )
    yield Row(f"rmsnorm {shape}", given(rmsnorm, 1), torch_rmsnorm, inputs(1), both + c * size, tolerance(dtype))
    for kernel, axis, count in (("row", 1, r), ("column", 0, c), ("full", None, 1)):
        yield Row(
            f"{kernel} sum {shape}",
            given(lambda x, axis=axis: x.sum(axis=axis), 0),
            lambda x, axis=axis: x.sum() if axis is None else x.sum(axis),
            inputs(0),
            (r * c + count) * size,
            tolerance(dtype) * 64,  # of the largest sum, where a sum of n numbers of either sign is sqrt(n) of them
        )


def jacobi(n: int) -> Row:
    def ours() -> lp.Schedule:
        u = lp.placeholder((n + 2, n + 2), "float32", name="u")
        return lp.Schedule(0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))

    return Row(
        f"jacobi f32 {n}x{n}",
        ours,
        lambda u: 0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]),
        lambda: (random(n + 2, n + 2, dtype=torch.float32),),
        2 * n * n * 4,
        tolerance(torch.float32),
    )


# ---------------------------------------------------------------- expressions, in float32 between load and store


def one(expression: Callable[..., Any], shapes: list[tuple[Any, ...]], dtype: str) -> lp.Schedule:
    given = [lp.placeholder(shape, dtype, name=f"x{k}") for k, shape in enumerate(shapes)]
    return lp.Schedule(expression(*(lp.cast(x, "float32") for x in given)).astype(dtype))


def gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + lp.tanh(x * 0.7978845608028654 + x * x * x * (0.044715 * 0.7978845608028654)))


def sincos(x: Any) -> Any:
    return lp.sin(x) * lp.sin(x) + lp.cos(x) * lp.cos(x)


def layernorm(x: Any, w: Any, b: Any) -> Any:
    off = x - lp.mean(x, axis=-1, keepdims=True)
    return off * lp.rsqrt(lp.mean(off * off, axis=-1, keepdims=True) + 1e-5) * w + b


def rmsnorm(x: Any, w: Any) -> Any:
    return x * lp.rsqrt(lp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


def torch_rmsnorm(x: Any, w: Any) -> Any:
    wide = x.float() if x.dtype == torch.bfloat16 else x
    return (wide * torch.rsqrt((wide**2).mean(-1, keepdim=True) + 1e-6) * w).to(x.dtype)


CHAINS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "gelu": (
        gelu,
        lambda x: x * 0.5 * (1.0 + torch.tanh(x * 0.7978845608028654 + x * x * x * 0.044715 * 0.7978845608028654)),
    ),
    "sin^2+cos^2": (sincos, lambda x: torch.sin(x) ** 2 + torch.cos(x) ** 2),
    "add": (lambda x: x + 2.0, lambda x: x + 2),
}


# ---------------------------------------------------------------- measuring


def random(*shape: int, dtype: Any) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def tolerance(dtype: Any) -> float:
    """Of the largest magnitude there is: a few units in the last place."""
    return 8 * torch.finfo(dtype).eps


def in_turns(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    return gpu_timing.in_turns(runs, ROUNDS, REPEATS)


def error(row: Row, got: Any, inputs: tuple[Any, ...]) -> float:
    """The largest difference from torch in float64, as a share of the largest magnitude."""
    want = row.torch(*(x.double() for x in inputs)).double()
    if not torch.isfinite(got).all():
        return math.inf
    return float((got.double() - want).abs().max() / want.abs().max().clamp(min=1e-30))


def measure(row: Row, compiled: bool) -> tuple[dict[str, float], float]:
    inputs = row.inputs()
    kernel = schedules.auto(row.ours(), "cuda").build("cuda")
    out = kernel(*inputs)
    torch.cuda.synchronize()
    wrong = error(row, out, inputs)
    if not wrong <= row.tolerance:
        raise SystemExit(f"{row.name}: off by {wrong:.2e} of the largest value, and {row.tolerance:.2e} is allowed")
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
    return in_turns(runs), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose name holds one of these, separated by commas")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    asked = parser.parse_args()
    wanted = [w for w in asked.rows.split(",") if w]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}")
    print(f"{'kernel':34} {'TB/s':>6} {'of copy':>8} {'x eager':>8} {'x compile':>9} {'error':>9}")
    ratios: list[float] = []
    for row in rows():
        if wanted and not any(w in row.name for w in wanted):
            continue
        times, wrong = measure(row, not asked.no_compile)
        speed = row.bytes / times["ours"] / 1e12
        copy = 2 * (1 << 30) / times["copy"] / 1e12
        ratio = times.get("compile", math.nan) / times["ours"]
        ratios.append(ratio)
        eager = times["eager"] / times["ours"]
        print(f"{row.name:34} {speed:6.2f} {speed / copy:8.1%} {eager:8.2f} {ratio:9.2f} {wrong:9.1e}", flush=True)
    if ratios and not asked.no_compile:
        print(f"geometric mean over torch.compile: {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    sys.exit(main())
