"""What is fused with a product, before it or after, beside torch.compile and eager, in one run on one GPU.

    python benchmarks/gpu_fused.py [--rows relu,int8] [--no-compile] [--within SECONDS] [--write]

Every row is checked against torch in float64 before it is timed, on random data; then all are timed in turns, and
medians are taken. Printed: microseconds of each, and how many times as fast as torch.compile ours is. With `--within`,
no row is begun later than that.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpu_timing
import tables
import torch
import torch.nn.functional as F

import loopir as lp
from loopir import schedules

ROUNDS, REPEATS, ALLOWED = 5, 20, 2.0**-6
"""Rounds, calls in each, and the largest error, of the largest value: bfloat16 is rounded more than once on the way."""
N = 4096
BF, F32, I8, U8, E4 = "bfloat16", "float32", "int8", "uint8", "float8_e4m3fn"
SQUARE = ((N, N), BF)


@dataclass(frozen=True)
class Row:
    """What is computed of arrays of these shapes and types, by us and by torch; `to` is torch's type for what is made
    of integers and of floats of 8 bits on the way."""

    name: str
    given: tuple[tuple[tuple[int, ...], str], ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any]


def same(name: str, given: Any, both: Callable[..., Any]) -> Row:
    """A row that is written alike for both."""
    return Row(name, given, both, both)


def codes(w: Any) -> Any:
    """Elements of 4 bits, two of them in a byte, as torch unpacks them."""
    return torch.stack([w & 15, w >> 4], dim=-1).reshape(w.shape[0], -1)


def unpacked(w: lp.Tensor, s: lp.Tensor) -> lp.Tensor:
    """Codes of 4 bits, less 8, each 128 of them times a scale."""
    n, k = w.shape[0], w.shape[1] * 2
    return lp.compute(
        (n, k),
        lambda i, j: lp.cast(((w[i, j // 2] >> lp.cast(j % 2 * 4, U8)) & 15), BF) * s[i, j // 128] - 8 * s[i, j // 128],
    )


def torch_unpacked(w: Any, s: Any) -> Any:
    return (codes(w).to(s.dtype) - 8) * s.repeat_interleave(128, dim=1)


BIAS = (SQUARE, SQUARE, ((N,), BF))
ROWS = (
    same("a @ b", (SQUARE, SQUARE), lambda a, b: a @ b),
    same("(a @ b).T", (SQUARE, SQUARE), lambda a, b: (a @ b).T),
    same("a @ b * 0.5 + c * 0.25", (SQUARE,) * 3, lambda a, b, c: (a @ b) * 0.5 + c * 0.25),
    Row("relu(a @ b + bias)", BIAS, lambda a, b, c: lp.relu(a @ b + c), lambda a, b, c: torch.relu(a @ b + c)),
    Row("silu(a @ b + bias)", BIAS, lambda a, b, c: lp.silu(a @ b + c), lambda a, b, c: F.silu(a @ b + c)),
    Row("gelu(a @ b + bias)", BIAS, lambda a, b, c: lp.gelu(a @ b + c), lambda a, b, c: F.gelu(a @ b + c)),
    same("a @ b + residual", (SQUARE,) * 3, lambda a, b, c: a @ b + c),
    same("a @ b * rows * columns", (SQUARE, SQUARE, ((N, 1), BF), ((N,), BF)), lambda a, b, r, c: (a @ b) * r * c),
    Row("a @ b in float32", (SQUARE, SQUARE), lambda a, b: a.astype(F32) @ b.astype(F32), lambda a, b: (a @ b).float()),
    Row("float16(a @ b)", (SQUARE, SQUARE), lambda a, b: (a @ b).astype("float16"), lambda a, b: (a @ b).half()),
    same("16 of a @ one b", (((16, 1024, 512), BF), ((512, 1024), BF)), lambda a, b: a @ b),
    same("one a @ 16 of b", (((1024, 512), BF), ((16, 512, 1024), BF)), lambda a, b: a @ b),
    Row("4 x 4 of relu(a @ b.T)", (((4, 4, 1024, 512), BF),) * 2,
        lambda a, b: lp.relu(a @ lp.transpose(b, (0, 1, 3, 2))), lambda a, b: torch.relu(a @ b.mT)),
    Row("silu(a @ g) * (a @ u)", (SQUARE, ((N, 11008), BF), ((N, 11008), BF)),
        lambda a, g, u: lp.silu(a @ g) * (a @ u), lambda a, g, u: F.silu(a @ g) * (a @ u)),
    Row("gelu(a @ b) @ c", (SQUARE,) * 3, lambda a, b, c: lp.gelu(a @ b) @ c, lambda a, b, c: F.gelu(a @ b) @ c),
    Row("rmsnorm(a @ b)", (SQUARE, SQUARE), lambda a, b: rms(a @ b), lambda a, b: torch_rms(a @ b)),
    Row("(silu(g) * u) @ b", (SQUARE,) * 3, lambda g, u, b: (lp.silu(g) * u) @ b, lambda g, u, b: (F.silu(g) * u) @ b),
    *(
        row
        for m in (N, 16)
        for row in (
            Row(f"{m}: a @ (int8 * scales).T", (((m, N), BF), ((N, N), I8), ((N, 1), BF)),
                lambda a, w, s: a @ (w.astype(BF) * s).T, lambda a, w, s: a @ (w.to(a.dtype) * s).T),
            Row(f"{m}: a @ int8.T * scales", (((m, N), BF), ((N, N), I8), ((N,), BF)),
                lambda a, w, s: (a @ w.astype(BF).T) * s, lambda a, w, s: (a @ w.to(a.dtype).T) * s),
            Row(f"{m}: a @ (fp8 * scales).T", (((m, N), BF), ((N, N), E4), ((N, 1), BF)),
                lambda a, w, s: a @ (w.astype(BF) * s).T, lambda a, w, s: a @ (w.to(a.dtype) * s).T),
            Row(f"{m}: a @ (int4 * scales of 128).T", (((m, N), BF), ((N, N // 2), U8), ((N, N // 128), BF)),
                lambda a, w, s: a @ unpacked(w, s).T, lambda a, w, s: a @ torch_unpacked(w, s).T),
        )
    ),
    Row("1025 x 1023 x 1027: gelu(a @ b + bias)", (((1025, 1027), BF), ((1027, 1023), BF), ((1023,), BF)),
        lambda a, b, c: lp.gelu(a @ b + c), lambda a, b, c: F.gelu(a @ b + c)),
    same("65536 x 64 x 512", (((65536, 512), BF), ((512, 64), BF)), lambda a, b: a @ b),
    same("1000000 x 32 x 32", (((1000000, 32), BF), ((32, 32), BF)), lambda a, b: a @ b),
    same("8 x 4096 x 4096", (((8, N), BF), SQUARE), lambda a, b: a @ b),
    same("3 x 4096 x 4096", (((3, N), BF), SQUARE), lambda a, b: a @ b),
    same("4096 x 8 x 4096", (SQUARE, ((N, 8), BF)), lambda a, b: a @ b),
    same("4096 x 4096 x 16", (((N, 16), BF), ((16, N), BF)), lambda a, b: a @ b),
    same("4096 x 4096 x 8", (((N, 8), BF), ((8, N), BF)), lambda a, b: a @ b),
    same("4096 x 4096 x 3", (((N, 3), BF), ((3, N), BF)), lambda a, b: a @ b),
    same("a @ x", (SQUARE, ((N,), BF)), lambda a, x: a @ x),
    same("x @ a", (SQUARE, ((N,), BF)), lambda a, x: x @ a),
)  # fmt: skip


def rms(x: lp.Tensor) -> lp.Tensor:
    wide = x.astype(F32)
    return (wide * lp.rsqrt(lp.mean(wide * wide, axis=1, keepdims=True) + 1e-5)).astype(BF)


def torch_rms(x: Any) -> Any:
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt((wide * wide).mean(dim=1, keepdim=True) + 1e-5)).to(x.dtype)


def made(shape: tuple[int, ...], dtype: str) -> Any:
    kind = getattr(torch, dtype)
    if dtype in (I8, U8):
        return torch.randint(0 if dtype == U8 else -128, 256 if dtype == U8 else 128, shape, device="cuda").to(kind)
    return torch.randn(*shape, device="cuda").to(kind)


def exact(row: Row, given: list[Any]) -> Any:
    """torch's in float64; integers stay what they are."""
    return row.torch(*(x.double() if x.dtype.is_floating_point else x for x in given)).double()


def measured(row: Row, compiled: bool) -> tuple[dict[str, float], float]:
    """Seconds by who ran it, and the largest error of ours, of the largest value."""
    given = [made(*x) for x in row.given]
    s = lp.Schedule(row.ours(*(lp.placeholder(*x, name=f"x{n}") for n, x in enumerate(row.given))))
    kernel = schedules.auto(s, "cuda").build("cuda")
    out, want = kernel(*given), exact(row, given)
    wrong = float((out.double() - want).abs().max() / want.abs().max())
    if not wrong <= ALLOWED:
        raise ArithmeticError(f"WRONG: off by {wrong:.2e} of the largest value, and {ALLOWED:.2e} is allowed")
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: kernel(*given, out=(out,)),
        "eager": lambda: row.torch(*given),
    }
    if compiled:
        torch._dynamo.reset()
        fast = torch.compile(row.torch, dynamic=False)
        runs["compile"] = lambda: fast(*given)
    return gpu_timing.in_turns(runs, ROUNDS, REPEATS), wrong


def main() -> int:
    parser = tables.options(__doc__)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--within", type=float, default=1e9, help="seconds after which no row is begun")
    asked = parser.parse_args()
    failed, began = False, time.perf_counter()
    record = gpu_timing.record("gpu_fused.txt", asked.write)
    record(f"{'microseconds':40} {'ours':>9} {'eager':>9} {'compile':>9} {'x compile':>9} {'error':>8}")
    ratios: list[float] = []
    wanted = tables.chosen(asked.rows)
    for row in ROWS:
        if (wanted and not any(w in row.name for w in wanted)) or time.perf_counter() - began > asked.within:
            continue
        try:
            times, wrong = measured(row, not asked.no_compile)
        except (lp.LoopirError, RuntimeError, ArithmeticError, ValueError) as reason:
            failed = True
            record(f"{row.name:40} none: {type(reason).__name__}: {str(reason).splitlines()[0][:90]}")
            continue
        ratio = times.get("compile", times["eager"]) / times["ours"]
        ratios.append(ratio)
        cells = " ".join(f"{times[x] * 1e6:9.1f}" if x in times else f"{'-':>9}" for x in ("ours", "eager", "compile"))
        record(f"{row.name:40} {cells} {ratio:9.3f} {wrong:8.1e}")
    if ratios:
        record(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    record.done(None)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
