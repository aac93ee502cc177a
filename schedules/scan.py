"""Prefix sums in three steps: the sum of each block of elements, the sums before each block, the sums inside it.

A running sum is one long chain of dependences, and no order of its loop is another; `scan_blocks` cuts the chain. On a
GPU it cuts each block again, into the parts of threads, which meet in shared memory.
"""

from __future__ import annotations

import loopir as lp
from schedules.nests import step

PROGRAM = """
def prefix_sum(n: "size", A: "{t}[n]", B: "out {t}[n]"):
    for i in range(n):
        B[i] = select(1 <= i, B[i - 1], {zero}) + A[i]
"""


def prefix_sum(dtype: str) -> lp.Func:
    """B[i] = A[0] + ... + A[i] for `dtype`; a program at any size."""
    return lp.parse(PROGRAM.format(t=dtype, zero="0.0" if "float" in dtype else "0"))


@lp.composite
def scan(s: lp.Schedule, target: str, *, width: int = 4096, threads: int = 256) -> lp.Schedule:
    """The running fold that is the innermost loop of the only stage, in blocks of `width` elements that run at once.

    On a GPU ("cuda") `threads` threads share a block: each has a part of it, of which it folds the sum first.
    """
    (stage,) = s.stages
    names = ("block", "within")
    s = s.scan_blocks(s.loops(stage)[-1], width, names=names)
    sums, _, _, _ = s.stages
    outer, inner = s.loops(sums)[-2:]
    if target != "cuda":
        return s.parallel(outer).parallel("block")
    s, (_, lane) = step(s, "split", inner, threads)
    s = s.bind(outer, "blockIdx.x").bind(lane, "threadIdx.x")
    before = set(s.buffers)
    s = s.scan_blocks("within", -(-width // threads), names=("thread", "x"))
    for b in (b for b in s.buffers if b not in before):
        s = s.set_scope(b, "shared")
    part = next(x for x in s.stages if x in s.buffers and x not in before)
    return s.bind("block", "blockIdx.x").bind(s.loops(part)[-2], "threadIdx.x").bind("thread", "threadIdx.x")
