"""Tensor cores by `mma.sync` on elements of 8 bits: integers on sm_80 and later, floats on sm_89 and later (PTX ISA,
"Matrix Fragments for mma.m16n8k32").

A register has four elements along the reduced loop. `ldmatrix` takes sixteen of them for eight of 16 bits; it cannot
turn them, so the fragments of an operand whose other loop runs along its rows are loaded element by element.
"""

from __future__ import annotations

from itertools import product

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.nvidia.mma import LDMATRIX, C
from loopir.intrinsics.ops import monoids as monoids  # the meanings fold
from loopir.ir.grammar import Index, Var

A8 = "fragment(32, 16, lambda t, v: (t // 4 + v // 4 % 2 * 8, t % 4 * 4 + v % 4 + v // 8 * 16))"
AT8 = "fragment(32, 16, lambda t, v: (t % 4 * 4 + v % 4 + v // 8 * 16, t // 4 + v // 4 % 2 * 8))"
B8 = "fragment(32, 8, lambda t, v: (t % 4 * 4 + v % 4 + v // 4 * 16, t // 4))"
BT8 = "fragment(32, 8, lambda t, v: (t // 4, t % 4 * 4 + v % 4 + v // 4 * 16))"
_MMA8 = """\
__device__ __forceinline__ void lp_mma_{short}({sums}* c, const void* a, const void* b) {{
  const unsigned int *x = (const unsigned int*)a, *y = (const unsigned int*)b;
  asm volatile("mma.sync.aligned.m16n8k32.row.col.{total}.{short}.{short}.{total} "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+{kind}"(c[0]), "+{kind}"(c[1]), "+{kind}"(c[2]), "+{kind}"(c[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}}
"""
LEFT8 = {"": ("A[i, k]", "[16, 32]", A8, "A"), "_at": ("A[k, i]", "[32, 16]", AT8, "A.T")}
RIGHT8 = {"": ("B[k, j]", "[32, 8]", B8, "B"), "_bt": ("B[j, k]", "[8, 32]", BT8, "B.T")}
TYPES = (
    ("s8", "i8", "int8", "int32", ""), ("u8", "u8", "uint8", "int32", ""),
    ("e4m3", "e4m3", "float8_e4m3fn", "float32", "sm_89"), ("e5m2", "e5m2", "float8_e5m2", "float32", "sm_89"),
)  # fmt: skip
"""What elements are called by products and by copies, their type, that of the sums, and the first GPUs that have it."""


def _product8(short: str, dtype: str, sums: str, arch: str, left: str, right: str) -> None:
    """Sums of floats are float32; how they are rounded, the hardware says."""
    (a, rows, a_layout, a_name), (b, columns, b_layout, b_name) = LEFT8[left], RIGHT8[right]
    words = {"sums": "int", "total": "s32", "kind": "r"} if sums == "int32" else {
        "sums": "float", "total": "f32", "kind": "f"}  # fmt: skip
    instruction(
        level="warp", cuda=f"lp_mma_{short}({{C}}, {{A}}, {{B}});", cuda_prelude=_MMA8.format(short=short, **words),
        arch=arch, doc=f"C += {a_name} @ {b_name} of {dtype}, 16 x 32 by 32 x 8, in {sums}.",
    )(f"""
def mma_m16n8k32_{short}{left}{right}(C: "inout {sums}[16, 8] fragment {C}", A: "{dtype}{rows} fragment {a_layout}",
                                      B: "{dtype}{columns} fragment {b_layout}"):
    for i, j, k in grid(16, 8, 32):
        C[i, j] += {sums}({a}) * {sums}({b})
""")  # fmt: skip


def _row8(lane: Var) -> tuple[Index, Index]:
    """As for 16 bits, of parts that are sixteen elements wide."""
    return lane % 16, lane // 16 * 16


def _turned8(lane: Var) -> tuple[Index, Index]:
    """The same, but the parts to the right are meant before those below."""
    return lane % 8 + lane // 16 * 8, lane // 8 % 2 * 16


LOADS8 = {"a": ("i, k", A8, _row8, "left"), "bt": ("j, k", BT8, _turned8, "transposed right")}


def _load8(short: str, dtype: str, operand: str) -> None:
    """A row of eight 16-bit elements is one of sixteen bytes, and a lane's pair of them four of these."""
    at, layout, address, which = LOADS8[operand]
    instruction(
        level="warp", cuda="lp_ldmatrix_x4({dst}, {src});", cuda_prelude=LDMATRIX.format(name="", trans=""),
        at={"src": Pointer(address, run=16)}, doc=f"Tiles of the {which} operand, of {dtype}, from rows.",
    )(f"""
def ldmatrix_{operand}_{short}(dst: "out {dtype}[16, 32] fragment {layout}", src: "{dtype}[16, 32] shared"):
    for {at} in grid(16, 32):
        dst[{at}] = src[{at}]
""")  # fmt: skip


for _short, _copied, _dtype, _sums, _arch in TYPES:
    for _left, _right in product(LEFT8, RIGHT8):
        _product8(_short, _dtype, _sums, _arch, _left, _right)
    for _operand in LOADS8:
        _load8(_copied, _dtype, _operand)
