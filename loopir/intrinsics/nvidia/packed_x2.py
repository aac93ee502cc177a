"""Sums and products of two lanes in one instruction, named by `Intrinsic.pairs`.

PTX ISA, fma.rn.bf16x2 (sm_80 on): a sum of two bfloat16 is rounded once, and float32, of three times as many digits,
rounded again gives the same (S. Figueroa, "When is double rounding innocuous?", 1995). A product of two has 16 digits:
float32 holds it, or, where it is too small, keeps on which side of the middle of two bfloat16 it is. One of float16, of
22 digits, it holds. The sum of a product and -0.0 is the product, with its sign where it is zero.
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

mul_bf16x2 = instruction(
    cuda="lp_mul_bf16x2({C}, {A}, {B});",
    cuda_prelude="""\
__device__ __forceinline__ void lp_mul_bf16x2(unsigned short* c, const unsigned short* a, const unsigned short* b) {
  const unsigned int zero = 0x80008000u, x = *reinterpret_cast<const unsigned int*>(a);
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(*reinterpret_cast<unsigned int*>(c))
      : "r"(x), "r"(*reinterpret_cast<const unsigned int*>(b)), "r"(zero));
}
""",
    at={"A": _TWO, "B": _TWO, "C": _TWO}, arch="sm_80", doc="Two products of bfloat16.",
)("""
def mul_bf16x2(A: "bfloat16[2] local", B: "bfloat16[2] local", C: "out bfloat16[2] local"):
    for n in range(2):
        C[n] = A[n] * B[n]
""")  # fmt: skip

mul_f16x2 = instruction(
    cuda="lp_mul_f16x2({C}, {A}, {B});",
    cuda_prelude="""\
__device__ __forceinline__ void lp_mul_f16x2(unsigned short* c, const unsigned short* a, const unsigned short* b) {
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(*reinterpret_cast<unsigned int*>(c))
      : "r"(*reinterpret_cast<const unsigned int*>(a)), "r"(*reinterpret_cast<const unsigned int*>(b)));
}
""",
    at={"A": _TWO, "B": _TWO, "C": _TWO}, arch="sm_80", doc="Two products of float16.",
)("""
def mul_f16x2(A: "float16[2] local", B: "float16[2] local", C: "out float16[2] local"):
    for n in range(2):
        C[n] = A[n] * B[n]
""")  # fmt: skip
