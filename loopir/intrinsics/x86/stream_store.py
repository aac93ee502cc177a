"""Non-temporal vector stores: results larger than the caches are written without reading them or evicting other data.

Intel SDM, volume 1, 10.4.6.2, "Caching of Temporal vs. Non-Temporal Data".
A vector whose address is no multiple of 16 bytes is written as any other.
"""

from __future__ import annotations

import re

from loopir.interp.instruction import Pointer, instruction
from loopir.ir.dtypes import BY_NAME
from loopir.ir.ops import FAMILIES

MAX_ELEMENTS = 64
"""Elements of a vector, and its bytes at least 16."""


def _stream(elements: str, dtype: str) -> None:
    count, t = int(elements), BY_NAME.get(dtype)
    if t is None or not 2 <= count <= MAX_ELEMENTS or count & (count - 1) or count * t.bytes < 16:
        return
    run = Pointer((0,), run=count)
    instruction(llvm="stream", at={"dst": run, "src": run}, doc=f"{count} elements of {dtype}, past the caches.")(f"""
def stream_{count}_{dtype}(dst: "out {dtype}[{count}] global", src: "{dtype}[{count}] local"):
    for e in range({count}):
        dst[e] = src[e]
""")


FAMILIES.append((re.compile(r"stream_(\d+)_(\w+)"), _stream))
