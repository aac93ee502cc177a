"""How a lowered kernel uses memory, counted without a GPU: sectors, banks, vectors, and whatever goes wrong.

The interpreter runs all threads. The 32 lanes of a warp that are at one access of one statement, in one iteration of
the loops that they run alike, are one instruction. More sectors of global memory than its bytes need are uncoalesced,
more turns of the banks of shared memory than its words need are bank conflicts (`loopir.analysis.cost.transactions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np

from loopir.analysis.cost.transactions import BANK_WORD, BANKS, SECTOR, words_per_bank
from loopir.build import Schedule
from loopir.errors import InterpretError
from loopir.interp.interpret import Instance, bind_sizes, trace_accesses
from loopir.interp.spmd import CheckedMemory
from loopir.ir.grammar import LANES, THREAD_AXES, Buffer, Func, InstrCall, Kernel, Loop, MBarrierInit
from loopir.ir.traverse.walk import leaf_paths, nodes, statements
from loopir.ir.verify.verify import evaluate
from loopir.lower.pipeline import lower

Lanes = dict[int, list[int]]
"""By lane, the bytes at which its cells start."""


@dataclass
class Access:
    """One access of a statement, over all instructions that do it.

    `taken` is in sectors for global memory and in turns for shared memory; `needed` is the least that would do. `worst`
    shows the instruction that is furthest from it.
    """

    statement: str
    loops: tuple[str, ...]
    buffer: str
    scope: str
    write: bool
    bytes: int
    instructions: int = 0
    taken: int = 0
    needed: int = 0
    misaligned: int = 0
    worst: str = ""
    gap: int = 0

    @property
    def extra(self) -> int:
        """Sectors, or turns, beyond those that are needed."""
        return self.taken - self.needed

    def __str__(self) -> str:
        unit = "turns of the banks" if self.scope == "shared" else "sectors"
        does = f"{'writes' if self.write else 'reads'} {self.buffer} ({self.scope})"
        where = f" in {', '.join(self.loops)}" if self.loops else ""
        told = f"{self.statement}{where} {does}: {self.instructions} instructions, {self.taken} {unit}"
        if self.extra:
            kind = "bank conflicts" if self.scope == "shared" else "uncoalesced"
            told += f", {self.needed} would do: {kind}; {self.worst}"
        return told + (f"; {self.misaligned} of them start off a multiple of their vector" if self.misaligned else "")


@dataclass(frozen=True)
class MemoryReport:
    """The accesses of all kernels in textual order, and what is wrong: `fault` is a race, a divergent barrier, an
    access out of bounds or before a copy's wait, as the interpreter tells it; None if there is none."""

    accesses: tuple[Access, ...]
    fault: str | None = None

    @property
    def uncoalesced(self) -> int:
        """Sectors of global memory beyond those that are needed."""
        return sum(a.extra for a in self.accesses if a.scope == "global")

    @property
    def bank_conflicts(self) -> int:
        """Turns of shared memory beyond those that are needed."""
        return sum(a.extra for a in self.accesses if a.scope == "shared")

    @property
    def misaligned(self) -> int:
        """Vector accesses that start off a multiple of their size, which a GPU does not do."""
        return sum(a.misaligned for a in self.accesses)

    def __bool__(self) -> bool:
        return self.fault is None and not self.misaligned

    def __str__(self) -> str:
        return "\n".join([*map(str, self.accesses), *([f"fault: {self.fault}"] if self.fault else [])])


def memory_report(
    program: Schedule | Func,
    arrays: Sequence[Any] | Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
) -> MemoryReport:
    """What the kernels of `program`, scheduled for a GPU or lowered already, do to memory in one call.

    `arrays` are as for `loopir.interpret`, or drawn where only `sizes` are given; `seed` picks the order of threads.
    Every thread is run, one after the other: sizes that fill a few blocks are enough, and quick.
    """
    func = program.func if isinstance(program, Schedule) else program
    if not any(isinstance(s, Kernel) for s in statements(func.body)):
        func = lower(func, "cuda")
    given = _drawn(func, sizes or {}) if arrays is None else arrays
    counter = _Counter(func)
    try:
        trace_accesses(func, given, sizes, counter.seen, seed=seed)
    except InterpretError as error:
        return MemoryReport(tuple(counter.counted()), str(error))
    return MemoryReport(tuple(counter.counted()))


def _drawn(func: Func, sizes: Mapping[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    known = bind_sizes(func, {}, sizes)
    wanted = [a.buffer for a in func.args if a.access != "out"]
    shapes = {b.name: [max(0, evaluate(d, dict(known))) for d in b.shape] for b in wanted}
    return {b.name: rng.integers(0, 4, shapes[b.name]).astype(b.dtype.numpy) for b in wanted}


# ---------------------------------------------------------------- which lanes are one instruction

Key = tuple[object, ...]


@dataclass
class _Counter:
    """Gathers the lanes of each instruction as the threads are run."""

    func: Func
    loops: dict[str, tuple[Loop, ...]] = field(default_factory=dict[str, "tuple[Loop, ...]"])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    warps: dict[Key, Lanes] = field(default_factory=dict[Key, Lanes])
    ordinals: dict[Key, int] = field(default_factory=dict[Key, int])
    order: dict[str, int] = field(default_factory=dict[str, int])
    boxed: frozenset[str] = frozenset()
    """Instructions that move boxes, which start anywhere."""

    def __post_init__(self) -> None:
        found = [*leaf_paths(self.func.body)]
        self.loops = {p.stmt.label: p.loops for p in found}
        barriers = {
            s.ring.name for s in statements(self.func.body) if isinstance(s, MBarrierInit)
        }  # no memory of anybody's
        self.buffers = {b.name: b for b in nodes(self.func) if isinstance(b, Buffer) and b.name not in barriers}
        self.boxed = frozenset(s.fn.name for s in statements(self.func.body) if isinstance(s, InstrCall) and s.boxes)
        issued = (s.fn.name for s in statements(self.func.body) if isinstance(s, InstrCall))
        self.order = {name: n for n, name in enumerate((*self.loops, *dict.fromkeys(issued)))}

    def seen(self, m: CheckedMemory, cell: int, write: bool, here: Instance) -> None:
        b = self.buffers.get(m.name)
        if not m.who.active or b is None or b.scope not in ("global", "shared"):
            return
        label, at = here
        around = self.loops.get(label)
        whole = around is None or any(x.kind == "vectorize" for x in around)  # one instruction moves several cells
        if around is not None:
            at = tuple(v for x, v in zip(around, at, strict=False) if x.kind not in (*THREAD_AXES, "vectorize"))
        lane = m.who.agent.number
        instance = (m.who.block, lane // LANES, label, at, m.name, write)
        turn = 0
        if not whole:
            mine = (*instance, lane)
            turn = self.ordinals[mine] = self.ordinals.get(mine, -1) + 1
        self.warps.setdefault((*instance, turn), {}).setdefault(lane % LANES, []).append(cell * b.dtype.bytes)

    def counted(self) -> Iterator[Access]:
        """The accesses, each over its instructions."""
        out: dict[Key, Access] = {}
        for (_, warp, label, _, name, write, turn), lanes in self.warps.items():
            b = self.buffers[str(name)]
            key = (label, name, write, turn)
            a = out.get(key)
            if a is None:
                around = tuple(x.var for x in self.loops.get(str(label), ()))
                a = out[key] = Access(str(label), around, b.name, b.scope, bool(write), b.dtype.bytes)
            _add_access(a, lanes, f"warp {warp}", vectors=str(label) not in self.boxed)
        yield from sorted(out.values(), key=lambda a: (self.order.get(a.statement, 0), a.write))


# ---------------------------------------------------------------- sectors and banks


def _add_access(a: Access, lanes: Lanes, warp: str, *, vectors: bool = True) -> None:
    """Add one instruction of a warp; what a lane has several cells of is a vector, or not."""
    width = max(len(x) for x in lanes.values()) * a.bytes
    taken, needed, example = (_bank_passes if a.scope == "shared" else _sectors)(lanes, a.bytes, width)
    a.instructions += 1
    a.taken += taken
    a.needed += needed
    a.misaligned += any(min(x) % width for x in lanes.values()) if vectors and width > a.bytes else 0
    if taken - needed > a.gap:
        a.gap, a.worst = taken - needed, f"{warp}: {example}"


def _sectors(lanes: Lanes, size: int, width: int) -> tuple[int, int, str]:
    cells = {x for found in lanes.values() for x in found}
    touched = {x // SECTOR for x in cells}
    first = sorted(lanes)[:2]
    steps = {min(lanes[b]) - min(lanes[a]) for a, b in pairwise(first)}
    apart = f"lanes {first[0]} and {first[-1]} are {abs(steps.pop())} bytes apart" if steps else "one lane"
    return len(touched), ceil(len(cells) * size / SECTOR), apart


def _bank_passes(lanes: Lanes, size: int, width: int) -> tuple[int, int, str]:
    """Lanes with wide vectors go by parts of the warp, each of which the banks serve by itself."""
    wanted = [
        (lane, word)
        for lane, found in lanes.items()
        for word in {byte // BANK_WORD for x in found for byte in range(x, x + size)}
    ]
    who, words = np.array(wanted).T
    counts = words_per_bank(who, words, width)
    used = counts.sum(axis=1)
    taken, needed = int(counts.max(axis=1).sum()), int((-(-used // BANKS)).sum())
    ways = int(counts.max())
    if ways == 1:
        return taken, needed, ""
    part, bank = np.unravel_index(counts.argmax(), counts.shape)
    mine = (who // (LANES // len(counts)) == part) & (words % BANKS == bank)
    first = dict(zip(words[mine][::-1].tolist(), who[mine][::-1].tolist(), strict=True))  # who wants a word first
    return (
        taken,
        needed,
        f"lanes {_listed(sorted(first.values())[:4])} want different words of bank {bank}, {ways} ways",
    )


def _listed(lanes: Iterable[int]) -> str:
    return ", ".join(map(str, lanes))
