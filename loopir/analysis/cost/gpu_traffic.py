"""GPU traffic of a lowered kernel at given sizes, counted on a sample of its warps.

Each statement is evaluated in every warp of sampled blocks (with a fixed seed), at sampled iterations of the loops
around it, so that guards, triangles and any index are counted without a formula: the active lanes, the 32-byte sectors
that they touch together, and the bank conflicts in shared memory. Samples are weighted by the extents of the loops.
Conditions on data count as true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from loopir.analysis.cost.dead_stores import live_stores
from loopir.analysis.cost.l2_reuse import Reference
from loopir.analysis.cost.transactions import BANK_WORD, BANKS, SECTOR, WIDEST, distinct
from loopir.errors import VerifyError
from loopir.ir.grammar import (
    BLOCK_AXES,
    GROUP_WARPS,
    LANES,
    THREAD_AXES,
    Alloc,
    And,
    AsyncWait,
    Barrier,
    Body,
    Buffer,
    Cast,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    InstrCall,
    Int,
    Kernel,
    Load,
    Loop,
    Mod,
    Not,
    Op,
    Or,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
)  # fmt: skip
from loopir.ir.layout.layouts import evaluate
from loopir.ir.layout.shared_memory import shared_layout
from loopir.ir.traverse.walk import (
    children,
    free_vars,
    is_affine_visible,
    loaded_buffers,
    nodes,
    replace,
    statements,
    stored_buffers,
    substitute,
)

L1_LINE = 128
"""Bytes of a line of the first cache."""
SAMPLES = 64
"""Warps in which each statement is met."""
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass
class BufferTraffic:
    """Bytes of one buffer: those that lanes ask for, and those of the sectors, or passes over all banks, they take."""

    buffer: Buffer
    read: float = 0.0
    written: float = 0.0
    read_taken: float = 0.0
    written_taken: float = 0.0
    by_grid: dict[str, float] = field(default_factory=dict[str, float])
    """Of what is read, the bytes taken by each part of the grid whose blocks go a way of their own."""
    atomic: float = 0.0
    """How often a lane folds into an element that others fold into."""

    @property
    def taken(self) -> float:
        return self.read_taken + self.written_taken


@dataclass
class KernelWork:
    """What one kernel does: its grid and block, operations by kind, and the bytes of every buffer that it shares.

    `plain` are arithmetic operations of single lanes, `special` functions of real numbers, `issued` the instructions
    that these take, a product and a sum being one; `tensor` has the operations (two a multiplication and sum) of
    tensor cores by the level of the instruction ("warp", "warpgroup") and the type of what it multiplies; `accesses`
    are loads and stores of single lanes, `lines` the cycles that the first cache takes of accesses of warps to global
    memory, in each of which it gives a line of 128 bytes.
    """

    name: str
    blocks: int
    threads: int
    shared_bytes: int
    plain: float = 0.0
    special: float = 0.0
    issued: float = 0.0
    accesses: float = 0.0
    lines: float = 0.0
    lines_waited: float = 0.0
    """Cycles of the first cache for what threads load and wait for."""
    torn: float = 0.0
    """Sectors of global memory that a store of a warp writes in part."""
    loads: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By the innermost loop with a barrier, or the barriers before where there is none: the bytes of global memory that
    threads load there, and how many of them a thread asks for before it has to wait."""
    copied: float = 0.0
    """Bytes that asynchronous copies read, for which a block asks as far ahead as its shared memory has room."""
    copy_waits: float = 0.0
    """How often a block waits for what it asks memory for, one copy after the other: of n + 1 waits that each leave n
    groups of copies under way it waits once."""
    chains: dict[str, float] = field(default_factory=dict[str, float])
    """By the buffer of the sums: the products on tensor cores that a warp makes one after the other."""
    shared_loads: float = 0.0
    """Loads of single lanes from shared memory, a vector being one."""
    rounds: float = 0.0
    """How often the threads of a block meet at a barrier."""
    references: list[Reference] = field(default_factory=list[Reference])
    """The reads of global memory."""
    grid: tuple[tuple[str, int], ...] = ()
    """The variables of a block's number with their extents, the fastest first."""
    moved: dict[str, BufferTraffic] = field(default_factory=dict[str, BufferTraffic])
    tensor: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    @property
    def matrix(self) -> float:
        """Operations of tensor cores by instructions of a warp."""
        return sum(n for (level, _), n in self.tensor.items() if level == "warp")

    @property
    def matrix_wide(self) -> float:
        """Operations of tensor cores by instructions of a warpgroup."""
        return sum(n for (level, _), n in self.tensor.items() if level == "warpgroup")

    def of(self, scope: str) -> list[BufferTraffic]:
        """What was moved of buffers in memory of that scope."""
        return [m for m in self.moved.values() if m.buffer.scope == scope]


def work(kernel: Kernel, sizes: Mapping[str, int]) -> KernelWork:
    """Count what `kernel`, of a Func lowered for a GPU, does when its program is called with `sizes`."""
    heads: list[Loop] = []
    body: Body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind in BLOCK_AXES + THREAD_AXES:
        heads.append(body[0])
        body = body[0].body
    rng = np.random.default_rng(0)
    env: dict[str, Ints] = {n: np.full((SAMPLES, LANES), v) for n, v in sizes.items()}
    blocks = threads = 1
    for loop in heads:
        if loop.kind in BLOCK_AXES:
            extent = int(evaluate(loop.extent, sizes))
            blocks *= extent
            env[loop.var] = np.repeat(rng.integers(0, max(1, extent), (SAMPLES, 1)), LANES, axis=1)
    inner = sorted((x for x in heads if x.kind in THREAD_AXES), key=lambda x: THREAD_AXES.index(x.kind))
    for loop in inner:
        threads *= int(evaluate(loop.extent, sizes))
    each = max(1, -(-threads // LANES))
    warp = np.arange(SAMPLES) % each  # what one warp alone does is common: counts of it must not hang on the draw
    flat = warp[:, None] * LANES + np.arange(LANES)
    left = flat
    for loop in inner:
        extent = int(evaluate(loop.extent, sizes))
        env[loop.var], left = left % extent, left // extent
    _, shared = shared_layout(kernel)
    out = KernelWork(kernel.name, blocks, threads, shared, grid=_grid(heads, sizes))
    met = _WarpSample(env, flat < threads, blocks / np.bincount(warp)[warp])
    _Counter(out, rng, frozenset(x.var for x in heads if x.kind in BLOCK_AXES)).body(body, met)
    return out


def _grid(heads: Sequence[Loop], sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The variables of a block's number with their extents, the fastest first: blocks of a cluster are neighbours."""
    fastest = ("cluster", *BLOCK_AXES)
    across = sorted((x for x in heads if x.kind in fastest), key=lambda x: fastest.index(x.kind))
    return tuple((x.var, int(evaluate(x.extent, sizes))) for x in across)


@dataclass(frozen=True)
class _WarpSample:
    """Warps in which a statement is met: the variables of each lane, the lanes that take part, how many warps'
    iterations each stands for, how many elements a lane takes as a vector, and the unrolled loops around."""

    env: Mapping[str, Ints]
    active: Bools
    times: Floats
    run: int = 1
    unrolled: tuple[tuple[str, int], ...] = ()
    around: tuple[tuple[Loop, float], ...] = ()
    """The loops around that a thread goes through, outer ones first, and how often."""
    grid: str = ""
    """Which part of the grid its blocks are, where blocks of merged nests go different ways."""
    rounds: float = 1.0
    """How often a thread meets others at a barrier meanwhile, before which its loads have to be there."""
    region: str = ""
    """The innermost loop around that has a barrier."""

    @property
    def lanes(self) -> float:
        """How many single elements are worked on."""
        return float((self.times * self.active.sum(axis=1)).sum()) * self.run

    def at(self, var: str, value: Ints) -> dict[str, Ints]:
        return {**self.env, var: np.broadcast_to(value, (SAMPLES, LANES))}

    def only(self, cond: Bools, grid: str = "") -> _WarpSample:
        return replace(self, active=self.active & cond, grid=self.grid + grid)


class _Counter:
    """Adds what the statements met do to a Work."""

    def __init__(self, work: KernelWork, rng: np.random.Generator, blocks: frozenset[str]) -> None:
        self.work, self.rng, self.blocks = work, rng, blocks
        self.live: dict[str, float] = {}
        """Of stores to registers of which some are never read, by label, the part that is."""
        self.barriers = 0
        """How many were met."""
        self.statement = ""
        """The label of the store or fold that was met last."""

    def body(self, body: Body, met: _WarpSample) -> None:
        for loads, run in groupby(body, lambda s: _loaded_vector(s) is not None and _contiguous(s, met)):
            together: dict[object, list[Any]] = {}
            for n, s in enumerate(run):
                together.setdefault((_loaded_vector(s), s.extent) if loads and isinstance(s, Loop) else n, []).append(s)
            for found in together.values():
                if len(found) > 1:
                    self.vectors(found, met)
                else:
                    self.stmt(found[0], met)

    def vectors(self, loops: Sequence[Loop], met: _WarpSample) -> None:
        """Vectors of one buffer that are loaded side by side, as neighbours in a window: what the lines of a cache hold
        of them together counts once."""
        loads = [(_vector_load(x), x.var) for x in loops]
        elements = dict.fromkeys(substitute(load.at[0], {var: Int(0)}) for load, var in loads)
        self.access(loads[0][0].buffer, [(x,) for x in elements], self.inside(loops[0], met), write=False)

    def stmt(self, s: Stmt, met: _WarpSample) -> None:
        if isinstance(s, Store | Reduce):
            self.statement = s.label
        match s:
            case Loop(_, _, _, body):
                self.body(body, self.inside(s, met))
            case If(cond, then, orelse):
                true, asked = _eval_cond(cond, met.env), free_vars(cond)
                self.tests(cond, met, then)
                apart = bool(orelse) and bool(asked) and asked <= self.blocks
                self.body(then, met.only(true, "0" if apart else ""))
                self.body(orelse, met.only(~true, "1" if apart else ""))
            case Alloc(b, body):
                if b.scope == "local":
                    self.live |= live_stores(b.name, body, self.live)
                self.body(body, met)
            case Store(_, b, at, value):
                live = self.live.get(s.label, 1.0)
                self.values((value, *at), met if live == 1.0 else replace(met, times=met.times * live))
                self.access(b, [at], met, write=True)
            case Reduce():
                self.fold(s, met)
            case InstrCall():
                self.issue(s, met)
            case AsyncWait(pending, "copies") if met.around:
                self.work.copy_waits += prod(n for _, n in met.around) / (pending + 1)
            case Barrier():
                self.barriers += 1
            case _:
                pass

    def fold(self, s: Reduce, met: _WarpSample) -> None:
        """A fold into an element of each of its buffers."""
        combine = s.monoid.combine
        fused = [v for c, v in zip(combine, s.values, strict=False) if _is(c, "+") and _is(v, "*")]
        self.values((*s.values, *s.at), met, combine, fused)
        for b in s.buffers:
            self.access(b, [s.at], met, write=True)
            if s.atomic and b.scope == "global":
                self.work.moved[b.name].atomic += met.lanes

    def inside(self, loop: Loop, met: _WarpSample) -> _WarpSample:
        """What is met in the body of `loop`."""
        length = _known(loop.extent, met.env)
        met = replace(met, around=(*met.around, (loop, float(length.max(initial=0)))))
        if any(isinstance(s, Barrier) for s in statements(loop.body)):
            met = replace(met, rounds=met.rounds * max(1.0, float(length.mean())), region=loop.var)
            self.work.rounds = max(self.work.rounds, met.rounds)
        if loop.kind == "vectorize" and _contiguous(loop, met):
            env = met.at(loop.var, np.zeros((SAMPLES, LANES), np.int64))
            return replace(met, env=env, run=met.run * int(length.max(initial=0)))
        # each lane goes its own number of times; a warp as often as the lane that goes most
        most = length.max(axis=1)
        at = (self.rng.random((SAMPLES, 1)) * most[:, None]).astype(np.int64)
        extent = int(length.max(initial=0))
        near = met.unrolled
        if loop.kind == "unroll" and 0 < extent * prod(n for _, n in near) <= _UNROLL_WINDOW:
            near = (*near, (loop.var, extent))
        env, active = met.at(loop.var, at), met.active & (at < length)
        return replace(met, env=env, active=active, times=met.times * most, unrolled=near)

    def issue(self, s: InstrCall, met: _WarpSample) -> None:
        """An instruction: of each lane, or of a warp together."""
        fn = s.fn
        count = sum(_OPERATIONS * _instances(fn.meaning) for n in nodes(fn.meaning) if isinstance(n, Reduce))
        warps = float((met.times * met.active.any(axis=1)).sum())
        if fn.level == "thread":
            self.work.plain += met.lanes * count
            self.work.issued += met.lanes
        elif count:
            multiplied = next(a.buffer.dtype.name for a in fn.meaning.args if a.access == "in")
            key = (fn.level, multiplied)
            groups = warps / GROUP_WARPS if fn.level == "warpgroup" else warps
            self.work.tensor[key] = self.work.tensor.get(key, 0.0) + groups * count
            if not fn.asynchronous:
                self.chain(s, met)
        for box in s.boxes:
            moved = self.work.moved.setdefault(box.buffer.name, BufferTraffic(box.buffer))
            size = met.lanes * prod(box.sizes) * box.buffer.dtype.bytes
            if fn.asynchronous == "stores":
                moved.written, moved.written_taken = moved.written + size, moved.written_taken + size
            else:
                moved.read, moved.read_taken = moved.read + size, moved.read_taken + size
                self.work.references.append(Reference(box.buffer.name, box.at, size))
                self.work.copied += size if fn.asynchronous else 0.0
        if fn.level == "thread":
            self.divisions([x for operand in s.operands for x in operand.at], met)
        for a, operand in zip(fn.meaning.args, s.operands, strict=True):
            pointer = fn.pointers.get(a.buffer.name)
            wide = replace(met, run=1 if pointer is None else pointer.run)
            waits = not fn.asynchronous
            self.access(operand.buffer, [operand.at], wide, write=a.access != "in", waits=waits)

    def chain(self, s: InstrCall, met: _WarpSample) -> None:
        """Products that add to the same sums, which wait for one another."""
        for a, sums in zip(s.fn.meaning.args, s.operands, strict=True):
            if a.access != "in":
                own = set[str]().union(*(free_vars(x) for x in sums.at))
                steps = prod(max(1.0, n) for loop, n in met.around if loop.var not in own)
                name = sums.buffer.name
                self.work.chains[name] = self.work.chains.get(name, 0.0) + steps

    def values(
        self,
        values: Sequence[Value | Index],
        met: _WarpSample,
        combine: Sequence[Value] = (),
        fused: Sequence[Value] = (),
    ) -> None:
        """The operations and loads of `values`, and of a fold's `combine`; products that are `fused` with a sum are one
        instruction with it."""
        folds = {n for v in combine for n in nodes(v)}  # of what changes every time
        values = (*values, *combine)
        for n in (n for v in values for n in nodes(v) if isinstance(n, Op)):
            special = n.fn.ulp > 0 and n.fn.work > 1
            self.work.special += met.lanes * special
            self.work.plain += met.lanes * (not special)
        self.operations(values, met, folds, fused)
        for n in dict.fromkeys(n for v in values for n in nodes(v) if isinstance(n, Select)):
            self.tests(n.cond, met, (n,))
        self.divisions(values, met)
        self.loads(values, met)

    def loads(self, values: Iterable[Any], met: _WarpSample) -> None:
        """What `values` read; of a choice between two that are both read, each where it is chosen."""
        found: dict[Buffer, list[tuple[Index, ...]]] = {}
        todo = list(values)
        while todo:
            n = todo.pop()
            if isinstance(n, Select) and _read_apart(n):
                true, asked = _eval_cond(n.cond, met.env), free_vars(n.cond)
                apart = bool(asked) and asked <= self.blocks
                self.loads((n.a,), met.only(true, "0" if apart else ""))
                self.loads((n.b,), met.only(~true, "1" if apart else ""))
                continue
            if isinstance(n, Load):
                found.setdefault(n.buffer, []).append(n.at)
            todo += reversed(list(children(n)))
        for b, elements in found.items():
            self.access(b, list(dict.fromkeys(elements)), met, write=False)

    def operations(
        self, values: Sequence[Value | Index], met: _WarpSample, folds: set[Any], fused: Sequence[Value]
    ) -> None:
        """The instructions of `values`, each where it changes, as `folds` do every time."""
        found = dict.fromkeys(n for v in values for n in nodes(v) if isinstance(n, Op | Cast))
        contracted = {*fused, *(x for n in found if isinstance(n, Op) and (x := _contracted(n)) is not None)}
        for n in (x for x in found if x not in contracted):
            issued = n.fn.work if isinstance(n, Op) else _converted(n)
            self.work.issued += met.lanes / (_repeats(n, met) if n not in folds else 1.0) * issued

    def tests(self, cond: Cond, met: _WarpSample, guarded: Iterable[Any]) -> None:
        """The comparisons of a condition, each where it changes, and the branch around what is `guarded` by it, which
        compilers leave in where there is much to compute for it, as quotients."""
        each = met.lanes / met.run
        for n in dict.fromkeys(n for n in nodes(cond) if isinstance(n, Cmp)):
            self.work.issued += each / _repeats(n, met)
        if any(_divides(n) for x in guarded for n in nodes(x)):
            self.work.issued += _BRANCH * each / _repeats(cond, met)

    def divisions(self, where: Iterable[Value | Index], met: _WarpSample) -> None:
        """Quotients and remainders in subscripts, each where it changes; by powers of two they are shifts and masks."""
        for n in dict.fromkeys(n for x in where for n in nodes(x) if isinstance(n, FloorDiv | Mod)):
            each = _DIVISION if _divides(n) else 1.0
            self.work.issued += each * met.lanes / met.run / _repeats(n, met)

    def access(
        self, b: Buffer, elements: list[tuple[Index, ...]], met: _WarpSample, *, write: bool, waits: bool = True
    ) -> None:
        """The elements of one buffer that a statement touches; what the lines of a cache hold together counts once.
        What is read before it goes on is what a thread `waits` for."""
        if b.scope not in ("global", "shared"):
            return
        alike, times = 1.0, met.times
        if not write:
            alike = (_repeated_load if b.scope == "global" else _alike_in_code)(b, elements, met)
            met = replace(met, times=times / alike)
        moved = self.work.moved.setdefault(b.name, BufferTraffic(b))
        width = met.run * b.dtype.bytes
        asked = met.lanes * b.dtype.bytes * len(elements)
        if b.scope == "global":
            taken = _sectors([_unrolled(at, met) * b.dtype.bytes for at in elements], met.active, width)
            known = prod(n for _, n in met.unrolled)  # sectors of what these loops ask for are counted together
            taken, times = taken / known, times / max(1.0, alike / known)
            places = (_offset(at, met.env) * b.dtype.bytes for at in elements)
            lines = sum(float((met.times * _first_cache_cycles(x, met.active, width)).sum()) for x in places)
            self.work.lines += lines
            self.work.lines_waited += lines if waits and not write else 0.0
            if write:
                torn = _torn(_offset(elements[0], met.env) * b.dtype.bytes, met.active, width, b.dtype.bytes)
                self.work.torn += float((met.times * torn).sum())
        else:
            taken = sum(_passes(_offset(at, met.env) * b.dtype.bytes, met.active, width) for at in elements)
            times = met.times
        total = float((times * taken).sum())
        if write:
            moved.written, moved.written_taken = moved.written + asked, moved.written_taken + total
        else:
            moved.read, moved.read_taken = moved.read + asked, moved.read_taken + total
            moved.by_grid[met.grid] = moved.by_grid.get(met.grid, 0.0) + total
            if b.scope == "global" and elements[0]:
                self.work.references.append(Reference(b.name, elements[0], total))
        self.work.accesses += asked / max(1, width)
        if not write:
            self.waited(b, met, asked, total, width, waits=waits)

    def waited(self, b: Buffer, met: _WarpSample, asked: float, total: float, width: int, *, waits: bool) -> None:
        """What threads have asked of `b`, and how much of it at once before they wait, where they do."""
        if b.scope == "shared":
            self.work.shared_loads += asked / max(1, width) if waits else 0.0
        elif not waits:
            self.work.copied += total
        else:
            per_thread = asked / max(1, self.work.blocks * self.work.threads) / met.rounds
            at_once = min(per_thread, _BYTES_AT_ONCE, _LOADS_AT_ONCE * width)
            region, read = met.region or f"after {self.barriers}", asked if at_once == per_thread else total
            if met.region and width < BANK_WORD:  # put together to words as they come, one vector after the other
                region, read, at_once = f"{region} {self.statement}", asked, min(at_once, WIDEST)
            before, ahead = self.work.loads.get(region, (0.0, 0.0))
            self.work.loads[region] = before + read, ahead + at_once


def _divides(n: Any) -> bool:
    """Whether it is a quotient or remainder by what is no power of two."""
    if not isinstance(n, FloorDiv | Mod):
        return False
    return not isinstance(n.b, Int) or n.b.value & (n.b.value - 1) != 0


def _repeats(n: Value | Cond | Index, met: _WarpSample) -> float:
    """How often in a row `n` is the same: compilers take it out of the innermost loops that do not change it."""
    times = 1.0
    read, memory = free_vars(n), loaded_buffers(n)
    for loop, length in reversed(met.around):
        if loop.var in read or not memory.isdisjoint(stored_buffers(loop)):
            break
        times *= max(1.0, length)
    return max(times, _alike_unrolled(n, met))


def _alike_in_code(b: Buffer, elements: list[tuple[Index, ...]], met: _WarpSample) -> float:
    """How often code without loops loads the same elements of shared memory, which compilers load once."""
    read = set[str]().union(*(free_vars(x) for at in elements for x in at))
    alike = (n for x, n in met.around if x.kind == "unroll" and x.var not in read and b.name not in stored_buffers(x))
    return max(1.0, prod(alike))


def _repeated_load(b: Buffer, elements: Sequence[tuple[Index, ...]], met: _WarpSample) -> float:
    """How often unrolled loops, in which nothing stores there, ask for the same elements of global memory, as windows
    of neighbouring rows do, which compilers load once."""
    steps, loops = 1, list[tuple[str, int]]()
    for loop, length in reversed(met.around):
        if loop.kind == "vectorize" and met.run > 1:
            continue  # a vector is one load
        if loop.kind != "unroll" or b.name in stored_buffers(loop) or not 1 <= steps * length <= _UNROLLED_AT_ONCE:
            break
        steps *= int(length)
        loops.append((loop.var, int(length)))
    if steps == 1 or not all(is_affine_visible(x) for at in elements for x in at):
        return 1.0
    grid = np.indices([n for _, n in loops]).reshape(len(loops), steps)
    env = {v: x[0, 0] for v, x in met.env.items()} | {v: row for (v, _), row in zip(loops, grid, strict=True)}
    places = np.stack([np.broadcast_to(evaluate(at[0], env) if at else 0, (steps,)) for at in elements])
    return places.size / np.unique(places).size


def _loaded_vector(s: Stmt) -> Buffer | None:
    """The global buffer of which a statement copies a vector to registers; None if it does something else."""
    if not isinstance(s, Loop) or s.kind != "vectorize" or len(s.body) != 1:
        return None
    store = s.body[0]
    if not isinstance(store, Store) or store.buffer.scope != "local" or not isinstance(store.value, Load):
        return None
    load = store.value
    plain = len(load.at) == 1 and not loaded_buffers(load.at[0]) and load.buffer.scope == "global"
    return load.buffer if plain else None


def _vector_load(s: Loop) -> Load:
    """What such a statement loads."""
    (store,) = s.body
    assert isinstance(store, Store)
    assert isinstance(store.value, Load)
    return store.value


def _alike_unrolled(n: Value | Cond | Index, met: _WarpSample) -> float:
    """How often, on average, unrolled loops make the same of a thread's own elements, as of neighbouring windows: what
    is in registers is known to the compiler, which keeps it."""
    loads = [x for x in nodes(n) if isinstance(x, Load)]
    loops = [(loop, int(length)) for loop, length in met.around if loop.kind == "unroll" and length > 1]
    steps = prod(length for _, length in loops)
    changed = {b for loop, _ in loops for b in stored_buffers(loop)}
    own = all(_is_own_element(x) and x.buffer not in changed for x in loads)
    if not loads or not own or not 1 < steps <= _UNROLLED_AT_ONCE:
        return 1.0
    grid = np.indices([length for _, length in loops]).reshape(len(loops), steps)
    env = {v: x[0, 0] for v, x in met.env.items()} | {x.var: row for (x, _), row in zip(loops, grid, strict=True)}
    places = np.stack([np.broadcast_to(evaluate(x.at[0], env) if x.at else 0, (steps,)) for x in loads])
    return steps / np.unique(places, axis=1).shape[1]


def _is_own_element(x: Load) -> bool:
    """Whether `x` is an element of a thread's own that loops alone tell."""
    return x.buffer.scope == "local" and len(x.at) <= 1 and all(map(is_affine_visible, x.at))


def _converted(n: Cast) -> float:
    """Instructions for a conversion: one, or half of one where a pair is packed into a register."""
    return 0.5 if n.dtype.is_float and n.dtype.bytes == 2 else 1.0


def _contracted(n: Op) -> Value | None:
    """The product of which `n` is the sum, if it is one: both are one instruction."""
    return next((a for a in n.args if _is(a, "*")), None) if _is(n, "+", "-") else None


def _is(v: Value, *infix: str) -> bool:
    return isinstance(v, Op) and v.fn.infix in infix


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_YES = np.ones((SAMPLES, LANES), bool)
_SAMPLE = np.repeat(np.arange(SAMPLES), LANES).reshape(SAMPLES, LANES)
"""By sample and lane, the number of the sample."""
_LINES_AT_ONCE = 4
"""Lines that the first cache looks for in a cycle (measured on an H200: a depthwise 5 x 5, rows of "depthwise" in
benchmarks/results/gpu_wide.txt, whose filters lie 25 elements apart)."""
_OPERATIONS, _DIVISION = 2, 4.0
"""Of a multiplication and a sum; instructions for a quotient by a constant: a product, shifts, a correction."""
_BRANCH = 5.0
"""Instructions of a branch: two jumps over what is guarded, one behind it, and that lanes part and meet again, as
nvdisasm shows them."""
_UNROLL_WINDOW = 64
"""Iterations of unrolled loops whose accesses are taken to find one another's lines in a cache."""
_UNROLLED_AT_ONCE = 4096
"""Iterations of unrolled loops at which a thread's own elements are compared."""
_BYTES_AT_ONCE, _LOADS_AT_ONCE = 64.0, 12
"""What a thread asks for at once by one statement, before it waits: four vectors, or so many single loads."""


def _offset(at: tuple[Index, ...], env: Mapping[str, Ints]) -> Ints:
    return np.zeros((SAMPLES, LANES), np.int64) if not at else _known(at[0], env)


def _read_apart(n: Select) -> bool:
    """Whether loops alone say which of two values, both read from memory, is chosen, as of arrays put together."""
    reads = (any(isinstance(x, Load) for x in nodes(part)) for part in (n.a, n.b))
    return all(reads) and not any(isinstance(x, Load) for x in nodes(n.cond))


def _unrolled(at: tuple[Index, ...], met: _WarpSample) -> Ints:
    """The offsets of a lane in every iteration of the unrolled loops around, side by side."""
    if not met.unrolled:
        return _offset(at, met.env)[:, :, None]
    steps = np.indices([n for _, n in met.unrolled]).reshape(len(met.unrolled), -1)
    read = free_vars(at[0]) if at else frozenset[str]()
    env = {v: x[:, :, None] for v, x in met.env.items() if v in read}
    env |= {v: row[None, None, :] for (v, _), row in zip(met.unrolled, steps, strict=True)}
    return _known(at[0], env, steps.shape[1]) if at else np.zeros((SAMPLES, LANES, steps.shape[1]), np.int64)


def _sectors(addresses: list[Ints], active: Bools, width: int) -> Floats:
    """Bytes of the sectors that the lanes of each warp touch together, at any of these addresses."""
    every = np.concatenate(addresses, axis=2)[active]
    reached = [*(every + step for step in range(0, width, SECTOR)), every + width - 1]
    rows, sectors = np.broadcast_arrays(_SAMPLE[active][:, None, None], np.stack(reached, axis=2) // SECTOR)
    return np.bincount(distinct(rows, sectors)[0], minlength=SAMPLES).astype(np.float64) * SECTOR


def _torn(addresses: Ints, active: Bools, width: int, item: int) -> Floats:
    """The sectors that the lanes of each warp write together, but not whole."""
    whole = LANES * width % SECTOR == 0 and active.all() and (addresses[:, 0] % SECTOR == 0).all()
    if whole and (np.diff(addresses, axis=1) == width).all():
        return np.zeros(SAMPLES)
    every, each = addresses[active][:, None] + np.arange(0, width, item), SECTOR // item
    row, element = distinct(*np.broadcast_arrays(_SAMPLE[active][:, None], every // item))
    sector = element // each
    starts = np.flatnonzero(np.r_[row[:1] >= 0, (np.diff(row) != 0) | (np.diff(sector) != 0)])
    torn = np.diff(starts, append=row.size) < each
    return np.bincount(row[starts][torn], minlength=SAMPLES).astype(np.float64)


def _lines_touched(addresses: Ints, active: Bools, width: int) -> Floats:
    """The lines of a cache that the lanes of each warp touch together."""
    first, last = addresses // L1_LINE, (addresses + width - 1) // L1_LINE
    ends = np.sort(np.where(active, first, -1), axis=1)
    changes = (np.diff(ends, axis=1) != 0) & (ends[:, 1:] >= 0)
    begun = changes.sum(axis=1) + (ends[:, 0] >= 0)
    return begun + np.where(active, last - first, 0).max(axis=1)


def _first_cache_cycles(addresses: Ints, active: Bools, width: int) -> Floats:
    """The cycles that the first cache takes of each warp's access: it looks for four lines at once, and gives what its
    banks, those of shared memory, have of them."""
    lines = _lines_touched(addresses, active, width)
    least = max(1, width * LANES // L1_LINE)
    if (lines <= least + 1).all():
        return np.minimum(lines, least)
    return np.maximum(np.ceil(lines / _LINES_AT_ONCE), _passes(addresses, active, width) / L1_LINE)


def _passes(addresses: Ints, active: Bools, width: int) -> Floats:
    """Bytes that all banks could have moved in the passes that each warp needs: the most words of one bank, for every
    part of the warp that makes 128 bytes."""
    words_each = max(1, min(width, WIDEST) // BANK_WORD)
    first = addresses[active] // BANK_WORD
    part = (_SAMPLE * words_each + np.arange(LANES) * words_each // LANES)[active]
    rows, words = np.broadcast_arrays(part[:, None], first[:, None] + np.arange(max(1, width // BANK_WORD)))
    row, word = distinct(rows, words)
    found = np.bincount(row * BANKS + word % BANKS, minlength=SAMPLES * words_each * BANKS)
    passes = found.reshape(SAMPLES, words_each, BANKS).max(axis=2).sum(axis=1)
    return passes.astype(np.float64) * (BANKS * BANK_WORD)


def _known(ix: Index, env: Mapping[str, Ints], *steps: int) -> Ints:
    """The index for every lane, and for each of `steps` of unrolled loops; 0 where it comes from memory."""
    try:
        return np.broadcast_to(np.asarray(evaluate(ix, env), np.int64), (SAMPLES, LANES, *steps))
    except VerifyError:
        return np.zeros((SAMPLES, LANES, *steps), np.int64)


def _eval_cond(cond: Cond, env: Mapping[str, Ints]) -> Bools:
    """Whether the condition holds, for every lane; yes where memory decides."""
    match cond:
        case And(terms):
            return np.logical_and.reduce([_eval_cond(t, env) for t in terms] or [_YES])
        case Or(terms):
            return np.logical_or.reduce([_eval_cond(t, env) for t in terms] or [~_YES])
        case Not(term):
            return ~_eval_cond(term, env)
        case Cmp(op, a, b):
            try:
                x, y = evaluate(a, env), evaluate(b, env)
            except VerifyError:
                return _YES
            return np.broadcast_to(np.asarray(_COMPARE[op](x, y)), (SAMPLES, LANES))
        case _:
            return _YES


def _contiguous(loop: Stmt, met: _WarpSample) -> bool:
    """Whether every access to memory in `loop` goes from neighbour to neighbour, or stays, with it."""
    assert isinstance(loop, Loop)
    ends = [met.at(loop.var, np.asarray(n)) for n in (0, 1)]
    found = [n for s in statements(loop.body) for n in nodes(s) if isinstance(n, Load | Store) and n.at]
    return all(
        set(np.unique(_known(n.at[0], ends[1]) - _known(n.at[0], ends[0]))) <= {0, 1}
        for n in found
        if n.buffer.scope in ("global", "shared")
    )


def _instances(func: Func) -> int:
    """How often the statement that an instruction means runs."""
    count, body = 1, func.body
    while isinstance(body[0], Loop):
        count, body = count * int(evaluate(body[0].extent, {})), body[0].body
    return count


def _decided(cond: Cond, sizes: Mapping[str, int]) -> bool:
    """Whether a condition of the host holds at these sizes; yes where memory decides."""
    given = {n: np.full((SAMPLES, LANES), v) for n, v in sizes.items()}
    return bool(_eval_cond(cond, given).all())


def launches(body: Body, sizes: Mapping[str, int], times: int = 1) -> Iterator[tuple[Kernel, dict[str, int], int]]:
    """The kernels of a lowered Func, each with what it is given and how often it is launched, by loops of the host."""
    for s in body:
        match s:
            case Kernel():
                yield s, dict(sizes), times
            case Loop(var, extent, _, inner):
                yield from launches(inner, {**sizes, var: 0}, times * max(0, int(evaluate(extent, sizes))))
            case Alloc(_, inner):
                yield from launches(inner, sizes, times)
            case If(cond, then, orelse):
                yield from launches(then if _decided(cond, sizes) else orelse, sizes, times)
            case _:
                pass
