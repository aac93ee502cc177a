"""Products of tiles on an x86 CPU with AMX: 16 rows by 16 columns, and 64 bytes of the reduced loop (Intel SDM, volume 1,
chapter 18).

A tile is a register of 16 rows of 64 bytes, of which there are eight; here they are a memory, `tiles`, that these
instructions alone touch. Sums lie in one row after row, as does the left operand; of the right one, as many steps of
the reduced loop as 4 bytes hold lie side by side, then the columns, then the next steps. Products of integers of 8 bits
are exact in int32. TDPBF16PS adds up two products of bfloat16 at a time in float32, to nearest; denormal numbers that it
takes or makes are 0, so n products in one sum are off by less than n * 2^-126 * (1 + the largest |A| + the largest |B|),
besides what the order of float32 sums is.
"""

from __future__ import annotations

import re

from loopir.intrinsics import monoids as monoids  # the meanings fold
from loopir.ir.dtypes import BY_NAME
from loopir.ir.grammar import Var
from loopir.ir.instruction import Pointer, instruction
from loopir.ir.ops import FAMILIES, Memory

ROWS, BYTES, WORD = 16, 64, 4
"""Rows of a tile, bytes of each, and bytes that a sum takes up together."""
TILES = Memory("tiles", capacity=8 * ROWS * BYTES, unit=ROWS * BYTES)
SIDES = {"sums": 4, "left": 0, "right": 0}


def _left(dtype: str) -> tuple[str, Pointer]:
    """The shape of a left operand, or of sums, in a tile, and how it lies there."""
    across = BYTES // BY_NAME[dtype].bytes
    return f"{dtype}[{ROWS}, {across}]", Pointer((0, 0), run=ROWS * across)


def _right(dtype: str) -> tuple[str, Pointer]:
    """The same of a right operand."""
    near = WORD // BY_NAME[dtype].bytes

    def order(n: Var) -> tuple[object, object]:
        return n // (ROWS * near) * near + n % near, n // near % ROWS

    return f"{dtype}[{ROWS * near}, {ROWS}]", Pointer((0, 0), run=ROWS * ROWS * near, order=order)  # type: ignore[arg-type]


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
    for i, j, k in grid({ROWS}, {ROWS}, {BYTES // BY_NAME[left].bytes}):
        C[i, j] += {sums}(A[i, k]) * {sums}(B[k, j])
""")  # fmt: skip


def _moved(what: str, dtype: str, side: str | None) -> None:
    """A tile from memory or back: rows that lie anywhere, equally far from each other, or a right operand as it lies."""
    if dtype not in BY_NAME or BY_NAME[dtype].bytes > WORD or (what != "load" and side):
        return
    shape, held = _right(dtype) if side else _left(dtype)
    rows = BYTES // BY_NAME[dtype].bytes
    at = held if side else Pointer((0, 0), run=rows, rows=True)
    down, across = (ROWS * rows // ROWS, ROWS) if side else (ROWS, rows)
    name = f"tile_{what}_{dtype}{side or ''}"
    if what == "zero":
        instruction(llvm="tile_zero", at={"T": held}, doc=f"A tile of zeros of {dtype}.")(f"""
def {name}(T: "out {shape} tiles"):
    for r, c in grid({down}, {across}):
        T[r, c] = {'0.0' if BY_NAME[dtype].is_float else '0'}
""")
    else:
        one, other = ("T", "M") if what == "load" else ("M", "T")
        text = f"tiles", "global"
        instruction(llvm=f"tile_{what}", at={"T": held, "M": at}, doc=f"A tile of {dtype}, {what}ed.")(f"""
def {name}({one}: "out {shape} {'tiles' if one == 'T' else ''}", {other}: "{shape} {'tiles' if other == 'T' else ''}"):
    for r, c in grid({down}, {across}):
        {one}[r, c] = {other}[r, c]
""")


FAMILIES.append((re.compile(r"tile_dot_(u?int8|bfloat16)(?:_(u?int8))?"), _dot))
FAMILIES.append((re.compile(r"tile_(load|store|zero)_(\w+?)(_right)?"), _moved))
