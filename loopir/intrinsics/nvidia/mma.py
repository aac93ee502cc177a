"""Tensor cores by `mma.sync`, and `ldmatrix`, which fills their operands from shared memory (PTX ISA, "Warp-level
matrix instructions"; sm_80 and later).

Lane t of a warp holds register v of a tile: `A16`, `AT16`, `B16`, `BT16` and `C` say which element that is. `ldmatrix`
takes rows of eight 16-bit elements, an address from each lane, and gives pairs of registers of the same tiles.
"""

from __future__ import annotations

from itertools import product

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.ops import monoids as monoids  # the meanings fold
from loopir.ir.grammar import Index, Var

C = "fragment(32, 4, lambda t, v: (t // 4 + v // 2 * 8, t % 4 * 2 + v % 2))"
A16 = "fragment(32, 8, lambda t, v: (t // 4 + v // 2 % 2 * 8, t % 4 * 2 + v % 2 + v // 4 * 8))"
AT16 = "fragment(32, 8, lambda t, v: (t % 4 * 2 + v % 2 + v // 4 * 8, t // 4 + v // 2 % 2 * 8))"
BT16 = "fragment(32, 4, lambda t, v: (t // 4, t % 4 * 2 + v % 2 + v // 2 * 8))"
B16 = "fragment(32, 4, lambda t, v: (t % 4 * 2 + v % 2 + v // 2 * 8, t // 4))"

_MMA16 = """\
__device__ __forceinline__ void lp_mma_{short}(float* c, const void* a, const void* b) {{
  const unsigned int *x = (const unsigned int*)a, *y = (const unsigned int*)b;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{short}.{short}.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}}
"""
LDMATRIX = """\
__device__ __forceinline__ void lp_ldmatrix_x4{name}(void* to, const void* row) {{
  unsigned int* r = (unsigned int*)to;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((unsigned int)__cvta_generic_to_shared(row)) : "memory");
}}
"""


LEFT = {"": ("A[i, k]", "[16, 16]", A16, "A"), "_at": ("A[k, i]", "[16, 16]", AT16, "A.T")}
RIGHT = {"": ("B[k, j]", "[16, 8]", B16, "B"), "_bt": ("B[j, k]", "[8, 16]", BT16, "B.T")}
"""How an operand may lie, by what it adds to an instruction's name: what is read, its shape and layout, what it is."""


def _declare_mma(short: str, dtype: str, left: str, right: str) -> None:
    """Sums are float32; how they are rounded, the hardware says."""
    (a, rows, a_layout, a_told), (b, columns, b_layout, b_told) = LEFT[left], RIGHT[right]
    instruction(
        level="warp", cuda=f"lp_mma_{short}({{C}}, {{A}}, {{B}});", cuda_prelude=_MMA16.format(short=short),
        doc=f"C += {a_told} @ {b_told} of {dtype}, 16 x 16 by 16 x 8, in float32.",
    )(f"""
def mma_m16n8k16_{short}{left}{right}(C: "inout float32[16, 8] fragment {C}", A: "{dtype}{rows} fragment {a_layout}",
                                      B: "{dtype}{columns} fragment {b_layout}"):
    for i, j, k in grid(16, 8, 16):
        C[i, j] += float32({a}) * float32({b})
""")  # fmt: skip


def _row(lane: Var) -> tuple[Index, Index]:
    """The two upper 8 x 8 parts come from the lower half of the warp: first 8 rows, then the next 8."""
    return lane % 16, lane // 16 * 8


def _row_transposed(lane: Var) -> tuple[Index, Index]:
    """As `_row`, but the parts to the right are meant before those below."""
    return lane % 8 + lane // 16 * 8, lane // 8 % 2 * 8


LOADS = {
    "a": ("i, k", A16, False, _row, "A tile of the left operand, from rows."),
    "at": ("k, i", AT16, True, _row_transposed, "A tile of the transposed left operand, from rows of k."),
    "b": ("k, j", B16, True, _row, "Two tiles of the right operand side by side, from rows of k."),
    "bt": (
        "j, k",
        BT16,
        False,
        _row_transposed,
        "Two tiles of a transposed right operand, one upon the other, from rows.",
    ),
}
"""What `ldmatrix` fills: by operand its indices, its layout, whether 8 x 8 parts are turned, and lanes' addresses."""


def _load(short: str, dtype: str, operand: str) -> None:
    at, layout, turned, address, doc = LOADS[operand]
    name, trans = ("_trans", ".trans") if turned else ("", "")
    instruction(
        level="warp", cuda=f"lp_ldmatrix_x4{name}({{dst}}, {{src}});",
        cuda_prelude=LDMATRIX.format(name=name, trans=trans), at={"src": Pointer(address, run=8)}, doc=doc,
    )(f"""
def ldmatrix_{operand}_{short}(dst: "out {dtype}[16, 16] fragment {layout}", src: "{dtype}[16, 16] shared"):
    for {at} in grid(16, 16):
        dst[{at}] = src[{at}]
""")  # fmt: skip


for _short, _dtype in (("bf16", "bfloat16"), ("f16", "float16")):
    for _left, _right in product(LEFT, RIGHT):
        _declare_mma(_short, _dtype, _left, _right)
    for _operand in LOADS:
        _load(_short, _dtype, _operand)
