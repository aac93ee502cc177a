"""Interleave rows on a CPU: elements of a few rows in one column become neighbours.

Panels of small numbers hold the steps of the reduced loop so, by twos or fours for each column, as the instructions
take them that add up their products; a step at a time that would be an element a store. What is converted is so on the
way.
"""

from __future__ import annotations

import re

from loopir.interp.instruction import Pointer, instruction
from loopir.ir.dtypes import BY_NAME
from loopir.ir.grammar import Index, Var
from loopir.ir.ops import FAMILIES

MAX_COLUMNS = 64
"""Columns."""


def _weave(rows: str, columns: str, dtype: str, to: str | None) -> None:
    height, width = int(rows), int(columns)
    if height not in (2, 4) or not 4 <= width <= MAX_COLUMNS or width & (width - 1):
        return
    made = to or dtype
    if to and not BY_NAME[to].widens(BY_NAME[dtype]):
        return

    def order(n: Var) -> tuple[Index, Index]:
        return n % height, n // height

    at = {
        "P": Pointer((0, 0), run=height * width, order=order),
        "M": Pointer((0, 0), run=width, rows=True),
    }
    value = f"{to}(M[r, c])" if to else "M[r, c]"
    name, shape = f"weave_{rows}_{columns}_{dtype}" + (f"_{to}" if to else ""), f"[{height}, {width}]"
    instruction(llvm="weave", at=at, doc=f"{height} rows of {width} elements of {dtype}, woven, as {made}.")(f"""
def {name}(P: "out {made}{shape}", M: "{dtype}{shape}"):
    for r, c in grid({height}, {width}):
        P[r, c] = {value}
""")


_NARROW = "int8|uint8|int16|bfloat16"
FAMILIES.append((re.compile(rf"weave_(\d+)_(\d+)_({_NARROW})(?:_(int16))?"), _weave))
