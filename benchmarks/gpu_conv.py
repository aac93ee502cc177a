"""Convolution + batch norm + relu on tensor cores, beside torch.compile and cuDNN, in one run on one GPU.

    python benchmarks/gpu_conv.py [--batch 32] [--no-compile] [--tune] [--write]

The rows are ResNet-50's, bf16, NHWC in memory (torch's channels_last). Each result is checked against float64 before
it is timed; then all are timed in turns, and medians are taken. With --tune, tiles other than the schedule's own are
timed, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import gpu_timing
import tables
import torch
import torch.nn.functional as F
from loopir.schedules.cuda.conv import conv_mma

import loopir as lp
from loopir import schedules

ROUNDS, REPEATS = 7, 20
ROWS = ((64, 56, 64, 3, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (256, 56, 64, 1, 1), (3, 224, 64, 7, 2))
"""Channels, height and width, filters, their height and width, stride."""
TILES = [
    {"block": block, "warps": warps, "depth": depth, "stages": stages}
    for block, warps in (((128, 64), (2, 2)), ((128, 64), (4, 2)), ((128, 128), (2, 2)), ((128, 128), (2, 4)),
                         ((64, 64), (2, 2)), ((256, 64), (4, 2)), ((64, 128), (2, 2)))
    for depth, stages in ((32, 4), (64, 3))
]  # fmt: skip


def convolution(n: int, c: int, h: int, k: int, r: int, stride: int) -> Any:
    """relu(conv(x, w) * scale + shift), x [n, h, h, c], w [r, r, c, k], borders of r // 2 zeros."""
    x = lp.placeholder((n, h, h, c), "bfloat16", name="x")
    w = lp.placeholder((r, r, c, k), "bfloat16", name="w")
    scale, shift = (lp.placeholder((k,), "bfloat16", name=name) for name in ("scale", "shift"))
    p, size = r // 2, (h + 2 * (r // 2) - r) // stride + 1
    padded = lp.pad(x, [(0, 0), (p, p), (p, p), (0, 0)]).named("padded") if p else x
    u, v, z = lp.reduce_axis(r, name="u"), lp.reduce_axis(r, name="v"), lp.reduce_axis(c, name="z")

    def element(b: Any, i: Any, j: Any, o: Any) -> Any:
        left, right = padded[b, i * stride + u, j * stride + v, z], w[u, v, z, o]
        return lp.sum(lp.cast(left, "float32") * lp.cast(right, "float32"), axis=(u, v, z))

    y = lp.compute((n, size, size, k), element, name="conv")
    return lp.relu(y * lp.cast(scale, "float32") + lp.cast(shift, "float32")).astype("bfloat16")


def measured(shape: tuple[int, ...], batch: int, compiled: bool, tune: bool) -> tuple[dict[str, float], float]:
    """Seconds by who ran it, and the largest error of ours, of the largest value."""
    c, h, k, r, stride = shape
    given = torch.randn(batch, c, h, h, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    weight = torch.randn(k, c, r, r, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    scale, shift = (torch.randn(k, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    x, w = given.permute(0, 2, 3, 1), weight.permute(2, 3, 1, 0).contiguous()

    def torchs(x: Any, w: Any, scale: Any, shift: Any) -> Any:
        y = F.conv2d(x, w, stride=stride, padding=r // 2)
        return torch.relu(y * scale[None, :, None, None] + shift[None, :, None, None])

    wide = (t.double() for t in (given, weight, scale, shift))
    exact = torchs(*wide).permute(0, 2, 3, 1)
    out = torch.empty(exact.shape, device="cuda", dtype=torch.bfloat16)
    s = lp.Schedule(convolution(batch, *shape))
    variants = {"ours": lambda: schedules.auto(s, "cuda")}
    for tile in TILES if tune else ():
        variants[f"{tile}"] = lambda tile=tile: conv_mma(schedules.inlined(s), "conv", **tile)
    runs: dict[str, Callable[[], Any]] = {}
    wrong = 0.0
    for name, make in variants.items():
        try:
            kernel = make().build("cuda")
            kernel(x, w, scale, shift, out=(out,))
        except lp.LoopirError as error:
            print(f"  {name}: {str(error)[:200]}")
            continue
        off = float((out.double() - exact).abs().max() / exact.abs().max())
        wrong = max(wrong, off)
        runs[name] = lambda kernel=kernel: kernel(x, w, scale, shift, out=(out,))
    runs["eager"] = lambda: torchs(given, weight, scale, shift)
    runs["cuDNN"] = lambda: F.conv2d(given, weight, stride=stride, padding=r // 2)
    if compiled:
        torch._dynamo.reset()
        fast = torch.compile(torchs, dynamic=False)
        runs["compile"] = lambda: fast(given, weight, scale, shift)
    return gpu_timing.in_turns(runs, ROUNDS, REPEATS), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rows", default="", help="numbers of rows, separated by commas")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--tune", action="store_true", help="other tiles, too")
    tables.writing(parser)
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    record = gpu_timing.record("gpu_conv.txt", asked.write)
    rows = [ROWS[int(n)] for n in asked.rows.split(",")] if asked.rows else ROWS
    for shape in rows:
        c, h, k, r, stride = shape
        times, wrong = measured(shape, asked.batch, not asked.no_compile, asked.tune)
        size = (h + 2 * (r // 2) - r) // stride + 1
        flops = 2 * asked.batch * size * size * k * c * r * r
        record(f"c{c} h{h} k{k} r{r} s{stride}, batch {asked.batch}: error {wrong:.1e}")
        for name, t in sorted(times.items(), key=lambda x: x[1]):
            record(f"    {t * 1e6:8.1f} us  {flops / t / 1e12:6.1f} TFLOP/s  {name}")
    record.done(None)


if __name__ == "__main__":
    main()
