"""Warp shuffles: each thread of a warp receives a value from another lane, without memory.

The 32 threads of a warp are its lanes; thread t of a block, counted along x, then y, then z, is lane t % 32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopir.ir.ops import Intrinsic

ANY = frozenset({"float", "int", "uint", "bool"})
_EXCHANGE = """\
template <class T> __device__ __forceinline__ T lp_lane_xor(T x, int bit) {
  return (T)__shfl_xor_sync(0xffffffffu, x, bit);
}
"""


def _same(x: Any) -> Any:
    return x


def _across(bit: int) -> Intrinsic:
    lane: Callable[[int], int] = lambda n: n ^ bit  # noqa: E731
    return Intrinsic(
        f"lane_xor_{bit}", 1, ANY, _same, lane=lane, cuda=dict.fromkeys(ANY, f"lp_lane_xor<{{T}}>({{0}}, {bit})"),
        cuda_prelude=_EXCHANGE, doc=f"x of the lane whose number differs in the bit {bit}.",
    )  # fmt: skip


LANE_XOR = {bit: _across(bit) for bit in (1, 2, 4, 8, 16)}
"""The exchanges of lanes whose numbers differ in one bit, by that bit."""
