"""Sums of two lanes in one instruction, named by `Intrinsic.pairs`.

PTX ISA, fma.rn.bf16x2 (sm_80 on): a sum of two bfloat16 is rounded once, and float32, of three times as many digits,
rounded again gives the same (S. Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.ops import arith as arith  # the meaning adds

_TWO = Pointer((0,), run=2)

add_bf16x2 = instruction(
    cuda="lp_add_bf16x2({C}, {A}, {B});",
    cuda_prelude="""\
__device__ __forceinline__ void lp_add_bf16x2(unsigned short* c, const unsigned short* a, const unsigned short* b) {
  const unsigned int one = 0x3f803f80u, x = *reinterpret_cast<const unsigned int*>(a);
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(*reinterpret_cast<unsigned int*>(c))
      : "r"(x), "r"(one), "r"(*reinterpret_cast<const unsigned int*>(b)));
}
""",
    at={"A": _TWO, "B": _TWO, "C": _TWO}, arch="sm_80", doc="Two sums of bfloat16.",
)("""
def add_bf16x2(A: "bfloat16[2] local", B: "bfloat16[2] local", C: "out bfloat16[2] local"):
    for n in range(2):
        C[n] = A[n] + B[n]
""")  # fmt: skip
