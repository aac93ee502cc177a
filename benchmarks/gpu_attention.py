"""Attention as `schedules.auto` makes it of its naive stages, beside torch's scaled_dot_product_attention: TFLOP/s.

    python benchmarks/gpu_attention.py [--depths 64,128] [--in-turns] [--write]

Results are checked before they are timed; medians of rounds in turns. Of causal ones half of the products count.
`--in-turns` adds both variants of what `auto` chooses between: warpgroups issue their products in turns (`alternate`),
or when each comes to it.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from typing import Any

import gpu_timing
import tables
import torch
from attention_code import ARCH, SHAPES, attention, flops
from loopir.schedules.cuda.product_chains import product_chain
from torch.nn.functional import scaled_dot_product_attention as peer

import loopir as lp
from loopir import schedules

TURNS = {"": None, ", in turns": True, ", not in turns": False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", default="", help="of these widths of heads only")
    parser.add_argument(
        "--in-turns", action="store_true", help="also with the products of warpgroups in turns, and not"
    )
    tables.writing(parser)
    asked = parser.parse_args()
    record = gpu_timing.record("gpu_attention.txt", asked.write)
    depths = {int(x) for x in asked.depths.split(",") if x}
    for batches, heads, depth, length in SHAPES:
        if depths and depth not in depths:
            continue
        q, k, v = (torch.randn(batches, heads, length, depth, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
        for causal in (False, True):
            theirs = partial(peer, q, k, v, is_causal=causal)
            runs: dict[str, Any] = {"torch": theirs}
            for wide, (how, in_turns) in product((False, True), TURNS.items() if asked.in_turns else (("", None),)):
                s = attention(batches, heads, depth, length, causal=causal, wide=wide)
                with lp.scheduling_for(lp.machine(ARCH)):
                    fixed = in_turns is not None
                    s = product_chain(s, in_turns=in_turns) if fixed else schedules.auto(s, "cuda", arch=ARCH)
                kernel = s.build("cuda")
                off = (kernel(q, k, v).float() - theirs().float()).abs().max().item()
                assert off < 0.03, f"d{depth}: off by {off}"
                runs[f"scores of {'32' if wide else '16'} bits{how}"] = partial(kernel, q, k, v)
            taken = gpu_timing.in_turns(runs, 9)
            for name, seconds in taken.items():
                rate = flops(batches, heads, depth, length, causal=causal) / seconds / 1e12
                kind = "causal" if causal else "full"
                record(f"d{depth:<4} {kind:7} {name:30} {rate:7.1f} TFLOP/s {taken['torch'] / seconds:6.3f} x torch")
    record.done(None)


if __name__ == "__main__":
    main()
