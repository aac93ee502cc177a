"""Asynchronous bulk copies of boxes between global arrays and shared memory, issued by one thread (PTX ISA,
"cp.async.bulk.tensor"; sm_90 and later).

A tensor map, which the launch makes from the array's address, shape and strides, tells of the array; the rows of a box
lie one after the other in shared memory, swizzled as its layout says. What is outside of the array is 0, and is not
written.
"""

from __future__ import annotations

import re

from loopir.interp.instruction import instruction
from loopir.ir.ops import FAMILIES

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "i8": "int8", "i32": "int32",
          "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}  # fmt: skip
ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "i8": 1, "i32": 4, "e4m3": 1, "e5m2": 1}
MAX_BOX_EXTENT, PART = 256, 16
"""Elements of a box along a dimension; what the bytes of its rows are a multiple of."""

_LOAD = """\
__device__ __forceinline__ void lp_tma_load(void* to, const lp_map* map, void* ring,
                                            {ints}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
               "[%1, {{{at}}}], [%2];"
               :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(map),
                  "r"((unsigned int)__cvta_generic_to_shared(ring)),
                  {given} : "memory");
}}
"""


_ALL = """\
__device__ __forceinline__ void lp_tma_load_all(void* to, const lp_map* map, void* ring, unsigned short blocks,
                                                {ints}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {{{at}}}], [%2], %3;"
               :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(map),
                  "r"((unsigned int)__cvta_generic_to_shared(ring)), "h"(blocks), {given} : "memory");
}}
"""

_STORE = """\
__device__ __forceinline__ void lp_tma_store(const lp_map* map, const void* from, {ints}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%0, {{{at}}}], [%1];"
               :: "l"(map), "r"((unsigned int)__cvta_generic_to_shared(from)), {given} : "memory");
}}
"""


def _stores(rank: int) -> str:
    names = [f"x{n}" for n in range(rank)]
    ints, given = ", ".join(f"int {x}" for x in names), ", ".join(f'"r"({x})' for x in names)
    return _STORE.format(rank=rank, ints=ints, given=given, at=", ".join(f"%{n + 2}" for n in range(rank)))


def _spelt(rank: int) -> str:
    names = [f"x{n}" for n in range(rank)]
    ints, given = ", ".join(f"int {x}" for x in names), ", ".join(f'"r"({x})' for x in names)
    one, all_of = (", ".join(f"%{n + first}" for n in range(rank)) for first in (3, 4))
    return _LOAD.format(rank=rank, ints=ints, at=one, given=given) + _ALL.format(
        rank=rank, ints=ints, at=all_of, given=given
    )


def _fits(h: int, w: int, short: str) -> bool:
    return 2 <= h <= MAX_BOX_EXTENT and 2 <= w <= MAX_BOX_EXTENT and w * ELEMENT_BYTES[short] % PART == 0


def _store(height: str, width: str, short: str) -> None:
    h, w, dtype = int(height), int(width), DTYPES[short]
    if not _fits(h, w, short):
        return
    instruction(
        cuda="lp_tma_store({dst}, {src}, {dst_at});", cuda_prelude="".join(_stores(n) for n in range(2, 6)),
        asynchronous="stores", boxed=("dst", "src"), arch="sm_90",
        doc=f"{h} rows of {w} elements of {dtype} to a global array, while the thread goes on.",
    )(f"""
def tma_store_{h}x{w}_{short}(dst: "out {dtype}[{h}, {w}] global", src: "{dtype}[{h}, {w}] shared"):
    for r, c in grid({h}, {w}):
        dst[r, c] = src[r, c]
""")  # fmt: skip


def _load(height: str, width: str, short: str) -> None:
    h, w, dtype = int(height), int(width), DTYPES[short]
    if not _fits(h, w, short):
        return
    instruction(
        cuda="lp_tma_load({dst}, {src}, {ring}, {src_at});", cuda_prelude="".join(_spelt(n) for n in range(2, 6)),
        cuda_blocks="lp_tma_load_all({dst}, {src}, {ring}, {mask}, {src_at});",
        asynchronous="bytes", boxed=("src", "dst"), arch="sm_90",
        doc=f"{h} rows of {w} elements of {dtype}, while the thread goes on.",
    )(f"""
def tma_load_{h}x{w}_{short}(dst: "out {dtype}[{h}, {w}] shared", src: "{dtype}[{h}, {w}] global"):
    for r, c in grid({h}, {w}):
        dst[r, c] = src[r, c]
""")  # fmt: skip


FAMILIES.append((re.compile(rf"tma_load_(\d+)x(\d+)_({'|'.join(DTYPES)})"), _load))
FAMILIES.append((re.compile(rf"tma_store_(\d+)x(\d+)_({'|'.join(DTYPES)})"), _store))
