"""Names that get in the way: words of C, CUDA, LLVM and Python, and what steps would call what they make."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.traverse.walk import leaf_paths, loops
from loopir.schedule.core.find import all_buffers
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.generate.draws import between, choose

WORDS = (
    "int", "half", "float4", "threadIdx", "blockDim", "main", "min", "max", "sum", "select", "index", "size", "alloc",
    "define", "asm", "printf", "this", "self", "range", "print", "nan", "inf", "e", "N", "_", "x" * 80, "args", "out",
)  # fmt: skip
ENDINGS = ("_o", "_i", "_1", "_local", "_shared", "_out", "_in", "_before", "_scale", "_rf", "_r", "_tail", "_2")
"""What steps append to a name."""


@st.composite
def with_odd_names(draw: st.DrawFn, func: Func, most: int = 3) -> Func:
    """`func` with up to `most` of its loops, stages and buffers called otherwise."""
    for _ in range(draw(between(1, most))):
        names = [x.var for x in loops(func.body)] + [p.stmt.label for p in leaf_paths(func.body)]
        names += [b.name for b in all_buffers(func)]
        if not names:
            break
        new = choose(draw, WORDS) if draw(st.booleans()) else choose(draw, names) + choose(draw, ENDINGS)
        with suppress(ScheduleError):
            func = PRIMITIVES["rename"](func, choose(draw, names), new)
    return func
