"""What stands beside each loop of a nest: how often it runs, what it touches, how much of that again, how much at once.

Figures are of one run of the whole loop, at given sizes, from the strides of the accesses inside: exact where the
indices are sums of loops, an upper bound under guards and at tails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod

from loopir.ir.grammar import AXES, BLOCK_AXES, LANES, Alloc, Buffer, Func, Loop
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, statements
from loopir.machines import DEFAULT
from loopir.schedule.core.find import all_buffers
from loopir.show.estimate import GPU, Chip, SizedStatement, at_sizes, chip_for, size_of, sized_statement
from loopir.show.units import count, si, times

HEADS = ("trips", "bytes", "reuse", "at once", "occupancy")
MEANINGS = (
    "iterations",
    "bytes of memory that one run of the loop touches, each counted once",
    "how often it touches each of them",
    "iterations of its body that may run at the same time, with the loops around it",
    "share of what runs it that it keeps busy: cores, lanes of a vector or a warp, threads of a GPU's processor",
)
SPREAD = ("parallel", "vectorize", *AXES)


@dataclass(frozen=True)
class Margin:
    """One loop. `trips` is as written where it is no number at all sizes; `busy` is None where a loop is serial."""

    trips: str
    bytes: float
    reuse: float
    at_once: float
    busy: float | None

    def cells(self) -> tuple[str, ...]:
        """What is printed, a cell for each of HEADS."""
        touched = f"{si(self.bytes)}B" if self.bytes else ""
        again = times(self.reuse) if self.bytes else ""
        at_once = count(self.at_once) if self.busy is not None else ""
        return (self.trips, touched, again, at_once, "" if self.busy is None else f"{100 * self.busy:.0f} %")


def margins(func: Func, sizes: Mapping[str, int] | None = None) -> dict[str, Margin]:
    """The margin of every loop of `func`; a size that is not given is taken for 1024."""
    given, chip = at_sizes(func, sizes or {}), chip_for(func)
    memory = {b.name: b for b in all_buffers(func) if b.scope in ("global", "shared")}
    inside: dict[str, list[SizedStatement]] = {}
    loops: dict[str, Loop] = {}
    for place in leaf_paths(func.body):
        m = sized_statement(func, place, given)
        for loop in place.loops:
            loops[loop.var] = loop
            inside.setdefault(loop.var, []).append(m)
    return {name: _margin(loop, inside[name], memory, given, chip) for name, loop in loops.items()}


def _margin(
    loop: Loop, inside: list[SizedStatement], memory: Mapping[str, Buffer], sizes: Mapping[str, float], chip: Chip
) -> Margin:
    asked, distinct = 0.0, dict[tuple[str, tuple[float | None, ...]], float]()
    for m in inside:
        names = list(m.extents)
        inner = names[names.index(loop.var) :]
        for t, steps in zip(m.own, m.steps, strict=True):
            if t.buffer in memory:
                asked += prod(m.extents[v] for v in inner) * t.dtype.bytes
                key = (t.buffer, tuple(steps[v] for v in inner))
                reached = _reached([(steps[v], m.extents[v]) for v in inner]) * t.dtype.bytes
                distinct[key] = max(distinct.get(key, 0.0), reached)
    touched = 0.0
    for name in dict.fromkeys(name for name, _ in distinct):
        whole = size_of(memory[name], sizes)
        touched += min(whole, sum(n for (other, _), n in distinct.items() if other == name))
    first = inside[0]
    around = list(first.extents)[: list(first.extents).index(loop.var) + 1]
    at_once = prod(first.extents[v] for v in around if first.kinds[v] in SPREAD)
    busy = _busy(loop, inside, memory, sizes, chip)
    return Margin(text(loop.extent), touched, asked / max(1.0, touched), at_once, busy)


def _reached(moves: Iterable[tuple[float | None, float]]) -> float:
    """How many elements a sum of steps reaches: every choice, but no more than lie between the first and the last."""
    every, span = 1.0, 1.0
    for step, extent in moves:
        if step != 0:
            every *= extent
            span += (extent - 1) * (abs(step) if step is not None else float("inf"))
    return min(every, span)


def _busy(
    loop: Loop, inside: list[SizedStatement], memory: Mapping[str, Buffer], sizes: Mapping[str, float], chip: Chip
) -> float | None:
    """The share of what the loop is spread over that has work; None for a loop that is spread over nothing."""
    trips = inside[0].extents[loop.var]
    if loop.kind == "parallel":
        return _lane_use(trips, chip.cores)
    if loop.kind == "vectorize":
        widest = max((t.dtype.bytes for m in inside for t in m.own), default=4)
        return _lane_use(trips * widest, 16 if chip is GPU else 4 * chip.lanes)
    if loop.kind in BLOCK_AXES:
        return _occupancy(loop, inside, sizes)
    return _lane_use(_block_threads(inside), LANES) if loop.kind in AXES else None


def _lane_use(trips: float, width: float) -> float:
    return trips / (ceil(trips / width) * width)


def _block_threads(inside: Iterable[SizedStatement]) -> float:
    """Threads of a block, as far as the loops say: the most that any statement is spread over."""
    return max(_of_block(m) for m in inside)


def _of_block(m: SizedStatement) -> float:
    """Threads: those that loops are bound to, and those of whole warps and warpgroups where no lane is named."""
    bound = {k: m.extents[v] for v, k in m.kinds.items() if k in AXES and k not in BLOCK_AXES}
    threads = prod(bound.values())
    if "warpgroup" in bound and "warp.x" not in bound:
        threads *= 4
    whole = "lane" not in bound and bool(bound.keys() & {"warpgroup", "warp.x", "warp.y"})
    return threads * LANES if whole else threads


def _occupancy(loop: Loop, inside: list[SizedStatement], sizes: Mapping[str, float]) -> float:
    """The share of its threads that a processor holds: by threads, blocks and shared memory alone."""
    threads = ceil(_block_threads(inside) / LANES) * LANES
    shared = sum(size_of(b, sizes) for b in _allocated(loop) if b.scope == "shared")
    blocks = prod(e for v, e in inside[0].extents.items() if inside[0].kinds[v] in BLOCK_AXES)
    limits: list[float] = [
        DEFAULT.threads_per_processor // threads, DEFAULT.blocks_per_processor, ceil(blocks / DEFAULT.processors)
    ]  # fmt: skip
    if shared:
        limits.append(DEFAULT.shared_per_processor // (shared + DEFAULT.shared_reserved))
    return min(1.0, max(1, min(limits)) * threads / DEFAULT.threads_per_processor)


def _allocated(loop: Loop) -> Iterator[Buffer]:
    return (s.buffer for s in statements(loop.body) if isinstance(s, Alloc))
