"""Sums of small integers in int32, where their terms and the number of these prove that it holds them.

NumPy's sums are of int64. In int32 a CPU has twice as many in a vector, a GPU adds one at once, and products of bytes
have instructions of their own.
"""

from __future__ import annotations

import loopir as lp

from .contraction import contraction
from .nest_queries import argument_names, one_nest, result_of

WIDE_SUMS = ("int64", "uint64")


@lp.composite
def narrow_sums(s: lp.Schedule) -> lp.Schedule:
    """`s` with its sums of 64 bits in int32, where that is proved to hold them; products that are results by way of an
    intermediate."""
    for stage in s.stages:
        if not s.reduced(stage) or s.buffer(result_of(s, stage)).dtype.name not in WIDE_SUMS:
            continue
        t, sums = s, stage
        if result_of(s, stage) in argument_names(s):
            if not one_nest(s, stage) or contraction(s, stage) is None or s.why("cache_write", stage, "global"):
                continue
            t, sums = s.cache_write(stage, "global").with_stage
        s = t.narrow_sum(sums) if t.why("narrow_sum", sums) is None else s
    return s
