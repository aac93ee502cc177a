"""Every access that a run makes, in order, by brute force: what the dependence analysis is tried against.

A small executor that shares nothing with `loopir.analysis`. Values are hashes of all that they come from, so that two
runs whose cells agree had every read see the same write; memory has no bounds. Loops of kind "vectorize" run all
lanes together, statement by statement, each with its reads before its writes, but for vector reductions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from loopir.ir.grammar import (
    Add,
    Alloc,
    And,
    Body,
    Cast,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    IndexToValue,
    InstrRegion,
    Int,
    InTurn,
    Kernel,
    Load,
    Loop,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    Reduce,
    Select,
    Store,
    ValueToCond,
    ValueToIndex,
    Var,
    WarpSpecialized,
    Xor,
)
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.traverse.walk import free_vars, is_vector_reduction, taken_names

Env = tuple[tuple[str, int], ...]
"""The loops around, outermost first, with their values."""
Home = tuple[str, frozenset[tuple[str, int]]]
"""A buffer, with the iteration that allocated it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One access. `label` is "" for what an extent or a condition of an If reads; `init`: of a reduction's start."""

    label: str
    init: bool
    env: Env
    home: Home
    cell: tuple[int, ...]
    write: bool
    fold: str
    """What it is folded by, and into: folds by one monoid into the same buffers commute. Empty for what is no fold."""
    time: int
    loops: tuple[str, ...] = field(default=(), compare=False)
    """The loops around as they are called where the stores that start reductions have nests of their own."""

    @property
    def instance(self) -> tuple[str, bool, frozenset[tuple[str, int]]]:
        return self.label, self.init, frozenset(self.env)

    @property
    def key(self) -> tuple[object, ...]:
        """What stays the same when the order changes."""
        return self.instance, self.home, self.cell, self.write

    def at(self) -> dict[str, int]:
        return dict(self.env)


Pair = tuple[Event, Event]


@dataclass(frozen=True, slots=True)
class Lane:
    """One iteration of all loops around, with the memory that is its own."""

    env: Env
    homes: Mapping[str, Home]
    known: Mapping[str, int]
    """The sizes, and the loops around."""


@dataclass
class Run:
    """A Func executed at `sizes`; `events` in order, `cells` as they are left."""

    func: Func
    sizes: dict[str, int]
    events: list[Event] = field(default_factory=list[Event])
    cells: dict[tuple[Home, tuple[int, ...]], int] = field(default_factory=dict["tuple[Home, tuple[int, ...]]", int])
    time: int = 0
    origin: Mapping[str, tuple[str, Mapping[str, Index]]] = field(
        default_factory=dict[str, "tuple[str, Mapping[str, Index]]"]
    )
    """Where a statement came from, if it is to be told as that: a label, and all its loops there over those here."""
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    """Labels and loops of the stores that start a reduction, as they are called in `func`."""

    def __post_init__(self) -> None:
        explicit = explicit_init(self.func)
        self.renamed = {n: n.rpartition("_init")[0] for n in taken_names(explicit) - taken_names(self.func)}
        self.body(explicit.body, [Lane((), {}, self.sizes)])

    def env(self, lane: Lane, label: str) -> Env:
        here = tuple((self.renamed.get(name, name), v) for name, v in lane.env)
        came = self.origin.get(self.renamed.get(label, label))
        if came is None:
            return here
        known = Lane((), lane.homes, {**self.sizes, **dict(here)})
        return tuple((v, self.looked_up(x, known)) for v, x in came[1].items() if free_vars(x) <= known.known.keys())

    def looked_up(self, ix: Index, lane: Lane) -> int:
        """The value of an index, of which no access is kept: the program does not make it."""
        count = len(self.events)
        found = self.index(ix, lane, "")
        del self.events[count:]
        return found

    def name(self, label: str) -> str:
        here = self.renamed.get(label, label)
        return self.origin[here][0] if here in self.origin else here

    # ------------------------------------------------------------ statements

    def body(self, body: Body, lanes: Sequence[Lane]) -> None:
        for s in body:
            match s:
                case Loop():
                    self.loop(s, lanes)
                case If(cond, then, orelse):
                    held = [self.truth(cond, lane, "") for lane in lanes]
                    self.time += 1
                    self.body(then, [lane for lane, c in zip(lanes, held, strict=True) if c])
                    self.body(orelse, [lane for lane, c in zip(lanes, held, strict=True) if not c])
                case Alloc(buffer, inner):
                    name = buffer.name
                    own = [Lane(x.env, {**x.homes, name: (name, frozenset(x.env))}, x.known) for x in lanes]
                    self.body(inner, own)
                case Kernel(_, inner) | InstrRegion(_, inner) | WarpSpecialized(_, inner) | InTurn(inner):
                    self.body(inner, lanes)
                case Store() | Reduce():
                    self.leaf(s, lanes)
                case _:
                    pass

    def loop(self, s: Loop, lanes: Sequence[Lane]) -> None:
        extents = [self.index(s.extent, lane, "") for lane in lanes]
        self.time += 1
        steps = [
            [
                Lane((*lane.env, (s.var, v)), lane.homes, {**lane.known, s.var: v})
                for lane, n in zip(lanes, extents, strict=True)
                if v < n
            ]
            for v in range(max(extents, default=0))
        ]
        if s.kind == "vectorize" and not is_vector_reduction(s):
            steps = [[lane for step in steps for lane in step]]
        for step in steps:
            self.body(s.body, step)

    def leaf(self, s: Store | Reduce, lanes: Sequence[Lane]) -> None:
        """The reads of all lanes, then their writes; of an atomic fold, those of one lane after those of another."""
        if isinstance(s, Reduce) and s.atomic and len(lanes) > 1:
            for lane in lanes:
                self.leaf(s, [lane])
            return
        pending: list[tuple[Lane, str, tuple[int, ...], int]] = []
        fold = fold_of(s)
        for lane in lanes:
            at = tuple(self.index(x, lane, s.label) for x in s.at)
            values = s.values if isinstance(s, Reduce) else (s.value,)
            found = self.value(s, lane, [self.hashed(v, lane, s.label) for v in values])
            self.made(found)
            for b in s.buffers:
                old = self.access(b.name, at, lane, s.label, write=False, fold=fold) if fold else 0
                pending.append((lane, b.name, at, (old + found) % (1 << 64)))
        self.time += 1
        for lane, name, at, value in pending:
            self.access(name, at, lane, s.label, write=True, fold=fold)
            self.cells[self.home(name, lane), at] = value
        self.time += 1

    def value(self, s: Store | Reduce, lane: Lane, values: Sequence[int]) -> int:
        """What `s` makes of `values`: for each instance another, so that it shows which one was the last."""
        return digest(self.name(s.label), sorted(self.env(lane, s.label)), *values)

    def made(self, value: int) -> None:
        """A statement has made `value` of what it read: for who wants to know them all."""

    # ------------------------------------------------------------ memory

    def home(self, name: str, lane: Lane) -> Home:
        return lane.homes.get(name, (name, frozenset()))

    def access(
        self, name: str, at: tuple[int, ...], lane: Lane, label: str, *, write: bool = False, fold: str = ""
    ) -> int:
        home = self.home(name, lane)
        init = label in self.renamed
        env, loops = self.env(lane, label), tuple([v for v, _ in lane.env])
        self.events.append(Event(self.name(label), init, env, home, at, write, fold, self.time, loops))
        found = self.cells.get((home, at))
        return self.unwritten(home, at) if found is None else found

    def unwritten(self, home: Home, at: tuple[int, ...]) -> int:
        """What stands for the value of an element that nothing has written."""
        return digest(home[0], sorted(home[1]), at)

    # ------------------------------------------------------------ indices, conditions, values

    def index(self, ix: Index, lane: Lane, label: str) -> int:
        kind = type(ix)
        if kind is Int:
            return ix.value  # type: ignore[attr-defined]
        if kind is Var:
            return lane.known[ix.name]  # type: ignore[attr-defined]
        if isinstance(ix, ValueToIndex):
            return self.hashed(ix.value, lane, label) % 4
        pair: Any = ix
        return _ARITHMETIC[kind](self.index(pair.a, lane, label), self.index(pair.b, lane, label))

    def truth(self, c: Cond, lane: Lane, label: str) -> bool:
        match c:
            case And(terms):
                return all(self.truth(t, lane, label) for t in terms)
            case Or(terms):
                return any(self.truth(t, lane, label) for t in terms)
            case Not(term):
                return not self.truth(term, lane, label)
            case Cmp(op, left, right):
                a, b = self.index(left, lane, label), self.index(right, lane, label)
                return {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b}[op]
            case ValueToCond(value):
                return self.hashed(value, lane, label) % 2 == 0
            case _:
                raise AssertionError(c)

    def hashed(self, n: Node, lane: Lane, label: str) -> int:
        """A value as a hash of its structure and of what it reads; the arm of a Select that is not taken is not."""
        match n:
            case Load(buffer, at):
                return self.access(buffer.name, tuple(self.index(x, lane, label) for x in at), lane, label)
            case Select(cond, a, b):
                return self.hashed(a if self.truth(cond, lane, label) else b, lane, label)
            case Index():
                return self.index(n, lane, label)
            case Cond():
                return int(self.truth(n, lane, label))
            case Op(fn, args):
                return digest(fn.name, *(self.hashed(x, lane, label) for x in args))
            case IndexToValue(of, t):
                return digest(t.name, self.hashed(of, lane, label))
            case Cast(value, t):
                return digest(t.name, self.hashed(value, lane, label))
            case _:
                return of_node(n)


_ARITHMETIC: dict[type[Index], Callable[[int, int], int]] = {
    Add: operator.add, Mul: operator.mul, Min: min, Max: max, FloorDiv: operator.floordiv, Mod: operator.mod,
    Xor: operator.xor,
}  # fmt: skip


def digest(*parts: object) -> int:
    """A number for these, the same in every process: numbers are mixed as Python does, the rest is hashed once."""
    return hash(tuple([p & MASK_64 if type(p) is int else _digest_of(p) for p in parts])) & MASK_64


MASK_64 = (1 << 64) - 1


def _digest_of(p: object) -> int:
    if isinstance(p, tuple | list):
        return digest(*p)
    return of_node(p) if isinstance(p, Node) else _blake(p)


@memoized
def of_node(n: Node) -> int:
    return _blake(repr(n))


@lru_cache(maxsize=4096)
def _blake(p: object) -> int:
    return int.from_bytes(blake2b(repr(p).encode(), digest_size=8).digest(), "big")


@memoized
def fold_of(s: Store | Reduce) -> str:
    """What a statement folds by, and into; empty for a store."""
    return f"{s.monoid.name} {of_node(s.monoid)} {[b.name for b in s.buffers]}" if isinstance(s, Reduce) else ""


# ---------------------------------------------------------------- pairs


def dependent(events: Sequence[Event]) -> Iterator[Pair]:
    """Pairs of accesses of two instances to one cell, at least one a write, the earlier one first."""
    by_cell: dict[object, list[Event]] = {}
    for e in events:
        by_cell.setdefault((e.home, e.cell), []).append(e)
    for found in by_cell.values():
        for n, e in enumerate(found):
            yield from ((e, f) for f in found[n + 1 :] if (e.write or f.write) and e.instance != f.instance)


def crossing(events: Sequence[Event], loop: str) -> Iterator[Pair]:
    """Dependent pairs of different iterations of `loop`, in one iteration of the loops around it."""
    inside = [e for e in events if loop in e.at()]
    around = {e: [name for name, _ in e.env].index(loop) for e in inside}
    for e, f in dependent(inside):
        n = around[e]
        same = e.loops[: n + 1] == f.loops[: n + 1] and e.env[:n] == f.env[:n]
        if same and e.at()[loop] != f.at()[loop]:
            yield e, f


def violated(before: Sequence[Event], after: Sequence[Event], *, folds_commute: bool = True) -> Iterator[Pair]:
    """Dependent pairs of `before` that `after` does not run in that order, but for folds by one monoid.

    What extents and conditions read is left out, as the two runs need not read it equally often.
    """
    times = {e.key: e.time for e in after}
    for e, f in dependent([x for x in before if x.label]):
        free = folds_commute and e.fold == f.fold != ""
        if e.time < f.time and times[e.key] >= times[f.key] and not free:
            yield e, f
