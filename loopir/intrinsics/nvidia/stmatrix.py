"""Stores of 16-bit fragments to shared memory, in 16-byte pieces of rows (PTX ISA, "stmatrix"; sm_90 on).

Four parts of 8 x 8 elements of a tile of 16 x 16 are written by a warp at once, or in turn by the four warps of a
warpgroup, which have 16 rows each; the address of a row comes from a lane. Parts may be turned around on the way.
"""

from __future__ import annotations

from itertools import product

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.nvidia.mma import A16
from loopir.intrinsics.nvidia.wgmma import warpgroup_fragment
from loopir.ir.grammar import LANES, Index, Var
from loopir.ir.ops import IssueScope

_STMATRIX = """\
__device__ __forceinline__ void lp_stmatrix_x4{name}(void* row, const void* from) {{
  const unsigned int* r = (const unsigned int*)from;
  asm volatile("stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%0], {{%1, %2, %3, %4}};"
               :: "r"((unsigned int)__cvta_generic_to_shared(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}}
"""


def _row(lane: Var) -> tuple[Index, Index]:
    """The first 16 lanes give the rows of the left half of a warp's tile, the others those of the right one."""
    return lane // LANES * 16 + lane % 16, lane % LANES // 16 * 8


def _row_transposed(lane: Var) -> tuple[Index, Index]:
    """As `_row`, of the tile that is turned around: what is below there is to the right."""
    return lane % LANES // 16 * 8 + lane % 8, lane // LANES * 16 + lane // 8 % 2 * 8


def _store(short: str, dtype: str, level: IssueScope, turned: bool) -> None:
    rows, layout = (16, A16) if level == "warp" else (64, warpgroup_fragment(2))
    shape, at = (f"16, {rows}", "c, r") if turned else (f"{rows}, 16", "r, c")
    name, trans = ("_trans", ".trans") if turned else ("", "")
    instruction(
        level=level, cuda=f"lp_stmatrix_x4{name}({{dst}}, {{src}});", arch="sm_90",
        cuda_prelude=_STMATRIX.format(name=name, trans=trans),
        at={"dst": Pointer(_row_transposed if turned else _row, run=8)},
        doc=f"A fragment of {rows} x 16 elements of {dtype} to shared memory{', turned around' if turned else ''}.",
    )(f"""
def stmatrix_{rows}x16_{short}{'_t' if turned else ''}(dst: "out {dtype}[{shape}] shared",
                                                      src: "{dtype}[{rows}, 16] fragment {layout}"):
    for r, c in grid({rows}, 16):
        dst[{at}] = src[r, c]
""")  # fmt: skip


_LEVELS: tuple[IssueScope, ...] = ("warp", "warpgroup")
for (_short, _dtype), _level, _turn in product((("bf16", "bfloat16"), ("f16", "float16")), _LEVELS, (False, True)):
    _store(_short, _dtype, _level, _turn)
