"""Tensor cores by `mma.sync` on float32 rounded to TF32 (PTX ISA, "Warp-level matrix instructions"; sm_80 on).

The rounding is part of what the instruction means (`loopir.intrinsics.ops.rounding`), so it matches `tf32(a) * tf32(b)`
or, to cut off, `tf32_below(a) * tf32_below(b)`, and no plain product. `ldmatrix` takes four elements for eight of 16
bits; it cannot turn them.
"""

from __future__ import annotations

from itertools import product

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.nvidia.mma import LDMATRIX, C
from loopir.intrinsics.ops import monoids as monoids, rounding as rounding  # the meanings fold, and round
from loopir.ir.grammar import Index, Var

A32 = "fragment(32, 4, lambda t, v: (t // 4 + v % 2 * 8, t % 4 + v // 2 * 4))"
AT32 = "fragment(32, 4, lambda t, v: (t % 4 + v // 2 * 4, t // 4 + v % 2 * 8))"
B32 = "fragment(32, 2, lambda t, v: (t % 4 + v * 4, t // 4))"
BT32 = "fragment(32, 2, lambda t, v: (t // 4, t % 4 + v * 4))"
CONVERSIONS = {
    "tf32": 'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"({0}) : "f"({1}))',
    "tf32_below": "{0} = __float_as_uint({1}); {0} = {1} == {1} ? {0} & 0xFFFFE000u : {0}",
}
"""How an operand's element is converted, by the function that says so in programs; a NaN stays one."""
_MMA32 = """\
__device__ __forceinline__ void lp_mma_%s(float* c, const float* a, const float* b) {
  unsigned int x[4], y[2];
  for (int n = 0; n < 4; ++n) { %s; }
  for (int n = 0; n < 2; ++n) { %s; }
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, {%%8, %%9}, {%%0, %%1, %%2, %%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}
"""
LEFT32 = {"": ("A[i, k]", "[16, 8]", A32, "A"), "_at": ("A[k, i]", "[8, 16]", AT32, "A.T")}
RIGHT32 = {"": ("B[k, j]", "[8, 8]", B32, "B"), "_bt": ("B[j, k]", "[8, 8]", BT32, "B.T")}


def _product32(rounding: str, convert: str, left: str, right: str) -> None:
    """Operands are float32, rounded to TF32 by the instruction's own conversion, which the meaning has."""
    prelude = _MMA32 % (rounding, convert.format("x[n]", "a[n]"), convert.format("y[n]", "b[n]"))
    (a, rows, a_layout, a_told), (b, columns, b_layout, b_told) = LEFT32[left], RIGHT32[right]
    instruction(
        level="warp", cuda=f"lp_mma_{rounding}({{C}}, {{A}}, {{B}});", cuda_prelude=prelude, arch="sm_80",
        doc=f"C += {rounding}({a_told}) @ {rounding}({b_told}) of float32, 16 x 8 by 8 x 8.",
    )(f"""
def mma_m16n8k8_{rounding}{left}{right}(
    C: "inout float32[16, 8] fragment {C}", A: "float32{rows} fragment {a_layout}",
    B: "float32{columns} fragment {b_layout}"
):
    for i, j, k in grid(16, 8, 8):
        C[i, j] += {rounding}({a}) * {rounding}({b})
""")  # fmt: skip


def _row32(lane: Var) -> tuple[Index, Index]:
    """As `_row`, of parts that are four elements wide."""
    return lane % 16, lane // 16 * 4


def _turned32(lane: Var) -> tuple[Index, Index]:
    """As `_turned`, of parts that are four elements wide."""
    return lane % 8 + lane // 16 * 8, lane // 8 % 2 * 4


LOADS32 = {
    "a": ("i, k", "[16, 8]", A32, _row32, "left"),
    "bt": ("j, k", "[16, 8]", BT32, _turned32, "transposed right"),
}


def _load32(operand: str) -> None:
    """A row of eight 16-bit elements is one of four of float32, and a lane's pair of them one of these."""
    at, shape, layout, address, told = LOADS32[operand]
    instruction(
        level="warp", cuda="lp_ldmatrix_x4({dst}, {src});", cuda_prelude=LDMATRIX.format(name="", trans=""),
        at={"src": Pointer(address, run=4)}, doc=f"Tiles of the {told} operand, of float32, from rows.",
    )(f"""
def ldmatrix_{operand}_f32(dst: "out float32{shape} fragment {layout}", src: "float32{shape} shared"):
    for {at} in grid(16, 8):
        dst[{at}] = src[{at}]
""")  # fmt: skip


for (_rounding, _convert), _left, _right in product(CONVERSIONS.items(), LEFT32, RIGHT32):
    _product32(_rounding, _convert, _left, _right)
for _operand in LOADS32:
    _load32(_operand)
