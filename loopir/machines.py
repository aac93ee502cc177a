"""What a machine can do: one record per GPU architecture, and the host's CPU, for lowering, schedules and predictor.

A record is of one named reference card of its architecture. Limits are those of NVIDIA's CUDA C++ Programming Guide
("Compute Capabilities", table of technical specifications); processors, clocks, peak rates of memory and of tensor
cores (dense, sums in float32 but for integers) are those of the card's data sheet or architecture white paper, named
beside each record. Nothing else in the project states such a number, so that another card is one record more.

What no data sheet says was measured on an H200 (benchmarks/results): the share of its peak that memory reaches, the
latency of a load, the time of an empty launch, the rates of products. Other cards are taken to reach the same share of
their own peaks until somebody measures them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from loopir.errors import TargetError

KB, MB = 1 << 10, 1 << 20
COPIED, READ, MULTIPLIED = 4.2 / 4.8, 4.7 / 4.8, 0.83
"""What an H200 reaches, as measured, of its peaks: of memory's, in a copy and where all is read; of tensor cores'."""


@dataclass(frozen=True)
class TensorRate:
    """Operations (two a product and sum) a second on tensor cores, of elements of `dtype`: by instructions of one warp
    (mma), and by those of a warpgroup (wgmma), 0 where there are none."""

    dtype: str
    warp: float
    warpgroup: float = 0.0


@dataclass(frozen=True)
class TileRates:
    """What one processor does in a cycle of a long product, which formulas choose tiles by. Measured on an H200
    (benchmarks/notes/gpu_matmul.md, gpu_hopper.md); scaled to others by their peaks."""

    mma: int
    """Multiplications with additions of 16-bit floats by instructions of a warp."""
    wgmma: int
    """The same by instructions of a warpgroup, at best."""
    cache: int
    """Bytes from the L2 cache while all processors read."""
    cache_boxes: int
    """The same where they come as boxes of tensor maps."""
    memory: int
    """Bytes that all processors together get from memory in a cycle."""


@dataclass(frozen=True)
class Latencies:
    """Cycles from an instruction to one that needs what it makes.

    Of memory those of Luo et al., "Benchmarking and dissecting the Nvidia Hopper GPU architecture via microbenchmarking
    and multiple level analysis" (2024, their table of latencies of scopes of memory; here its H100); of arithmetic and
    special functions of Abdelkhalik et al., "Demystifying the Nvidia Ampere architecture through microbenchmarking and
    instruction-level analysis" (2022); of shuffles and barriers of Zhang et al., "A study of single and multi-device
    synchronization methods in Nvidia GPUs" (2020)."""

    shared: float = 29.0
    first_cache: float = 40.7
    second_cache: float = 263.0
    memory: float = 478.8
    arithmetic: float = 4.0
    special: float = 18.0
    """A function of the special function unit, as powers of two and reciprocals."""
    shuffle: float = 22.0
    barrier: float = 22.0
    tensor: float = 33.0
    """A product of a warp on tensor cores."""


@dataclass(frozen=True)
class Machine:
    """A GPU: limits of a block and of a processor (a streaming multiprocessor), and rates in units a second."""

    arch: str
    """What code is compiled for, such as "sm_90a"."""
    name: str
    """The reference card."""
    processors: int
    clock: float
    shared_per_block: int
    """Bytes of shared memory that one block can have."""
    shared_per_processor: int
    threads_per_processor: int
    blocks_per_processor: int
    l2_bytes: int
    l2_bandwidth: float
    dram_bandwidth: float
    """The peak of the data sheet."""
    tensor: tuple[TensorRate, ...]
    tiles: TileRates
    features: frozenset[str]
    """What its instructions can do, of mma, cp.async, fp8, stmatrix, clusters, tma and wgmma."""
    max_cluster: int = 1
    """Blocks of a cluster; more than 8 are not on every card, and the driver refuses them where they are not."""
    lanes: int = 128
    """Lanes of 32-bit instructions that a processor issues in a clock."""
    threads_per_block: int = 1024
    registers_per_processor: int = 64 * KB
    shared_reserved: int = KB
    """Bytes of a processor's shared memory that the system takes for each block."""
    l1_bytes: int = 128 * KB
    """What of the L1 cache a kernel can count on beside its shared memory."""
    latency: float = 7.0e-7
    """Seconds from asking for bytes in memory to having them."""
    product_latency: float = 46.0
    """Cycles from a product of a warp on tensor cores to the next that adds to its sums, whose operands are loaded from
    shared memory in between (measured on an H200: benchmarks/notes/few_rows.md)."""
    shared_load_latency: float = 14.0
    """Cycles that a warp waits for a load from shared memory, of which several are in flight together, beside those
    that the load takes of the memory (measured on an H200: benchmarks/notes/gpu_matmul.md)."""
    round_latency: float = 260.0
    """Cycles from a barrier of a block to the next beside what is done between (the same)."""
    partial_write: float = 2.0
    """How often the L2 cache accesses a sector that a store writes in part: it is read, put together and written, as
    its code that corrects errors is of all of it (right for prefix sums of rows on an H200, whose threads each store 16
    elements in a row: "cumsum 1169x31009" of benchmarks/results/gpu_wide.txt)."""
    launch: float = 2.2e-6
    """Seconds that a kernel with nothing to do takes, one of several in a row."""
    cycles: Latencies = Latencies()

    @property
    def copy_bandwidth(self) -> float:
        """Bytes a second that a device-to-device copy reads and writes."""
        return COPIED * self.dram_bandwidth

    @property
    def read_bandwidth(self) -> float:
        """Bytes a second where all is read and nothing written."""
        return READ * self.dram_bandwidth

    def has(self, *features: str) -> bool:
        """Whether all of these are there."""
        return self.features.issuperset(features)

    def tensor_rate(self, dtype: str) -> TensorRate:
        """The rates of products of elements of `dtype`; of those that tensor cores do not take, of float16."""
        by_name = {t.dtype: t for t in self.tensor}
        return by_name.get(dtype, by_name["float16"])

    def memory_seconds(self, read: float, written: float) -> float:
        """How long memory takes for so many bytes: writing is as fast as a copy, half of which it is, leaves it."""
        return read / self.read_bandwidth + written * (2 / self.copy_bandwidth - 1 / self.read_bandwidth)


def _tensor(peak: float, tf32: float, int8: float, fp8: float = 0.0) -> tuple[TensorRate, ...]:
    """The rates by instructions of a warp, of peaks in teraflops (16-bit floats, TF32, int8, fp8 if there is any)."""
    peaks = {"float16": peak, "bfloat16": peak, "float32": tf32, "int8": int8, "uint8": int8}
    peaks |= {"float8_e4m3fn": fp8, "float8_e5m2": fp8} if fp8 else {}
    return tuple(TensorRate(dtype, MULTIPLIED * rate * 1e12) for dtype, rate in peaks.items())


@dataclass(frozen=True)
class Cpu:
    """A CPU: its cores, and what each of them does; rates in units a second."""

    name: str
    cores: int
    clock: float
    vector_bytes: int
    caches: tuple[tuple[float, float], ...]
    """Bytes of each cache for data that a core has for itself, and the rate at which it is filled from behind."""
    line: int = 64
    start: float = 4.0e-6
    """Seconds that it takes to give work to all cores."""
    restart: float = 3.0e-6
    """The same soon after other work, while the threads of all cores still look for some."""
    memory: float = 4.0e10
    """Bytes a second from memory to all cores together."""
    vector_ops: float = 2.0
    """Arithmetic instructions on vectors that a core begins in a cycle."""
    products: float = 2.0
    """Products with sums, of these."""
    loads: float = 2.0
    stores: float = 1.0
    """Vectors that a core reads and writes in a cycle."""
    issue: float = 4.0
    """Instructions of all kinds that it begins in a cycle."""
    latency: float = 4.0
    """Cycles from a sum to the next one that takes it."""
    divide: float = 5.0
    """Cycles that a vector of quotients or roots, in float32, takes of the one unit for these."""
    overlap: float = 0.85
    """What part of the shorter of computing and moving is done meanwhile."""
    call: float = 3.0e-6
    """Seconds of a call from Python that has nothing to do."""

    @property
    def lanes(self) -> int:
        """Elements of 32 bits in a vector."""
        return self.vector_bytes // 4


TYPICAL_CPU = Cpu("a CPU of eight cores with AVX2", 8, 4e9, 32, ((32e3, 8e10), (1e6, 2.5e10)))
"""What a nest for CPUs is estimated for, so that a suggestion does not hang on who asks for it."""

ZEN_4 = Cpu(
    "AMD EPYC 9004, a core", 2, 3.7e9, 64, ((32e3, 1.4e11), (1e6, 1.0e11), (3.2e7, 4.6e10)), start=8.0e-6,
    memory=5.5e10, vector_ops=1.5, products=1.0, loads=1.0, stores=0.5, issue=4.0, latency=3.0, divide=8.0, call=1.2e-6,
)  # fmt: skip
"""As benchmarks/cpu_predict.py measured it: vectors of 64 bytes go through units of 32 in two halves."""


def cpu_like(vector_bytes: int, caches: tuple[int, ...], threads: int) -> Cpu:
    """The record for a CPU with vectors of so many bytes, and such caches.

    Rates are a Zen 4's, a cycle, until somebody measures another: vectors of half the bytes go twice as fast.
    """
    faster = min(2.0, ZEN_4.vector_bytes / vector_bytes)
    rates = {name: getattr(ZEN_4, name) * faster for name in ("vector_ops", "products", "loads", "stores")}
    levels = tuple((float(size), rate) for size, (_, rate) in zip(caches, ZEN_4.caches, strict=True))
    return replace(
        ZEN_4, name="this machine's CPU", cores=threads, vector_bytes=vector_bytes, caches=levels,
        divide=ZEN_4.divide / faster, **rates,
    )  # fmt: skip


_OF_A100 = Latencies(shared=29.0, first_cache=37.9, second_cache=261.5, memory=466.3)
_OF_RTX = Latencies(shared=30.1, first_cache=43.4, second_cache=273.0, memory=541.5)
"""Of a GeForce RTX 4090, and taken to be those of its predecessor and its successor."""

AMPERE = frozenset({"mma", "cp.async"})
ADA = AMPERE | {"fp8"}
HOPPER = ADA | {"stmatrix", "clusters", "tma", "wgmma"}
BLACKWELL = ADA | {"stmatrix", "clusters", "tma"}

_A100 = Machine(  # NVIDIA A100 Tensor Core GPU Architecture (white paper); data sheet of the 80 GB SXM card
    arch="sm_80", name="NVIDIA A100 SXM 80GB", processors=108, clock=1.41e9, features=AMPERE, lanes=64,
    shared_per_block=163 * KB, shared_per_processor=164 * KB, threads_per_processor=2048, blocks_per_processor=32,
    l1_bytes=64 * KB, l2_bytes=40 * MB, l2_bandwidth=5120 * 1.41e9, dram_bandwidth=2.039e12,
    tensor=_tensor(312, 156, 624), tiles=TileRates(mma=690, wgmma=0, cache=38, cache_boxes=38, memory=1260),
    cycles=_OF_A100,
)  # fmt: skip
_RTX_3090 = Machine(  # NVIDIA Ampere GA102 GPU Architecture (white paper)
    arch="sm_86", name="NVIDIA GeForce RTX 3090", processors=82, clock=1.695e9, features=AMPERE,
    shared_per_block=99 * KB, shared_per_processor=100 * KB, threads_per_processor=1536, blocks_per_processor=16,
    l1_bytes=28 * KB, l2_bytes=6 * MB, l2_bandwidth=32 * 82 * 1.695e9, dram_bandwidth=9.36e11,
    tensor=_tensor(71.2, 35.6, 284.7), tiles=TileRates(mma=220, wgmma=0, cache=30, cache_boxes=30, memory=480),
    cycles=_OF_RTX,
)  # fmt: skip
_RTX_4090 = Machine(  # NVIDIA Ada GPU Architecture (white paper)
    arch="sm_89", name="NVIDIA GeForce RTX 4090", processors=128, clock=2.52e9, features=ADA,
    shared_per_block=99 * KB, shared_per_processor=100 * KB, threads_per_processor=1536, blocks_per_processor=24,
    l1_bytes=28 * KB, l2_bytes=72 * MB, l2_bandwidth=32 * 128 * 2.52e9, dram_bandwidth=1.008e12,
    tensor=_tensor(165.2, 82.6, 660.6, 330.3), tiles=TileRates(mma=220, wgmma=0, cache=30, cache_boxes=30, memory=350),
    cycles=_OF_RTX,
)  # fmt: skip
_H200 = Machine(  # NVIDIA H200 data sheet; rates of mma as measured, those of wgmma as cuBLAS reaches
    arch="sm_90a", name="NVIDIA H200", processors=132, clock=1.98e9, features=HOPPER, max_cluster=16,
    shared_per_block=227 * KB, shared_per_processor=228 * KB, threads_per_processor=2048, blocks_per_processor=32,
    l2_bytes=50 * MB, l2_bandwidth=5120 * 1.98e9, dram_bandwidth=4.8e12,
    tensor=(
        *(TensorRate(half, 6.2e14, 8.2e14) for half in ("float16", "bfloat16")),
        TensorRate("float32", 3.1e14, 4.1e14),
        *(TensorRate(byte, 1.24e15, 1.64e15) for byte in ("int8", "uint8")),
        *(TensorRate(byte, 6.2e14, 1.64e15) for byte in ("float8_e4m3fn", "float8_e5m2")),
    ),
    tiles=TileRates(mma=1330, wgmma=2048, cache=38, cache_boxes=60, memory=2400),
)  # fmt: skip
_B200 = Machine(  # NVIDIA Blackwell Architecture Technical Brief; its peak is tcgen05's, and mma taken to be a Hopper's
    arch="sm_100a", name="NVIDIA B200", processors=148, clock=1.965e9, features=BLACKWELL, max_cluster=16,
    shared_per_block=227 * KB, shared_per_processor=228 * KB, threads_per_processor=2048, blocks_per_processor=32,
    l2_bytes=126 * MB, l2_bandwidth=5120 * 1.965e9, dram_bandwidth=8.0e12,
    tensor=_tensor(830, 415, 1660, 830), tiles=TileRates(mma=1330, wgmma=0, cache=38, cache_boxes=60, memory=4070),
)  # fmt: skip
_RTX_5090 = Machine(  # NVIDIA RTX Blackwell GPU Architecture (white paper)
    arch="sm_120", name="NVIDIA GeForce RTX 5090", processors=170, clock=2.407e9, features=BLACKWELL, max_cluster=8,
    shared_per_block=99 * KB, shared_per_processor=100 * KB, threads_per_processor=1536, blocks_per_processor=24,
    l1_bytes=28 * KB, l2_bytes=96 * MB, l2_bandwidth=32 * 170 * 2.407e9, dram_bandwidth=1.792e12,
    tensor=_tensor(209.5, 104.8, 838, 419), tiles=TileRates(mma=220, wgmma=0, cache=30, cache_boxes=30, memory=650),
    cycles=_OF_RTX,
)  # fmt: skip
MACHINES = {m.arch: m for m in (_A100, _RTX_3090, _RTX_4090, _H200, _B200, _RTX_5090)}
"""By architecture. Of cards for which NVIDIA names no bandwidth of the L2 cache, a sector a cycle and processor."""
ALIASES = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_120a": "sm_120"}
"""Other names: every GPU of compute capability 9.0 or 10.0 runs what is made for the name with the letter."""
DEFAULT = MACHINES["sm_90a"]

PORTABLE = replace(
    DEFAULT,
    name="any GPU of sm_80 or later",
    features=frozenset.intersection(*(m.features for m in MACHINES.values())),
    shared_per_block=min(m.shared_per_block for m in MACHINES.values()),
    shared_per_processor=min(m.shared_per_processor for m in MACHINES.values()),
    threads_per_processor=min(m.threads_per_processor for m in MACHINES.values()),
    blocks_per_processor=min(m.blocks_per_processor for m in MACHINES.values()),
)
"""What all of them have, at the rates of the default one: for code that is to run on any."""

_current: ContextVar[Machine] = ContextVar("machine", default=DEFAULT)


def machine(arch: str | Machine | None = None) -> Machine:
    """The record of `arch`, such as "sm_89"; without it, the one that schedules are made for at this moment.

    "sm_90" stands for "sm_90a", "sm_100" for "sm_100a", and "portable" for what all of them have. Raises TargetError,
    with those there are, for another name.
    """
    if arch is None:
        return _current.get()
    if isinstance(arch, Machine):
        return arch
    if arch == "portable":
        return PORTABLE
    found = MACHINES.get(ALIASES.get(arch, arch))
    if found is None:
        raise TargetError(f"there is no architecture {arch!r}; there are {', '.join(MACHINES)}")
    return found


def nearest(arch: str) -> Machine:
    """The record for a GPU that is there: its own, or, compiled for itself, that of the last architecture before it."""
    if ALIASES.get(arch, arch) in MACHINES:
        return machine(arch)
    older = [m for m in MACHINES.values() if _arch_number(m.arch) <= _arch_number(arch)]
    if not older:
        raise TargetError(f"a GPU of {arch} is older than {next(iter(MACHINES))}, the first that there is a record of")
    before = max(older, key=lambda m: _arch_number(m.arch))
    return replace(before, arch=arch, features=before.features - {"wgmma"})


def _arch_number(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


@contextmanager
def scheduling_for(chosen: Machine) -> Iterator[Machine]:
    """Schedules that are made meanwhile, in this thread, are made for `chosen`: it is what `machine()` gives."""
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
