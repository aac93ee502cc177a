"""Dot products of a few small integers in one instruction of each thread (PTX ISA, dp4a)."""

from __future__ import annotations

from loopir.intrinsics import monoids as monoids  # meanings fold
from loopir.ir.instruction import Pointer, instruction

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
