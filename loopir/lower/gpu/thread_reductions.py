"""Reduction trees of threads: shuffles in a warp, shared memory between warps.

The threads that fold together are a group. A group inside a warp, of a power-of-two size, uses butterfly shuffles; a
group of whole warps does so in each warp, and then once over the warps' results. Any other group, such as threads along
y, stores its parts to shared memory, where they are folded serially. The order is deterministic, and a total that all
threads keep has the same bits in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod

from loopir.intrinsics.nvidia.warp_shuffle import LANE_XOR
from loopir.ir.grammar import (
    LANES,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    If,
    Index,
    Int,
    Load,
    Loop,
    Monoid,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    Var,
    conj,
)

MAX_SHARED_BYTES = 16384
"""Bytes of shared memory that the parts of several elements may take together."""
At = tuple[Index, ...]
Namer = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Threads:
    """The thread axes of a launch, x first: their variables and extents."""

    axes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(loops: Iterable[Loop]) -> Threads:
        found = sorted(loops, key=lambda x: x.kind)
        return Threads(tuple((x.var, x.extent.value) for x in found if isinstance(x.extent, Int)))

    def names(self) -> set[str]:
        return {name for name, _ in self.axes}

    def among(self, over: Iterable[str]) -> Group | None:
        """The threads that differ only in axes that are in `over`; None if no axis is."""
        named = set(over) & self.names()
        return Group(self, tuple(a for a in self.axes if a[0] in named)) if named else None


@dataclass(frozen=True, slots=True)
class Group:
    """Threads that fold together: those of `threads` that differ only along `axes`."""

    threads: Threads
    axes: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        return prod(extent for _, extent in self.axes)

    def others(self) -> tuple[tuple[str, int], ...]:
        return tuple(a for a in self.threads.axes if a not in self.axes)

    def first(self) -> Cond:
        """The one thread of the group that stands for it."""
        return conj(*(Cmp("==", Var(name), Int(0)) for name, _ in self.axes))

    def adjacent(self) -> bool:
        """Whether the group's threads follow one another as lanes do."""
        inner = [a for a in self.threads.axes if a[1] > 1]
        mine = [a for a in self.axes if a[1] > 1]
        return inner[: len(mine)] == mine

    def tree(
        self, monoid: Monoid, parts: tuple[Buffer, ...], at: At, *, all_threads: bool, name: Namer
    ) -> tuple[Body, Body, Body, tuple[Buffer, ...]]:
        """Statements, which all threads of the block run, that fold `parts[at]` of the threads of a group.

        The result is in `parts[at]` of the first thread, or with `all_threads` of each. There are three lists: to run
        for each element of the parts, once for all, and for each element again. Also returns the shared memory that
        they use.
        """
        tree = _Tree(self, monoid, parts, at, all_threads and not _symmetric(monoid), name)
        whole_warps = self.adjacent() and self.size % LANES == 0
        if self.adjacent() and (whole_warps or (self.size < LANES and self.size & (self.size - 1) == 0)):
            body = tree.exchanges(min(self.size, LANES))
            between, shared = tree.between_warps() if self.size > LANES else ((), ())
            return (), (), tree.allocated((*body, *between)), shared
        return tree.one_by_one(all_threads)


@dataclass(frozen=True, slots=True)
class _Tree:
    """Builds the statements of one reduction; with `ordered`, the lower of two lanes is the left operand."""

    group: Group
    monoid: Monoid
    parts: tuple[Buffer, ...]
    at: At
    ordered: bool
    name: Namer
    spare: list[Buffer] = field(default_factory=list[Buffer])

    def load(self) -> tuple[Value, ...]:
        return tuple(Load(b, self.at) for b in self.parts)

    def store(self, hint: str, values: Iterable[Value]) -> Body:
        """What each part becomes."""
        return tuple(
            Store(self.name(f"{b.name}_{hint}"), b, self.at, v) for b, v in zip(self.parts, values, strict=True)
        )

    def fold(self, values: tuple[Value, ...]) -> Stmt:
        return Reduce(self.name(f"{self.parts[0].name}_fold"), self.parts, self.at, self.monoid, values)

    def registers(self, hint: str) -> tuple[Buffer, ...]:
        """A value more for each part, made once."""
        found = {b.name: b for b in self.spare}
        names = [f"{b.name}_{hint}" for b in self.parts]
        if names[0] not in found:
            made = [Buffer(self.name(n), (), b.dtype, "local") for n, b in zip(names, self.parts, strict=True)]
            self.spare.extend(made)
            return tuple(made)
        return tuple(found[n] for n in names)

    def allocated(self, body: Body) -> Body:
        for b in reversed(self.spare):
            body = (Alloc(b, body),)
        return body

    # ------------------------------------------------------------ in a warp

    def exchanges(self, lanes: int) -> Body:
        """Every lane ends with the fold of its `lanes` neighbours, of which it is one."""
        out: list[Stmt] = []
        bit = lanes // 2
        while bit:
            given = self.registers("given")
            for b, v in zip(given, self.load(), strict=True):
                out.append(Store(self.name(f"{b.name}_{bit}"), b, (), Op(LANE_XOR[bit], (v,))))
            if self.ordered:
                out += self.in_order(given, bit)
            out.append(self.fold(tuple(Load(b, ()) for b in given)))
            bit //= 2
        return tuple(out)

    def in_order(self, given: tuple[Buffer, ...], bit: int) -> Body:
        """Own and given parts exchanged in the upper of two lanes, so that both fold the same two in one order."""
        upper = Cmp("==", _linear(self.group.axes) // bit % 2, Int(1))
        kept = self.registers("own")
        out: list[Stmt] = []
        for own, part, other in zip(kept, self.parts, given, strict=True):
            mine, theirs = Load(part, self.at), Load(other, ())
            out.append(Store(self.name(own.name), own, (), mine))
            out.append(Store(self.name(part.name), part, self.at, Select(upper, theirs, mine)))
            out.append(Store(self.name(other.name), other, (), Select(upper, Load(own, ()), theirs)))
        return tuple(out)

    # ------------------------------------------------------------ through shared memory

    def memory(self, hint: str, shape: tuple[int, ...]) -> tuple[Buffer, ...]:
        sizes = tuple(map(Int, shape))
        return tuple(Buffer(self.name(f"{b.name}_{hint}"), sizes, b.dtype, "shared") for b in self.parts)

    def between_warps(self) -> tuple[Body, tuple[Buffer, ...]]:
        """What each warp has, exchanged in every warp: all threads end with the fold of the whole group."""
        warps = self.group.size // LANES
        lanes = 1 << (warps - 1).bit_length()
        rank, others = _linear(self.group.axes), self.group.others()
        memory = self.memory("warps", (_thread_count(others), warps))
        row = _linear(others)
        left = tuple(
            Store(self.name(b.name), b, (row, rank // LANES), v) for b, v in zip(memory, self.load(), strict=True)
        )
        taken = self.store("warp", (Load(b, (row, rank % lanes)) for b in memory))
        if lanes != warps:
            taken = (If(Cmp("<", rank % lanes, Int(warps)), taken, self.store("none", self.monoid.identity)),)
        return (If(Cmp("==", rank % LANES, Int(0)), left), *taken, *self.exchanges(lanes)), memory

    def one_by_one(self, all_threads: bool) -> tuple[Body, Body, Body, tuple[Buffer, ...]]:
        """The parts of the group folded in order: those of an element by one thread of the group, or all by its first.

        Where there is room, the parts of all elements are laid down first; then the threads meet once, and each folds
        the parts of one element.
        """
        size, others = self.group.size, self.group.others()
        shape = tuple(d.value for d in self.parts[0].shape if isinstance(d, Int))
        bytes_ = prod(shape) * size * _thread_count(others) * sum(b.dtype.bytes for b in self.parts)
        if prod(shape) > size or bytes_ > MAX_SHARED_BYTES:
            return self.serial_fold(all_threads)
        memory = self.memory("parts", (prod(shape), size, _thread_count(others)))
        rank, column = _linear(self.group.axes), _linear(others)
        element = _row_major(self.at, shape)
        left = tuple(
            Store(self.name(b.name), b, (element, rank, column), v) for b, v in zip(memory, self.load(), strict=True)
        )
        sums = tuple(Buffer(self.name(f"{b.name}_sum"), (), b.dtype, "local") for b in self.parts)
        r = self.name("r")
        terms = tuple(Load(b, (rank, Var(r) + 1, column)) for b in memory)
        both = tuple(zip(sums, memory, strict=True))
        fold: Body = (
            *(Store(self.name(t.name), t, (), Load(b, (rank, Int(0), column))) for t, b in both),
            Loop(r, Int(size - 1), "unroll" if size <= LANES else "serial", (
                Reduce(self.name(f"{sums[0].name}_fold"), sums, (), self.monoid, terms),
            )),
            *(Store(self.name(b.name), b, (rank, Int(0), column), Load(t, ())) for t, b in both),
        )  # fmt: skip
        for t in reversed(sums):
            fold = (Alloc(t, fold),)
        once = (If(Cmp("<", rank, Int(prod(shape))), fold),)
        taken = self.store("sum", (Load(b, (element, Int(0), column)) for b in memory))
        return left, once, taken if all_threads else (If(self.group.first(), taken),), memory

    def serial_fold(self, all_threads: bool) -> tuple[Body, Body, Body, tuple[Buffer, ...]]:
        """The parts of one element folded in order, by the group's first thread or by each."""
        size, others = self.group.size, self.group.others()
        memory = self.memory("parts", (size, _thread_count(others)))
        rank, column = _linear(self.group.axes), _linear(others)
        left = tuple(Store(self.name(b.name), b, (rank, column), v) for b, v in zip(memory, self.load(), strict=True))
        r = self.name("r")
        fold = self.fold(tuple(Load(b, (Var(r) + 1, column)) for b in memory))
        rest: Body = (Loop(r, Int(size - 1), "unroll" if size <= LANES else "serial", (fold,)),)
        if all_threads:
            return (), (), (*left, *self.store("first", (Load(b, (Int(0), column)) for b in memory)), *rest), memory
        return (), (), (*left, If(self.group.first(), rest)), memory


def _symmetric(monoid: Monoid) -> bool:
    """Whether it gives the same bits whichever of two comes first."""
    both = zip(monoid.combine, monoid.left, monoid.right, strict=True)
    return all(isinstance(v, Op) and v.fn.commutes and v.args in ((a, b), (b, a)) for v, a, b in both)


def _linear(axes: Iterable[tuple[str, int]]) -> Index:
    """The number of a thread along `axes`, the first running fastest."""
    total: Index = Int(0)
    stride = 1
    for name, extent in axes:
        total, stride = total + Var(name) * stride, stride * extent
    return total


def _row_major(at: At, shape: tuple[int, ...]) -> Index:
    """The number of an element."""
    total: Index = Int(0)
    for x, n in zip(at, shape, strict=True):
        total = total * n + x
    return total


def _thread_count(axes: Iterable[tuple[str, int]]) -> int:
    return prod(extent for _, extent in axes)
