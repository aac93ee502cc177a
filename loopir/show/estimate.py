"""How long a nest would take, roughly, read off its loops: to rank one next step against another, not to predict.

Two terms a statement. Operations go as fast as the lanes and cores that its loops are bound to. Bytes are counted at
each cache as loop nests are analysed by hand (Wolf and Lam, "A data locality optimizing algorithm", 1991): the largest
inner part of the nest whose footprint the cache holds is moved once for every iteration of the loops around it, in
whole lines. `report` has the figures of a GPU kernel, from what is emitted; this has any nest's, in a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from numbers import Integral

from loopir.analysis.cost.transactions import SECTOR
from loopir.errors import VerifyError
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    LANES,
    THREAD_AXES,
    Buffer,
    Func,
    Index,
    Int,
    Op,
    Reduce,
    Scope,
    Store,
    Value,
)
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.memo import cache_of
from loopir.ir.traverse.walk import StmtPath, leaf_paths, loops, nodes
from loopir.machines import DEFAULT, TYPICAL_CPU, Cpu, Machine
from loopir.schedule.core.find import all_buffers
from loopir.schedule.core.queries import StageAccess, stage_accesses

TYPICAL_SIZE = 1024
"""What a size is taken for where none is given."""


@dataclass(frozen=True)
class Chip:
    """What runs the nest: cores, lanes of 4 bytes in a vector, operations a second of a lane, bytes of a cache line,
    and for each cache its bytes and the bytes a second that come into it from behind, the last from memory."""

    cores: float
    lanes: float
    operations: float
    line: int
    caches: tuple[tuple[float, float], ...]
    start: float
    """Seconds that it takes to give work to all cores."""
    shared: float
    """Bytes a second that all cores together read from memory that a block shares."""


def _of_cpu(m: Cpu) -> Chip:
    return Chip(m.cores, m.lanes, m.clock, m.line, m.caches, m.start, m.cores * m.vector_bytes * m.clock)


def _of_gpu(m: Machine) -> Chip:
    """Each of a processor's four schedulers is a core of 32 lanes."""
    caches = ((float(m.l1_bytes), m.l2_bandwidth), (float(m.l2_bytes), m.copy_bandwidth))
    return Chip(4 * m.processors, LANES, m.clock, SECTOR, caches, m.launch, 4 * LANES * m.processors * m.clock)


CPU, GPU = _of_cpu(TYPICAL_CPU), _of_gpu(DEFAULT)


Steps = Mapping[str, "float | None"]
"""How many elements one iteration of each loop moves an access; None where the step is not always the same."""


@dataclass(frozen=True)
class Estimate:
    """Seconds, and why: operations a core does at once, and bytes that come from memory."""

    seconds: float
    at_once: float
    bytes: float


def estimate(func: Func, sizes: Mapping[str, int], chip: Chip) -> Estimate:
    """The estimate for `func` at `sizes`; a size that is not given is TYPICAL_SIZE."""
    known, asked = cache_of(func), ("estimate", chip, tuple(sorted(sizes.items())))
    if asked not in known:
        known[asked] = _estimate(func, at_sizes(func, sizes), chip)
    return known[asked]


def _estimate(func: Func, given: Mapping[str, float], chip: Chip) -> Estimate:
    parts = [_statement(sized_statement(func, p, given), chip) for p in leaf_paths(func.body)]
    total = sum(p.seconds for p in parts)
    busiest = max(parts, key=lambda p: p.seconds, default=Estimate(0.0, 1.0, 0.0))
    return Estimate(total, busiest.at_once, sum(p.bytes for p in parts))


def at_sizes(func: Func, sizes: Mapping[str, int]) -> dict[str, float]:
    """Every size of `func`, as it is given, or TYPICAL_SIZE; ValueError for what is no size of it."""
    for name, value in sizes.items():
        if name not in func.sizes:
            there = f"its sizes are {', '.join(func.sizes)}" if func.sizes else "it has none"
            raise ValueError(f"{func.name} has no size {name!r}; {there}")
        if not isinstance(value, Integral) or value < 0:
            raise ValueError(f"{name}={value!r}; a size is a whole number, at least 0")
    return {n: sizes.get(n, TYPICAL_SIZE) for n in func.sizes}


def chip_for(func: Func) -> Chip:
    """What runs `func`, as its loops are bound."""
    return GPU if any(loop.kind in AXES for loop in loops(func.body)) else CPU


@dataclass(frozen=True)
class SizedStatement:
    """A statement at some sizes: the extents and kinds of the loops around it, outer ones first, what it
    touches, and by how many elements an iteration of each loop moves each of these."""

    place: StmtPath
    extents: Mapping[str, float]
    kinds: Mapping[str, str]
    own: list[StageAccess]
    steps: list[Steps]
    held: list[tuple[Scope, float]]
    """For each of what it touches, the scope of the buffer, and its bytes."""


def sized_statement(func: Func, place: StmtPath, sizes: Mapping[str, float]) -> SizedStatement:
    """The statement at `place` of `func`."""
    env: dict[str, float] = dict(sizes)
    extents: dict[str, float] = {}
    for loop in place.loops:
        extents[loop.var] = max(1.0, value_of(loop.extent, env))
        env[loop.var] = (extents[loop.var] - 1) / 2  # an inner loop that depends on it is as long as in the middle
    own = list(stage_accesses(func, place.stmt.label))
    steps: list[Steps] = [{v: _access_step(t, v, env) for v in extents} for t in own]
    buffers = {b.name: b for b in all_buffers(func)}
    held = [(buffers[t.buffer].scope, size_of(buffers[t.buffer], sizes)) for t in own]
    return SizedStatement(place, extents, {loop.var: loop.kind for loop in place.loops}, own, steps, held)


def size_of(b: Buffer, sizes: Mapping[str, float]) -> float:
    """Bytes of the elements of `b`."""
    return prod(max(0.0, value_of(d, sizes)) for d in b.shape) * b.dtype.bytes


def _statement(m: SizedStatement, chip: Chip) -> Estimate:
    """The time of one statement: the longest of its arithmetic, its shared memory and each of its caches."""
    place, extents = m.place, m.extents
    own = [x for x in zip(m.own, m.steps, m.held, strict=True) if x[2][0] in ("global", "shared")]
    lanes, cores = _parallelism(m, [s for _, s, _ in own], chip)
    inner = place.loops[-1].var if place.loops else ""
    invariant = sum(1 for _, s, _ in own if s.get(inner, 1) == 0)  # in a register from one iteration to the next
    operations = sum(1 for v in _values(place.stmt) for n in nodes(v) if isinstance(n, Op))
    work = max(1, operations + len(own) - invariant)
    seconds = prod(extents.values()) * work / (chip.operations * lanes * cores)
    shared = sum(_requests(s, extents) * t.dtype.bytes for t, s, (scope, _) in own if scope == "shared")
    seconds = max(seconds, shared / (chip.shared * min(1.0, cores / chip.cores)))
    far = [Foot(t, s, whole) for t, s, (scope, whole) in own if scope == "global"]
    moved = 0.0
    for size, rate in chip.caches:
        moved = _cache_bytes(far, extents, size, chip.line)
        seconds = max(seconds, moved / (rate * min(1.0, max(cores, 1) / chip.cores * 4)))
    return Estimate(seconds + chip.start * _parallel_starts(place, extents), lanes * cores, moved)


def _parallelism(m: SizedStatement, steps: list[Steps], chip: Chip) -> tuple[float, float]:
    """Lanes that compute at once in a core, along loops whose iterations touch neighbours, and cores that do."""
    extents, kinds = m.extents, m.kinds
    wide = [v for v, k in kinds.items() if k in ("vectorize", "threadIdx.x")]
    scattered = [v for v in wide if any(s[v] not in (0, 1) for s in steps)]
    spread = ("parallel", *BLOCK_AXES, *THREAD_AXES[1:])
    lanes = min(chip.lanes, prod(extents[v] for v in wide if v not in scattered))
    return lanes, min(chip.cores, prod(e for v, e in extents.items() if kinds[v] in spread))


def _requests(steps: Steps, extents: Mapping[str, float]) -> float:
    """How often an access is made: at every iteration, but for inner loops that leave it where it is."""
    names = list(extents)
    while names and steps[names[-1]] == 0:
        names.pop()
    return prod(extents[v] for v in names)


def _parallel_starts(place: StmtPath, extents: Mapping[str, float]) -> float:
    """How often cores are given work: at the outermost loop that is spread over them, each time it is come to."""
    times = 1.0
    for loop in place.loops:
        if loop.kind in ("parallel", *BLOCK_AXES):
            return times
        times *= extents[loop.var]
    return 0.0


def _values(s: Store | Reduce) -> tuple[Value, ...]:
    return (s.value,) if isinstance(s, Store) else (*s.values, *s.monoid.combine)


@dataclass(frozen=True)
class Foot:
    """An access of memory, how far each loop moves it, and the bytes of the buffer."""

    touch: StageAccess
    steps: Steps
    whole: float

    def bytes(self, extents: Mapping[str, float], line: int) -> float:
        """What it touches over these loops, in whole lines, but no more than there is."""
        moving = {v: e for v, e in extents.items() if self.steps[v] != 0}
        elements = prod(moving.values())
        along = prod(e for v, e in moving.items() if self.steps[v] == 1)
        return min(elements / along * max(line, along * self.touch.dtype.bytes), max(line, self.whole))


def _cache_bytes(own: list[Foot], extents: Mapping[str, float], cache: float, line: int) -> float:
    """Bytes that come into a cache of that size: what fits is moved once, for each iteration of what is around it."""
    names = list(extents)
    for around in range(len(names) + 1):
        inside = {v: extents[v] for v in names[around:]}
        feet = [foot.bytes(inside, line) for foot in own]
        if sum(feet) <= cache or around == len(names):
            times = prod(extents[v] for v in names[:around])
            turned = [any(foot.steps[v] != 0 for v in names[:around]) for foot in own]
            return sum(f * (times if turns else 1.0) for f, turns in zip(feet, turned, strict=True))
    return 0.0


def _access_step(t: StageAccess, loop: str, env: Mapping[str, float]) -> float | None:
    step = t.strides.get(loop, Int(0))
    return None if step is None else value_of(step, env)


def value_of(ix: Index, env: Mapping[str, float]) -> float:
    """The index at these sizes and loops in the middle of their ranges; TYPICAL_SIZE where memory decides."""
    try:
        return float(evaluate(ix, env))
    except (VerifyError, KeyError, TypeError):
        return float(TYPICAL_SIZE)
