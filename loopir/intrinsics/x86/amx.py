"""Tile products of x86 CPUs with AMX: 16 rows by 16 columns, over 64 bytes of the reduced loop.

A tile is a register of 16 rows of 64 bytes, of which there are eight (Intel SDM, volume 1, chapter 18); here they are a
memory, `tiles`, that these instructions alone touch. Sums lie in one row after row, as does the left operand; of the
right one, as many steps of the reduced loop as 4 bytes hold lie side by side, then the columns, then the next steps.
Products of integers of 8 bits are exact in int32. TDPBF16PS adds up pairs of products of bfloat16 in float32, to
nearest; denormal numbers that it takes or makes are 0, so n products in one sum are off by less than n * 2^-126 * (1 +
the largest |A| + the largest |B|), besides what the order of float32 sums is.
"""

from __future__ import annotations

import re

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.ops import monoids as monoids  # the meanings fold
from loopir.ir.dtypes import BY_NAME
from loopir.ir.grammar import Index, Var
from loopir.ir.ops import FAMILIES, Memory

TILE_ROWS, TILE_ROW_BYTES, DOT_BYTES = 16, 64, 4
"""Rows of a tile, bytes of each, and bytes that a sum takes up together."""
TILES = Memory("tiles", capacity=8 * TILE_ROWS * TILE_ROW_BYTES, unit=TILE_ROWS * TILE_ROW_BYTES)


def _left(dtype: str) -> tuple[str, Pointer]:
    """The shape of a left operand, or of sums, in a tile, and how it lies there."""
    across = TILE_ROW_BYTES // BY_NAME[dtype].bytes
    return f"{dtype}[{TILE_ROWS}, {across}]", Pointer((0, 0), run=TILE_ROWS * across)


def _right(dtype: str) -> tuple[str, Pointer]:
    """The same of a right operand."""
    near = DOT_BYTES // BY_NAME[dtype].bytes

    def order(n: Var) -> tuple[Index, Index]:
        return n // (TILE_ROWS * near) * near + n % near, n // near % TILE_ROWS

    return f"{dtype}[{TILE_ROWS * near}, {TILE_ROWS}]", Pointer((0, 0), run=TILE_ROWS * TILE_ROWS * near, order=order)


def _dot(left: str, right: str | None) -> None:
    """C += A @ B of tiles."""
    right = right or left
    sums = "float32" if BY_NAME[left].is_float else "int32"
    if BY_NAME[left].is_float != BY_NAME[right].is_float:
        return
    (c, c_at), (a, a_at), (b, b_at) = _left(sums), _left(left), _right(right)
    instruction(
        llvm="tile_dot", at={"C": c_at, "A": a_at, "B": b_at},
        doc=f"C += A @ B of tiles, {left} by {right} in {sums}.",
    )(f"""
def tile_dot_{left}{'' if right == left else f'_{right}'}(C: "inout {c} tiles", A: "{a} tiles", B: "{b} tiles"):
    for i, j, k in grid({TILE_ROWS}, {TILE_ROWS}, {TILE_ROW_BYTES // BY_NAME[left].bytes}):
        C[i, j] += {sums}(A[i, k]) * {sums}(B[k, j])
""")  # fmt: skip


def _zero(dtype: str) -> None:
    """A tile of sums, or of a left operand, that is 0."""
    shape, held = _left(dtype)
    zero = "0.0" if BY_NAME[dtype].is_float else "0"
    instruction(llvm="tile_zero", at={"T": held}, doc=f"A tile of zeros of {dtype}.")(f"""
def tile_zero_{dtype}(T: "out {shape} tiles"):
    for r, c in grid({TILE_ROWS}, {held.run // TILE_ROWS}):
        T[r, c] = {zero}
""")


def _define_transfer(what: str, dtype: str) -> None:
    """A tile from memory, or back to it, where its rows are equally far from each other."""
    shape, held = _left(dtype)
    at = {"T": held, "M": Pointer((0, 0), run=held.run // TILE_ROWS, rows=True)}
    params = [f'T: "{{}}{shape} tiles"', f'M: "{{}}{shape}"'][:: 1 if what == "load" else -1]
    to, source = (x[0] for x in params)
    instruction(llvm=f"tile_{what}", at=at, doc=f"A tile of {dtype}, its rows {what}ed.")(f"""
def tile_{what}_{dtype}({params[0].format("out ")}, {params[1].format("")}):
    for r, c in grid({TILE_ROWS}, {held.run // TILE_ROWS}):
        {to}[r, c] = {source}[r, c]
""")


def _right_loaded(dtype: str) -> None:
    """A tile of a right operand, from memory where it lies as it does in the tile."""
    shape, held = _right(dtype)
    instruction(llvm="tile_load", at={"T": held, "M": held}, doc=f"A right operand's tile of {dtype}, loaded.")(f"""
def tile_load_{dtype}_right(T: "out {shape} tiles", M: "{shape}"):
    for r, c in grid({held.run // TILE_ROWS}, {TILE_ROWS}):
        T[r, c] = M[r, c]
""")


_NARROW = "u?int8|bfloat16"
FAMILIES.append((re.compile(rf"tile_dot_({_NARROW})(?:_({_NARROW}))?"), _dot))
FAMILIES.append((re.compile(rf"tile_zero_({_NARROW}|int32|float32)"), _zero))
FAMILIES.append((re.compile(rf"tile_(load|store)_({_NARROW}|int32|float32)"), _define_transfer))
FAMILIES.append((re.compile(rf"tile_load_({_NARROW})_right"), _right_loaded))
