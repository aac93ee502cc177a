"""Tensor cores by `mma.sync`, and `ldmatrix`, which fills their operands from shared memory (PTX ISA, "Warp-level
matrix instructions"; sm_80 and later).

Lane t of a warp holds register v of a tile: `A16`, `B16`, `BT16` and `C` say which element that is. `ldmatrix` takes
rows of eight 16-bit elements, an address from each lane, and gives pairs of registers of the same tiles.
"""

from __future__ import annotations

from loopir.intrinsics import monoids as monoids  # the meanings fold
from loopir.ir.instruction import Pointer, instruction

C = "fragment(32, 4, lambda t, v: (t // 4 + v // 2 * 8, t % 4 * 2 + v % 2))"
A16 = "fragment(32, 8, lambda t, v: (t // 4 + v // 2 % 2 * 8, t % 4 * 2 + v % 2 + v // 4 * 8))"
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
_LDMATRIX = """\
__device__ __forceinline__ void lp_ldmatrix_x4{name}(void* to, const void* row) {{
  unsigned int* r = (unsigned int*)to;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((unsigned int)__cvta_generic_to_shared(row)) : "memory");
}}
"""


def _family(short: str, dtype: str) -> None:
    """The instructions on 16-bit floats of one kind. The sums are float32; how they are rounded, the hardware says."""
    instruction(
        level="warp", cuda=f"lp_mma_{short}({{C}}, {{A}}, {{B}});", cuda_prelude=_MMA16.format(short=short),
        doc=f"C += A @ B of {dtype}, 16 x 16 by 16 x 8, in float32.",
    )(f"""
def mma_m16n8k16_{short}(C: "inout float32[16, 8] fragment {C}", A: "{dtype}[16, 16] fragment {A16}",
                         B: "{dtype}[16, 8] fragment {B16}"):
    for i, j, k in grid(16, 8, 16):
        C[i, j] += float32(A[i, k]) * float32(B[k, j])
""")  # fmt: skip
    instruction(
        level="warp", cuda=f"lp_mma_{short}({{C}}, {{A}}, {{B}});", cuda_prelude=_MMA16.format(short=short),
        doc=f"C += A @ B.T of {dtype}, 16 x 16 by (8 x 16).T, in float32.",
    )(f"""
def mma_m16n8k16_{short}_bt(C: "inout float32[16, 8] fragment {C}", A: "{dtype}[16, 16] fragment {A16}",
                            B: "{dtype}[8, 16] fragment {BT16}"):
    for i, j, k in grid(16, 8, 16):
        C[i, j] += float32(A[i, k]) * float32(B[j, k])
""")  # fmt: skip
    instruction(
        level="warp", cuda="lp_ldmatrix_x4({dst}, {src});", cuda_prelude=_LDMATRIX.format(name="", trans=""),
        at={"src": Pointer(lambda lane: (lane % 16, lane // 16 * 8), run=8)},
        doc="A tile of the left operand, from rows.",
    )(f"""
def ldmatrix_a_{short}(dst: "out {dtype}[16, 16] fragment {A16}", src: "{dtype}[16, 16] shared"):
    for i, k in grid(16, 16):
        dst[i, k] = src[i, k]
""")  # fmt: skip
    instruction(
        level="warp", cuda="lp_ldmatrix_x4_trans({dst}, {src});",
        cuda_prelude=_LDMATRIX.format(name="_trans", trans=".trans"),
        at={"src": Pointer(lambda lane: (lane % 16, lane // 16 * 8), run=8)},
        doc="Two tiles of the right operand side by side, from rows of k.",
    )(f"""
def ldmatrix_b_{short}(dst: "out {dtype}[16, 16] fragment {B16}", src: "{dtype}[16, 16] shared"):
    for k, j in grid(16, 16):
        dst[k, j] = src[k, j]
""")  # fmt: skip
    instruction(
        level="warp", cuda="lp_ldmatrix_x4({dst}, {src});", cuda_prelude=_LDMATRIX.format(name="", trans=""),
        at={"src": Pointer(lambda lane: (lane % 8 + lane // 16 * 8, lane // 8 % 2 * 8), run=8)},
        doc="Two tiles of a transposed right operand, one below the other, from its rows.",
    )(f"""
def ldmatrix_bt_{short}(dst: "out {dtype}[16, 16] fragment {BT16}", src: "{dtype}[16, 16] shared"):
    for j, k in grid(16, 16):
        dst[j, k] = src[j, k]
""")  # fmt: skip


_family("bf16", "bfloat16")
_family("f16", "float16")
