"""Storage and conversion of narrow floats (16 bits and fewer) in CUDA C.

8-bit floats are converted by instructions on sm_89 and later, and by arithmetic before. The instructions saturate
overflow to the largest number; here it becomes NaN, or infinity where the type has one, as in ml_dtypes.
PTX ISA, "cvt", `.e4m3x2` and `.e5m2x2`; OCP 8-bit Floating Point Specification (2023).
"""

from __future__ import annotations

from loopir.ir.dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16

NARROW_FLOATS: dict[DType, tuple[str, str]] = {
    float16: ("unsigned short", "f16"), bfloat16: ("unsigned short", "bf16"),
    float8_e4m3fn: ("unsigned char", "e4m3"), float8_e5m2: ("unsigned char", "e5m2"),
}  # fmt: skip
"""By type, that of its bits in memory, and its name in the functions that convert."""

NARROW_PRELUDE = """\
template <int digits, int bias> __device__ __forceinline__ unsigned char lp_to_8(float f, unsigned int most) {
  const unsigned int word = __float_as_uint(f), bits = word & 0x7fffffffu;
  const unsigned int odd = bits >> (23 - digits) & 1u, half = (1u << (22 - digits)) - 1u;
  const float unit = __uint_as_float((151u - bias - digits) << 23);  // a sum with it counts the least numbers there are
  const unsigned int small = __float_as_uint(__uint_as_float(bits) + unit) - __float_as_uint(unit);
  const unsigned int normal = ((bits + half + odd) >> (23 - digits)) - ((127u - bias) << digits);
  const unsigned int near = bits < ((128u - bias) << 23) ? small : normal;
  const unsigned int nan = digits == 3 ? 0x7fu : 0x7eu;
  return (unsigned char)((bits > 0x7f800000u ? nan : near < most ? near : most) | (word >> 24 & 0x80u));
}
__device__ __forceinline__ float lp_from_e5m2(unsigned char h) {
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)(h << 8))); return f;
}
#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ float lp_from_e4m3(unsigned char h) {
  unsigned int two; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"((unsigned short)h));
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)two)); return f;
}
__device__ __forceinline__ unsigned char lp_to_e4m3(float f) {
  unsigned short two; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(f));
  return fabsf(f) <= 464.0f ? (unsigned char)two : (unsigned char)(0x7fu | (__float_as_uint(f) >> 24 & 0x80u));
}
__device__ __forceinline__ unsigned char lp_to_e5m2(float f) {
  unsigned short two; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(f));
  return fabsf(f) < 61440.0f ? (unsigned char)two : lp_to_8<2, 15>(f, 0x7cu);
}
#else
__device__ __forceinline__ float lp_from_e4m3(unsigned char h) {
  const unsigned int bits = h & 0x7fu, sign = (unsigned int)(h & 0x80u) << 24;
  const float f = __uint_as_float(bits << 20 | sign) * 1.329227995784916e+36f;  // 2^120
  return bits == 0x7fu ? __uint_as_float(0x7fc00000u | sign) : f;
}
__device__ __forceinline__ unsigned char lp_to_e4m3(float f) { return lp_to_8<3, 7>(f, 0x7fu); }
__device__ __forceinline__ unsigned char lp_to_e5m2(float f) { return lp_to_8<2, 15>(f, 0x7cu); }
#endif
__device__ __forceinline__ float lp_round_e4m3(float f) { return lp_from_e4m3(lp_to_e4m3(f)); }
__device__ __forceinline__ float lp_round_e5m2(float f) { return lp_from_e5m2(lp_to_e5m2(f)); }
"""
"""Of floats of 8 bits, whose `digits` stored bits of significand and exponents from 1 - `bias` on are to nearest, ties
to even."""
