"""Dot product of four 8-bit integers, added to an int32, in one instruction of each thread (PTX ISA, dp4a)."""

from __future__ import annotations

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.ops import monoids as monoids  # the meaning folds

_WORD = Pointer((0,), run=4)

dp4a = instruction(
    cuda='asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(*{C}) : "r"(*(const int*){A}), "r"(*(const int*){B}));',
    at={"A": _WORD, "B": _WORD},
    doc="Four products of int8, summed into an int32.",
)("""
def dp4a(A: "int8[4]", B: "int8[4]", C: "inout int32"):
    for k in range(4):
        C[()] += int32(A[k]) * int32(B[k])
""")
