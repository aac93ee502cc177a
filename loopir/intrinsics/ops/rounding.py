"""Rounding to the numbers of fewer digits that tensor cores take: TF32, of 8 bits of exponent and 11 of significand.

A product in TF32 is another value than one in float32, so it is said in the program, `lp.tf32(a) @ lp.tf32(b)`, and is
no choice of a schedule. A number of float16 or bfloat16 is one of TF32 as it is. PTX ISA, "cvt", `.tf32`: to nearest,
of two as near the one away from zero; what is below the kept bits is what tensor cores leave out.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopir.ir.ops import Intrinsic

SIGNIFICAND_BITS = 10
"""Stored bits of a significand."""
_DIGITS = {np.dtype(np.float32): (23, np.uint32), np.dtype(np.float64): (52, np.uint64)}


def _round_significand(nearest: bool) -> Callable[[Any], Any]:
    def meaning(x: Any) -> Any:
        kind = getattr(x, "dtype", None) or np.asarray(x).dtype
        if kind not in _DIGITS:
            return np.asarray(x)[()]
        digits, word = _DIGITS[kind]
        below = digits - SIGNIFICAND_BITS
        half = 1 << (below - 1) if nearest else 0
        kept = ((1 << 8 * kind.itemsize) - 1) ^ ((1 << below) - 1)
        if isinstance(x, np.generic):  # one number, of which functions of arrays take twice as long
            return word((int(x.view(word)) + half) & kept).view(kind) if x == x else x
        x = np.asarray(x)
        bits = (x.view(word) + word(half)) & word(kept)
        return np.where(x == x, bits.view(x.dtype), x)[()]

    return meaning


_ROUNDING = """\
__device__ __forceinline__ unsigned int lp_tf32_bits(float x) {
  unsigned int r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r;
}
__device__ __forceinline__ double lp_tf32(double x, unsigned long long half) {
  unsigned long long bits = ((unsigned long long)__double_as_longlong(x) + half) & ~((1ull << 42) - 1);
  return x == x ? __longlong_as_double((long long)bits) : x;
}
"""


def _rounding(name: str, nearest: bool, single: str, doc: str) -> Intrinsic:
    half = "1ull << 41" if nearest else "0ull"
    return Intrinsic(
        name, 1, frozenset({"float"}), _round_significand(nearest), cuda_prelude=_ROUNDING, doc=doc,
        cuda={"float32": single, "float64": f"lp_tf32({{0}}, {half})"},
        llvm={"float": f"keep {SIGNIFICAND_BITS} {'nearest' if nearest else 'below'}"},
    )  # fmt: skip


tf32 = _rounding(
    "tf32", True, "__uint_as_float(lp_tf32_bits({0}))",
    "The nearest number of TF32, of two as near the one away from zero.",
)  # fmt: skip
tf32_below = _rounding(
    "tf32_below", False, "({0} == {0} ? __uint_as_float(__float_as_uint({0}) & 0xFFFFE000u) : {0})",
    "The number of TF32 that x is cut off to, towards zero.",
)  # fmt: skip
