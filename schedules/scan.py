"""Prefix sums in three steps: the sum of each block of elements, the sums before each block, the sums inside it.

A running sum is one long chain of dependences, and no order of its loop is another. Cut into blocks it is three nests,
of which the first and the last have as many independent iterations as there are blocks; the program says so, and the
schedule gives them to threads.
"""

from __future__ import annotations

import loopir as lp
from schedules.nests import step

PROGRAM = """
def prefix_sum(n: "size", A: "{t}[n]", B: "out {t}[n]"):
    with alloc("{t}[(n + {w} - 1) // {w}]") as total, alloc("{t}[(n + {w} - 1) // {w} + 1]") as before:
        for b in range((n + {w} - 1) // {w}):
            for k in range({w}):
                if b * {w} + k < n:
                    total[b] = sum(A[b * {w} + k], over=k, init=0)
        before[0] = 0
        for c in range((n + {w} - 1) // {w}):
            before[c + 1]: "before_next" = before[c] + total[c]
        for d in range((n + {w} - 1) // {w}):
            with alloc("{t}[1]") as running:
                running[0] = before[d]
                for i in range({w}):
                    if d * {w} + i < n:
                        running[0] = sum(A[d * {w} + i], label="running_sum")
                        B[d * {w} + i] = running[0]
"""


def prefix_sum(dtype: str, width: int = 1024) -> lp.Func:
    """B[i] = A[0] + ... + A[i] for `dtype`, in blocks of `width` elements; a program at any size."""
    zero = "0.0" if "float" in dtype else "0"
    return lp.parse(PROGRAM.format(t=dtype, w=width).replace("init=0", f"init={zero}").replace("= 0\n", f"= {zero}\n"))


@lp.composite
def scan(s: lp.Schedule, target: str, *, threads: int = 128) -> lp.Schedule:
    """`prefix_sum` with its blocks spread over threads, of a GPU ("cuda") or a CPU.

    On a GPU a block of threads folds the sum of a block of elements together.
    """
    if target != "cuda":
        return s.parallel("b").parallel("d")
    s, (_, lane) = step(s, "split", "k", threads)
    s = s.bind("b", "blockIdx.x").bind(lane, "threadIdx.x").set_scope("running", "local")
    s, (block, thread) = step(s, "split", "d", threads)
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")
