"""What ptxas makes of attention on Hopper, as `schedules.auto` schedules its naive stages. No GPU is needed.

    python benchmarks/attention_code.py [--write]

Registers, bytes spilled, instructions, and the rate that `lp.predict` says for an H200; of causal ones half of the
products count. A build in which ptxas serialises products (messages C75xx) fails.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from typing import Any

import tables

import loopir as lp
from loopir import schedules
from loopir.runtime.cuda.disassembler import disassemble

ARCH = "sm_90a"
COUNTED = ("HGMMA", "MUFU", "SHFL", "STL")
"""Products, exponentials and the like, exchanges of lanes, spills: in the whole kernel."""
SHAPES = ((4, 16, 64, 4096), (4, 16, 128, 4096), (4, 8, 192, 4096), (4, 8, 256, 4096))
"""Batches, heads, columns, and rows, which are keys, too."""


def attention(batches: int, heads: int, depth: int, length: int, *, causal: bool, wide: bool = False) -> lp.Schedule:
    """The naive stages; `wide` keeps scores in float32."""
    shape = (batches, heads, length, depth)
    q, k, v = (lp.placeholder(shape, "bfloat16", name=x) for x in "QKV")
    c, t = depth**-0.5, "float32"
    if wide:
        d, j = lp.reduce_axis(depth, name="d"), lp.reduce_axis(length, name="j")
        s = lp.compute(
            (batches, heads, length, length),
            lambda b, h, x, y: lp.sum(q[b, h, x, d].astype(t) * k[b, h, y, d].astype(t), axis=d),
        )
    else:
        s = q @ k.transpose(0, 1, 3, 2)
    s = s * c
    if causal:
        x = s
        s = lp.compute(x.shape, lambda b, h, i, j: lp.where(j <= i, x[b, h, i, j], -math.inf), name="X")
    p = lp.softmax(s)
    if not wide:
        return lp.Schedule(p @ v)
    o = lp.compute(
        shape, lambda b, h, i, e: lp.sum(p[b, h, i, j].astype("bfloat16").astype(t) * v[b, h, j, e].astype(t), axis=j)
    )
    return lp.Schedule(lp.compute(shape, lambda *at: o[at].astype("bfloat16"), name="out"))


def code(record: Any) -> None:
    """What ptxas makes of each kernel, and the time predicted for an H200."""
    counted = " ".join(f"{x:>5}" for x in COUNTED)
    record(f"{'kernel':28} {'registers':>9} {'spilled':>7} {counted} {'all':>6} {'predicted':>11}")
    for batches, heads, depth, length in SHAPES:
        for causal in (False, True):
            for wide in (False, True):
                s = schedules.auto(
                    attention(batches, heads, depth, length, causal=causal, wide=wide), "cuda", arch=ARCH
                )
                made = lp.compile_source(s, ARCH)
                ((_, used),) = made.resources.items()
                found = Counter(instruction(line) for line, _ in disassemble(made.cubin))
                name = f"d{depth} {'causal' if causal else 'full'}, scores of {'32' if wide else '16'} bits"
                counts = " ".join(f"{found[x]:>5}" for x in COUNTED)
                seconds = lp.predict(s, "cuda", arch=ARCH).seconds
                rate = flops(batches, heads, depth, length, causal=causal) / seconds / 1e12
                record(
                    f"{name:28} {used.registers:>9} {used.spill_stores + used.spill_loads:>7} {counts} "
                    f"{sum(found.values()):>6} {rate:>5.0f} TFLOP/s"
                )


def instruction(line: str) -> str:
    words = [x for x in line.split() if not x.startswith("@")]
    return words[0].partition(".")[0] if words else ""


def flops(batches: int, heads: int, depth: int, length: int, *, causal: bool) -> float:
    return 4 * batches * heads * length * length * depth / (2 if causal else 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables.writing(parser)
    record = tables.Record("attention_code.txt", parser.parse_args().write)
    code(record)
    record.done(None)


if __name__ == "__main__":
    main()
