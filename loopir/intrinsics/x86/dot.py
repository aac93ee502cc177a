"""Dot products of a few small integers in one instruction, by each lane of a vector.

Intel SDM, volume 2: PMADDWD sums products of neighbours in 16 bits in 32, VPDPBUSD (AVX512-VNNI) those of four
neighbours in 8 bits, unsigned by signed, or of one sign (VPDPBSSD, VPDPBUUD, AVX-VNNI-INT8), and none saturates. LLVM
makes a PMADDWD and a sum one VPDPWSSD where the CPU has it. VDPBF16PS (AVX512-BF16) sums products of pairs of bfloat16
in float32, each of both by an FMA to nearest; denormal numbers that it takes or makes are 0. So n products in one sum
are off by less than n * 2^-126 * (1 + the largest |A| + the largest |B|), besides what the order of float32 sums is.
"""

from __future__ import annotations

import re

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.ops import monoids as monoids  # meanings fold
from loopir.ir.ops import FAMILIES

SAME_SIGN_SUMS = 8
"""Sums of a vector at most, of products of one sign."""


def _declare_dot(lanes: str, steps: int, one: str, other: str, total: str, name: str) -> None:
    """The instruction for so many sums of `steps` products each, of `one` that all lanes have by `other`."""
    count = int(lanes)
    if count not in (4, 8, 16):
        return
    at = {"A": Pointer((0,), run=steps), "B": Pointer((0, 0), run=steps * count), "C": Pointer((0,), run=count)}
    about = f"{count} sums in {total} of {steps} products each, of {one} that are the same for all by {other}."
    instruction(llvm=f"dot{steps}", at=at, doc=about)(f"""
def dot{steps}_{count}_{name}(A: "{one}[{steps}]", B: "{other}[{count}, {steps}]", C: "inout {total}[{count}] local"):
    for j in range({count}):
        for k in range({steps}):
            C[j] += {total}(A[k]) * {total}(B[j, k])
""")


def _pairs(lanes: str, dtype: str) -> None:
    _declare_dot(lanes, 2, dtype, dtype, "float32" if dtype == "bfloat16" else "int32", dtype)


def _fours(lanes: str, dtype: str) -> None:
    _declare_dot(lanes, 4, dtype, "int8" if dtype == "uint8" else "uint8", "int32", dtype)


def _fours_alike(lanes: str, dtype: str) -> None:
    if int(lanes) <= SAME_SIGN_SUMS:
        _declare_dot(lanes, 4, dtype, dtype, "int32", f"{dtype}_{dtype}")


FAMILIES.append((re.compile(r"dot2_(\d+)_(int8|int16|bfloat16)"), _pairs))
FAMILIES.append((re.compile(r"dot4_(\d+)_(int8|uint8)"), _fours))
FAMILIES.append((re.compile(r"dot4_(\d+)_(int8|uint8)_\2"), _fours_alike))
