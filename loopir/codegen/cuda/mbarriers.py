"""Emit mbarriers, tensor maps and named hardware barriers in CUDA C."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from loopir.ir.grammar import GROUP_WARPS, LANES, Barrier, Index, InstrCall, Int, Kernel, Loop, SetMaxRegs, TmaBox, Turn
from loopir.ir.layout.layouts import strides_of
from loopir.ir.traverse.walk import statements

MBARRIER_PRELUDE = """\
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
__device__ __forceinline__ void lp_ring_arrive(unsigned long long* slot) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(lp_shared_at(slot)) : "memory");
}
__device__ __forceinline__ void lp_ring_arrive(unsigned long long* slot, int block) {
  asm volatile("{\\n.reg .b32 there;\\nmapa.shared::cluster.u32 there, %0, %1;\\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\\n}" :: "r"(lp_shared_at(slot)), "r"(block) : "memory");
}
__device__ __forceinline__ void lp_ring_wait(unsigned long long* slot, unsigned int& turns, int n, unsigned int turn) {
  asm volatile("{\\n.reg .pred p;\\nlp_wait_%=:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n"
               "@!p bra lp_wait_%=;\\n}" :: "r"(lp_shared_at(slot)), "r"((turns >> n & 1u) ^ turn) : "memory");
  turns ^= 1u << n;
}
"""


@dataclass(frozen=True, slots=True)
class MapInfo:
    """A tensor map that a launch encodes: its buffer, shape and strides in elements, the box, and the swizzle span in
    bytes, or 0."""

    buffer: str
    dtype: str
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]
    box: tuple[int, ...]
    span: int


def maps_of(kernel: Kernel) -> dict[MapInfo, str]:
    """The tensor maps of `kernel`, by the name of the parameter."""
    boxes = [b for s in statements(kernel.body) if isinstance(s, InstrCall) for b in s.boxes]
    return {info: f"lp_map_{n}" for n, info in enumerate(dict.fromkeys(map(map_of, boxes)))}


def map_of(b: TmaBox) -> MapInfo:
    return MapInfo(b.buffer.name, b.buffer.dtype.name, b.buffer.shape, strides_of(b.buffer), b.sizes, b.span)


def hardware_barriers(threads: int, kernel: Kernel) -> list[str]:
    """Emit a barrier of each group of `threads` consecutive threads of `kernel`, by named barriers from number 1 on; of
    all threads if `threads` is 0.

    The numbers are constants, because a barrier with a computed number reserves all of them."""
    if threads == 0:
        return ["__syncthreads();"]
    sizes = sorted({s.threads for s in statements(kernel.body) if isinstance(s, Barrier) and s.threads})
    counts = {n: _meeting(n, kernel) for n in sizes}
    first = 1 + sum(counts[n] for n in sizes[: sizes.index(threads)])
    spelt = [f'asm volatile("bar.sync {first + n}, {threads};" ::: "memory");' for n in range(counts[threads])]
    if len(spelt) == 1:
        return spelt
    which = f"(threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y) / {threads}"
    cases = " ".join(f"case {n}: {x} break;" for n, x in enumerate(spelt[:-1]))
    return [f"switch ({which}) {{ {cases} default: {spelt[-1]} }}"]


def turn_barrier(s: Turn, group: str) -> str:
    """Emit a turn of the warpgroup numbered `group`: at a named barrier, whose number is a constant."""
    how = "sync" if s.wait else "arrive"
    spelt = [f'asm volatile("bar.{how} {s.number(n)}, {s.threads};" ::: "memory");' for n in range(s.groups)]
    if isinstance(s.group, Int):
        return spelt[s.group.value]
    cases = " ".join(f"case {n}: {x} break;" for n, x in enumerate(spelt[:-1]))
    return f"switch ({group}) {{ {cases} default: {spelt[-1]} }}"


def _meeting(threads: int, kernel: Kernel) -> int:
    """How many times so many threads may meet: as many as the block has, but a warpgroup that only copies."""
    extents = {s.kind: s.extent for s in statements(kernel.body) if isinstance(s, Loop) and s.kind.startswith("thread")}
    total = prod(x.value for x in extents.values() if isinstance(x, Int))
    copying = GROUP_WARPS * LANES if any(isinstance(s, SetMaxRegs) for s in statements(kernel.body)) else 0
    return max(1, (total - copying) // threads)
