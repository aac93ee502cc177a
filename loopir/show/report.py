"""What a schedule costs on a GPU, kernel by kernel: a roofline of counted work over what the GPU can do.

`traffic` counts what each kernel does; here that becomes seconds, by the classic roofline (Williams, Waterman and
Patterson, "Roofline", 2009) with a ceiling for each thing that a kernel can run out of: memory, cache, shared memory,
instructions, tensor cores, and the bytes in flight that its threads can keep up (Little's law). The largest decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any

from loopir.analysis.cost.gpu_traffic import KernelWork, launches, work
from loopir.analysis.cost.l2_reuse import read_from_memory
from loopir.analysis.cost.transactions import SECTOR
from loopir.ir.grammar import Func
from loopir.ir.layout.layouts import evaluate
from loopir.machines import Machine, machine
from loopir.show.critical_path import critical_path
from loopir.show.plot import plot
from loopir.show.units import seconds as time_of, si
from loopir.witness import page

SCHEDULERS = 4
"""Parts of a processor, each of which issues an instruction of one of its warps in a cycle."""
OVERHEAD = 2.0
"""Instructions for each load and store: itself, and what comes to a lane of addresses, conversions and control."""


@dataclass(frozen=True)
class KernelReport:
    """One kernel: the work that was counted, how many of its blocks a processor holds and what limits that, and the
    seconds that each part would take alone."""

    work: KernelWork
    times: int
    resident: int
    limited_by: str
    registers: int | None
    seconds: Mapping[str, float]
    start: float
    """Seconds before the first bytes of each block are there, when nothing else can be done."""
    moved: float
    """Bytes that one launch reads from memory and writes to it."""

    @property
    def bound(self) -> str:
        """What it runs out of first."""
        return max(self.seconds, key=lambda k: self.seconds[k])

    def bytes(self, gpu: Machine) -> dict[str, float]:
        """Bytes of one launch at each level of memory."""
        shared = sum(m.taken for m in self.work.of("shared"))
        return {
            "memory": self.moved,
            "the L2 cache": self.seconds["cache"] * gpu.l2_bandwidth * _busy(self.work, gpu),
            "shared memory": shared,
        }

    @property
    def operations(self) -> float:
        """Operations of one launch."""
        w = self.work
        return w.plain + w.special + w.matrix + w.matrix_wide

    @property
    def total(self) -> float:
        """Predicted seconds of all its launches."""
        return (max(self.seconds.values()) + self.start) * self.times


@dataclass(frozen=True)
class Report:
    """Kernels, and what the program as a whole moves and computes. `seconds` is the time predicted on `gpu`."""

    gpu: Machine
    kernels: tuple[KernelReport, ...]
    compulsory: float
    sizes: Mapping[str, int]

    @property
    def seconds(self) -> float:
        return sum(k.total + k.times * self.gpu.launch for k in self.kernels)

    @property
    def operations(self) -> float:
        return sum(k.times * k.operations for k in self.kernels)

    def __str__(self) -> str:
        sizes = f" at {', '.join(f'{k}={v}' for k, v in self.sizes.items())}" if self.sizes else ""
        lines = [
            f"{self.gpu.name}{sizes}: {time_of(self.seconds)} predicted, {si(self.operations)} operations, "
            f"{si(self.compulsory)}B in and out, {self.operations / max(1.0, self.compulsory):.3g} operations a byte"
        ]
        for k in self.kernels:
            w = k.work
            busy = 100 * k.resident * w.threads / self.gpu.threads_per_processor
            often = f" x {k.times}" if k.times > 1 else ""
            lines.append(f"{w.name}{often}: {time_of(k.total)}, bound by {k.bound}")
            registers = "" if k.registers is None else f", {k.registers} registers a thread"
            lines.append(
                f"  {w.blocks} blocks of {w.threads} threads, {si(w.shared_bytes)}B shared{registers}; "
                f"{k.resident} blocks a processor ({min(100.0, busy):.0f} % of its threads), limited by {k.limited_by}"
            )
            lines.append("  " + ", ".join(f"{part} {time_of(t)}" for part, t in k.seconds.items() if t > 0))
            levels = k.bytes(self.gpu)
            told = ", ".join(f"{si(n)}B of {level}" for level, n in levels.items() if n)
            lines.append(
                f"  moves {told or 'nothing'}; {k.operations / max(1.0, levels['memory']):.3g} operations a byte"
            )
            for m in w.moved.values():
                asked = m.read + m.written
                ratio = f", {m.taken / asked:.2f} x what is asked" if asked else ""
                lines.append(
                    f"  {m.buffer.name} ({m.buffer.scope}): reads {si(m.read)}B, writes {si(m.written)}B{ratio}"
                )
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, ax: Any = None) -> Any:
        """The roofline, drawn into `ax`, axes of matplotlib, or into a figure of its own; the axes.

        TargetError where matplotlib is not installed.
        """
        return plot(self, ax)

    def _repr_html_(self) -> str:
        return page(str(self))


def report(lowered: Func, sizes: Mapping[str, int], resources: Mapping[str, Any], gpu: Machine | None = None) -> Report:
    """The report of a Func lowered for `gpu`, or the machine that schedules are made for; `resources` is what the
    compiler gave each kernel, where it is known."""
    gpu = gpu or machine()
    kernels: list[KernelReport] = []
    filled = {a.buffer.name for a in lowered.args if a.access != "out"}
    for kernel, given, times in launches(lowered.body, sizes):
        w = work(kernel, given)
        own = frozenset(m.buffer.name for m in w.of("global") if m.written) - filled
        filled |= own
        registers = resources[kernel.name].registers if kernel.name in resources else None
        resident, limit = _resident(w, registers, gpu)
        start = _start(w, resident, gpu)
        memory = _memory(w, resident, given, own, gpu)
        seconds, moved = _seconds(w, resident, given, memory, gpu), sum(memory)
        turns = -(-w.blocks // (gpu.processors * resident))
        path = critical_path(kernel, given, _far(w, given, gpu), gpu.cycles)
        seconds["dependent steps"] = turns * path / gpu.clock
        kernels.append(KernelReport(w, times, resident, limit, registers, seconds, start, moved))
    bytes_ = sum(
        _size(a.buffer.shape, a.buffer.dtype.bytes, sizes) * (2 if a.access == "inout" else 1) for a in lowered.args
    )
    return Report(gpu, tuple(kernels), float(bytes_), dict(sizes))


def _far(w: KernelWork, sizes: Mapping[str, int], gpu: Machine) -> dict[str, float]:
    """The cycles of a load from each buffer, at the least: what several blocks read, or one of them writes, may be in
    the second cache."""
    sizes_of = {m.buffer.name: _size(m.buffer.shape, m.buffer.dtype.bytes, sizes) for m in w.of("global")}
    once = {m.buffer.name: not m.written and m.read <= sizes_of[m.buffer.name] for m in w.of("global")}
    return {name: gpu.cycles.memory if x else gpu.cycles.second_cache for name, x in once.items()}


def _busy(w: KernelWork, gpu: Machine) -> float:
    """What part of the processors has a block."""
    return min(1.0, max(1, w.blocks) / gpu.processors)


def _resident(w: KernelWork, registers: int | None, gpu: Machine) -> tuple[int, str]:
    """How many blocks a processor holds at once, and what would have to be less for more."""
    warps = -(-w.threads // 32)
    limits = {"threads": gpu.threads_per_processor // (32 * warps), "blocks": gpu.blocks_per_processor}
    if w.shared_bytes:
        limits["shared memory"] = gpu.shared_per_processor // (w.shared_bytes + gpu.shared_reserved)
    if registers:
        limits["registers"] = gpu.registers_per_processor // (-(-registers // 8) * 8 * 32 * warps)
    limits["the number of blocks"] = -(-w.blocks // gpu.processors)
    name = min(limits, key=lambda k: limits[k])
    return max(1, limits[name]), name


def _start(w: KernelWork, resident: int, gpu: Machine) -> float:
    """Seconds before the first bytes are there; of blocks that copy their tiles and have a processor for themselves,
    one after the other, each waits for its own."""
    if not any(m.read for m in w.of("global")):
        return 0.0
    turns = -(-w.blocks // gpu.processors) if w.copied and resident == 1 else 1
    return gpu.latency * max(1, turns)


def _seconds(
    w: KernelWork, resident: int, sizes: Mapping[str, int], memory: tuple[float, float], gpu: Machine
) -> dict[str, float]:
    """What each part would take alone, `memory` being the bytes that are read and written there.

    `waiting` is what threads wait for bytes and then take to work on them, of which only as much is done at once as
    blocks are there to do it. Threads that meet at barriers ask the first cache together, and no other block has work
    meanwhile but the `resident` ones; blocks that began together store what they made together, too, after that.
    """
    busy = _busy(w, gpu)
    each = w.blocks / gpu.processors
    tail = math.ceil(each) / each if each >= 1.0 else 1.0
    cache = 0.0
    for m in w.of("global"):
        size = float(_size(m.buffer.shape, m.buffer.dtype.bytes, sizes))
        cache += m.written_taken + min(m.read_taken, size * gpu.processors if size <= gpu.l1_bytes else m.read_taken)
    torn = SECTOR * w.torn * gpu.partial_write / (gpu.l2_bandwidth * busy)
    running = min(w.blocks, resident * gpu.processors)
    reads = sum(m.read_taken for m in w.of("global"))
    loads = sum(read / max(1.0, running * w.threads * ahead) for read, ahead in w.loads.values())
    turns = -(-w.blocks // (gpu.processors * resident))
    copies = max(w.copied / max(1.0, running * w.shared_bytes), turns * w.copy_waits)
    issued = w.issued + OVERHEAD * w.accesses
    shared = sum(m.taken for m in w.of("shared"))
    rate = gpu.processors * gpu.clock * busy
    warps = -(-w.threads // 32)
    instructions = tail * issued / (rate * gpu.lanes * min(1.0, resident * warps / SCHEDULERS))
    asked, ahead = (gpu.latency * max(1.0, x) if reads else 0.0 for x in (loads, copies))
    if w.rounds > 1.0:
        asked += tail * w.lines_waited / rate / resident
    banks = tail * shared / (rate * 128)
    block = _block_cycles(w, issued / gpu.lanes / max(1, w.blocks), shared / 128 / max(1, w.blocks), gpu)
    waiting = max(ahead, asked + turns * block / gpu.clock) if reads else 0.0
    drained = min(waiting, torn) / max(1, turns - 1) if w.rounds > 1.0 else 0.0
    return {
        "memory": gpu.memory_seconds(*memory),
        "cache": cache / (gpu.l2_bandwidth * busy),
        "partial stores": torn + drained,
        "latency": max(asked, ahead),
        "instructions": instructions,
        "waiting": waiting + drained,
        "first cache": tail * w.lines / rate,
        "shared memory": banks,
        "atomics": _atomic_seconds(w, sizes, gpu),
        "tensor cores": tail * _tensor_seconds(w, gpu) / busy,
    }


def _block_cycles(w: KernelWork, issue: float, banks: float, gpu: Machine) -> float:
    """What a block takes that has a processor for itself, whose instructions take `issue` cycles of all its parts, and
    whose accesses take `banks` of shared memory.

    A warp does one thing after the other: it issues its instructions, waits for what it loads from shared memory, with
    the warps of the other parts of the processor, and for its products on tensor cores. Of several warps in a part one
    computes while another waits.
    """
    warps = -(-w.threads // 32)
    beside = min(1.0, SCHEDULERS / warps)
    chain = max(w.chains.values(), default=0.0) * gpu.product_latency + w.rounds * gpu.round_latency
    if w.rounds > 1.0:  # a warpgroup's products are waited for at barriers
        chain += gpu.clock * gpu.processors * _tensor_seconds(w, gpu, "warpgroup") / max(1, w.blocks)
    loads = w.shared_loads / max(1, w.blocks * w.threads)
    alone = beside * (issue * SCHEDULERS / min(warps, SCHEDULERS) + banks) + loads * gpu.shared_load_latency
    return max(issue * SCHEDULERS / min(warps, SCHEDULERS), banks, alone, chain)


def _atomic_seconds(w: KernelWork, sizes: Mapping[str, int], gpu: Machine) -> float:
    """What atomic folds wait for one another: the L2 cache takes one an element and cycle."""
    each = (m.atomic / max(1, _size(m.buffer.shape, 1, sizes)) for m in w.of("global") if m.atomic)
    return max(each, default=0.0) / gpu.clock


def _tensor_seconds(w: KernelWork, gpu: Machine, level: str = "warp") -> float:
    """What tensor cores take for their operations, by the type of what they multiply; of those of a warpgroup alone if
    that is the `level`."""
    rates = {key: getattr(gpu.tensor_rate(key[1]), key[0]) for key in w.tensor if key[0] in ("warpgroup", level)}
    return sum(w.tensor[key] / rate if rate else float("inf") for key, rate in rates.items())


def _memory(w: KernelWork, resident: int, sizes: Mapping[str, int], own: Set[str], gpu: Machine) -> tuple[float, float]:
    """Bytes that a launch reads from memory and writes to it.

    A buffer that the cache holds is read once, another as often as blocks read it when it is there no longer; nests
    that were merged side by side each read what the cache cannot hold meanwhile. What a launch reads of its `own`
    results is still in the cache of who wrote it.
    """
    read = written = 0.0
    size = {m.buffer.name: float(_size(m.buffer.shape, m.buffer.dtype.bytes, sizes)) for m in w.of("global")}
    again: Mapping[str, tuple[float, float]] = {}
    if w.blocks > resident * gpu.processors and any(n > gpu.l2_bytes for n in size.values()):
        again = read_from_memory(w.references, w.grid, sizes, resident * gpu.processors, gpu.l2_bytes)
    for m in w.of("global"):
        most = size[m.buffer.name]
        torn = max(0.0, m.written_taken - m.written)  # sectors written in part are read and written again
        taken = m.by_grid.values() if most > gpu.l2_bytes and m.by_grid else (m.read_taken,)
        once = sum(min(most, n) for n in taken)
        if most > gpu.l2_bytes and m.buffer.name in again:
            first, more = again[m.buffer.name]
            once = max(once, min(most, first) + more)
        read += torn if m.buffer.name in own else torn + once
        written += min(most, m.written) + torn
    return read, written


def _size(shape: Sequence[Any], item: int, sizes: Mapping[str, int]) -> int:
    return prod(max(0, int(evaluate(d, sizes))) for d in shape) * item
