"""Barriers in shared memory and tensor maps, as CUDA C spells them."""

from __future__ import annotations

from dataclasses import dataclass

from loopir.ir.grammar import Box, Index, Issue, Kernel
from loopir.ir.layouts import strides_of
from loopir.ir.walk import statements

PRELUDE = """\
struct __align__(64) lp_map { unsigned long long words[16]; };
__device__ __forceinline__ unsigned int lp_shared_at(const void* p) {
  return (unsigned int)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void lp_ring_init(unsigned long long* ring, int slots, int arrivals) {
  for (int n = 0; n < slots; ++n)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(lp_shared_at(ring + n)), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void lp_ring_expect(unsigned long long* slot, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(lp_shared_at(slot)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void lp_ring_wait(unsigned long long* slot, unsigned int& turns, int n, unsigned int turn) {
  asm volatile("{\\n.reg .pred p;\\nlp_wait_%=:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n"
               "@!p bra lp_wait_%=;\\n}" :: "r"(lp_shared_at(slot)), "r"((turns >> n & 1u) ^ turn) : "memory");
  turns ^= 1u << n;
}
"""


@dataclass(frozen=True, slots=True)
class MapInfo:
    """A tensor map that a launch makes: of which buffer, its shape and strides in elements, the box, and the bytes of
    rows that are swizzled in shared memory, or 0."""

    buffer: str
    dtype: str
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]
    box: tuple[int, ...]
    span: int


def maps_of(kernel: Kernel) -> dict[MapInfo, str]:
    """The tensor maps that `kernel` takes, each with the name of its parameter."""
    boxes = [b for s in statements(kernel.body) if isinstance(s, Issue) for b in s.boxes]
    return {info: f"lp_map_{n}" for n, info in enumerate(dict.fromkeys(map(map_of, boxes)))}


def map_of(b: Box) -> MapInfo:
    return MapInfo(b.buffer.name, b.buffer.dtype.name, b.buffer.shape, strides_of(b.buffer), b.sizes, b.span)
