"""Dot products of a few small integers in one instruction: of each thread (PTX ISA, dp4a), or by each lane of a vector.

Intel SDM, volume 2, PMADDWD: products of neighbours in 16 bits are summed in 32, twice as many at once as of floats.
"""

from __future__ import annotations

import re

from loopir.intrinsics import monoids as monoids  # meanings fold
from loopir.ir.instruction import Pointer, instruction
from loopir.ir.ops import FAMILIES

_RUN = Pointer((0,), run=4)

dp4a = instruction(
    cuda='asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(*{C}) : "r"(*(const int*){A}), "r"(*(const int*){B}));',
    at={"A": _RUN, "B": _RUN},
    doc="Four products of int8, summed into an int32.",
)("""
def dp4a(A: "int8[4]", B: "int8[4]", C: "inout int32"):
    for k in range(4):
        C[()] += int32(A[k]) * int32(B[k])
""")


def _pairs(lanes: str, dtype: str) -> None:
    count = int(lanes)
    if count not in (4, 8, 16):
        return
    at = {"A": Pointer((0,), run=2), "B": Pointer((0, 0), run=2 * count), "C": Pointer((0,), run=count)}
    instruction(
        llvm="dot2", at=at, doc=f"{count} sums in int32 of two products each, of a pair of {dtype} with {count}."
    )(f"""
def dot2_{count}_{dtype}(A: "{dtype}[2]", B: "{dtype}[{count}, 2]", C: "inout int32[{count}] local"):
    for j in range({count}):
        for k in range(2):
            C[j] += int32(A[k]) * int32(B[j, k])
""")


FAMILIES.append((re.compile(r"dot2_(\d+)_(int8|int16)"), _pairs))
