"""Interpreter: compile a Func to Python and run it with every access checked.

A Func runs at any stage: as written, scheduled or lowered. Before lowering, all loops run in order, but for the lanes
of vectorized ones, which run in lockstep. In a `Kernel`, the iterations of its outermost bound loops are threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from loopir.errors import InterpretError
from loopir.interp.checked_memory import UNLOGGED, CheckedMemory, CurrentThread, cells_of
from loopir.interp.perform import BoxAt, Cell, perform
from loopir.interp.size_equations import size_equation
from loopir.interp.spmd import CollectiveIssue
from loopir.interp.to_python import compiled
from loopir.interp.value_domains import DOMAINS, Domain
from loopir.interp.watch import Watch, WatchedMemory, Write
from loopir.ir.dtypes import Array, DType
from loopir.ir.grammar import (
    And,
    Buffer,
    Cmp,
    Cond,
    Fragment,
    Func,
    Mapped,
    Not,
    Or,
    Strided,
)
from loopir.ir.ops import Instruction
from loopir.ir.printer import text
from loopir.ir.recursion import deep
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.traverse.walk import leaf_paths
from loopir.ir.verify.verify import evaluate
from loopir.shapes import Given, sizes_of

MANY = 300
"""Elements of the inputs from which on it pays to compile accesses in place."""
Instance = tuple[str, tuple[int, ...]]
"""A statement's label and the values of the loops around it, outermost first."""


@deep(InterpretError)
def interpret(
    func: Func,
    args: Mapping[str, Any] | Sequence[Any],
    sizes: Mapping[str, int] | None = None,
    *,
    domain: str = "real",
    seed: int = 0,
    watch: Watch | None = None,
) -> dict[str, Array]:
    """Run `func` on arrays and return its "out" and "inout" buffers by name; the arguments are not modified.

    `args` are by name, or in order for all but "out" parameters. `sizes` are inferred from the shapes where possible.
    In domain "ring" floats are uint32 in and out (see `loopir.interp.value_domains`). `seed` determines the order of
    threads. `watch` is called for writes (see `loopir.interp.watch`). Raises ValueError for arguments that do not fit,
    InterpretError for a wrong access, a race or a divergent barrier.

        >>> double = lp.Schedule(lp.placeholder((3,), "float32", name="A") * 2.0).func
        >>> lp.interpret(double, {"A": np.ones(3, np.float32)})
        {'out': array([2., 2., 2.], dtype=float32)}
    """
    if not isinstance(func, Func):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"interpret runs a Func, not a {type(func).__name__}; of a Schedule s it is s.func")
    given = sum(a.access != "out" for a in func.args)
    if isinstance(args, np.ndarray) and (not args.ndim or len(args) != given):
        raise TypeError(f"interpret takes the arrays of {func.name} in one list or dict: lp.interpret(func, [a, b])")
    run = _Run(func, args, sizes, DOMAINS[domain](), seed)
    run.watch = watch
    return run.go()


@deep(InterpretError)
def trace(func: Func, args: Mapping[str, Any] | Sequence[Any], sizes: Mapping[str, int] | None = None) -> Trace:
    """Run `func` in order, and record which instance wrote each element that each statement instance reads."""
    run = _Run(func, args, sizes, DOMAINS["ring"](), 0)
    run.trace = Trace()
    run.go()
    return run.trace


Seen = Callable[[CheckedMemory, int, bool, Instance], None]
"""Called for each access: the memory, the cell, whether it is a write, and the instance; `memory.who` is the thread."""


@deep(InterpretError)
def trace_accesses(
    func: Func, args: Mapping[str, Any] | Sequence[Any], sizes: Mapping[str, int] | None, seen: Seen, *, seed: int = 0
) -> dict[str, Array]:
    """Run `func` over the ring, and call `seen` for every access, in order."""
    run = _Run(func, args, sizes, DOMAINS["ring"](), seed)
    run.seen = seen
    return run.go()


@dataclass
class Trace:
    """The last writers of a run: `reads[instance]` has, for each element read, its writer (None: the caller).

    The writer of an element that a reduction folds into is the reduction's label with the element, as the order of its
    updates is free; an update's read of its own element is left out. `final` has the last writer of each output
    element.
    """

    reads: dict[Instance, list[Instance | None]] = field(default_factory=dict[Instance, "list[Instance | None]"])
    final: dict[tuple[str, int], Instance] = field(default_factory=dict["tuple[str, int]", Instance])


# ---------------------------------------------------------------- a run


class _Run:
    def __init__(
        self, func: Func, args: Mapping[str, Any] | Sequence[Any], sizes: Mapping[str, int] | None, domain: Domain,
        seed: int,
    ) -> None:  # fmt: skip
        self.func, self.domain, self.seed, self.who = func, domain, seed, CurrentThread()
        self.given = _named(func, args)
        self.sizes = bind_sizes(func, {k: v.shape for k, v in self.given.items()}, sizes or {})
        self.memory: dict[str, CheckedMemory] = {}
        self.trace: Trace | None = None
        self.seen: Seen | None = None
        self.watch: Watch | None = None
        self.shapes: dict[int, tuple[Buffer, tuple[int, ...], Sequence[int] | None, int, Any]] = {}
        """By a buffer's identity: the buffer, and what its memory is allocated with."""
        self.issues: dict[object, int] = {}
        self.here: Instance = ("", ())
        self.writers: dict[tuple[int, int], Instance] = {}

    def go(self) -> dict[str, Array]:
        in_place = not self.traced and sum(x.size for x in self.given.values()) >= MANY
        program = compiled(self.func, self.domain.name, traced=self.traced, in_place=in_place)
        for a in self.func.args:
            self.memory[a.buffer.name] = self.allocate(a.buffer, self.given.get(a.buffer.name))
        with np.errstate(all="ignore"):
            program.entry(self, *(self.sizes[n] for n in self.func.sizes))
        out: dict[str, Array] = {}
        for b in self.func.outputs():
            m = self.memory[b.name]
            cells = _unplaced(m)
            if any(c is None for c in cells):
                at = np.unravel_index(next(n for n, c in enumerate(cells) if c is None), m.shape)
                raise InterpretError(f"{self.func.name}: {b.name}[{', '.join(map(str, at))}] is never written")
            out[b.name] = self.domain.dump(cells, b.dtype).reshape(m.shape)
            if self.trace is not None:
                for cell in range(len(m.cells)):
                    self.trace.final[b.name, cell] = self.writers.get((id(m), cell), ("", ()))
        return out

    @property
    def traced(self) -> bool:
        """Whether accesses are reported with the instance that makes them."""
        return any(x is not None for x in (self.trace, self.seen, self.watch))

    def allocate(self, b: Buffer, values: Array | None = None) -> CheckedMemory:
        found = self.shapes.get(id(b))
        if found is None:
            shape = tuple([max(0, evaluate(d, self.sizes)) for d in b.shape])
            found = b, shape, *layout_of(b, self.sizes, shape), _zero(self.domain.name, b.dtype)
            self.shapes[id(b)] = found
        _, shape, place, size, zero = found
        made = (
            partial(WatchedMemory, report_write=self.written)
            if self.watch and self.watch.wants(b.name)
            else CheckedMemory
        )
        private = self.who.active and b.scope not in ("global", "shared")
        logs = UNLOGGED if private else {}
        m = made(b.name, shape, [None] * size, self.who, place, scope=b.scope, zero=zero, private=private, **logs)
        if values is not None:
            loaded = self.domain.load(values, b.dtype)
            if place is None:
                m.cells = loaded
            else:
                for cell, v in zip(place, loaded, strict=True):
                    m.cells[cell] = v
        if self.trace is not None:
            m.on_read, m.on_write = self.traced_read, self.traced_write
        if (seen := self.seen) is not None:
            m.on_read = lambda memory, cell: seen(memory, cell, False, self.here)
            m.on_write = lambda memory, cell: seen(memory, cell, True, self.here)
        return m

    def written(self, buffer: str, at: tuple[int, ...], value: Any) -> None:
        """Tell who watches of a write."""
        assert self.watch is not None
        label, iteration = self.here
        loops = _loops_of(self.func).get(label, ())
        self.watch.seen(Write(buffer, at, value, label, dict(zip(loops, iteration, strict=False))))

    def traced_read(self, m: CheckedMemory, cell: int) -> None:
        assert self.trace is not None
        self.trace.reads.setdefault(self.here, []).append(self.writers.get((id(m), cell)))

    def traced_write(self, m: CheckedMemory, cell: int) -> None:
        self.writers[id(m), cell] = self.here

    def fold(self, m: CheckedMemory, at: tuple[int, ...], label: str, atomic: str = "") -> Any:
        """The element that a reduction folds into: read, but not as a dependence on one of its own folds."""
        hook, m.on_read = m.on_read, None
        try:
            value = m.load(at, atomic)
        finally:
            m.on_read = hook
        if hook is not None and self.writers.get((id(m), m.cell(at)), ("",))[0] != label:
            hook(m, m.cell(at))
        return value

    def issue(
        self,
        fn: Instruction,
        site: int,
        operands: Sequence[Cell],
        words: Mapping[str, int],
        boxes: Sequence[tuple[str, tuple[int, ...], tuple[int, ...], int]] = (),
        ring: tuple[CheckedMemory, int] | None = None,
        blocks: int = 1,
    ) -> CollectiveIssue | None:
        """An instruction: done at once by a thread, and by a warp or a warpgroup when all its lanes are there."""
        here = self.issued(fn, site)
        if fn.level == "thread":
            self.here = here
            placed = {n: BoxAt(at, sizes, span) for n, at, sizes, span in boxes}
            for b in range(blocks):
                there = ring if ring is None or blocks == 1 else (self.who.beside(ring[0], b), ring[1])
                cells = [(m if blocks == 1 or m.scope != "shared" else self.who.beside(m, b), c) for m, c in operands]
                slot = None if there is None else self.who.slot(*there)
                perform(fn, words, [cells], self.domain.name, lambda lane: None, placed, slot)
                if there is not None:
                    self.who.landed(*there, _bytes(fn))
            return None

        def done(lanes: Sequence[Sequence[Cell]], enter: Callable[[int], None]) -> None:
            self.here = here
            perform(fn, words, lanes, self.domain.name, enter)

        return CollectiveIssue(site, fn.name, fn.level, operands, done)

    def issued(self, fn: Instruction, site: int) -> Instance:
        """How an issue is reported: the instruction, where it stands, and how often this thread has come by."""
        who = (site, self.who.block, self.who.agent.number)
        self.issues[who] = self.issues.get(who, 0) + 1
        return fn.name, (site, self.issues[who])

    def folded(self, label: str, at: tuple[int, ...]) -> None:
        if self.trace is not None:
            self.here = (label, at)


@memoized
def _loops_of(func: Func) -> dict[str, tuple[str, ...]]:
    """By label, the names of the loops around a statement as it is run."""
    return {p.stmt.label: tuple(x.var for x in p.loops) for p in leaf_paths(explicit_init(func).body)}


@cache
def _zero(domain: str, t: DType) -> Any:
    return DOMAINS[domain]().const(0, t)


def _bytes(fn: Instruction) -> int:
    """What arrives of an instruction that fills memory."""
    (b,) = (a.buffer for a in fn.meaning.args if a.access == "out")
    return prod(evaluate(d, {}) for d in b.shape) * b.dtype.bytes


def _unplaced(m: CheckedMemory) -> list[Any]:
    if m.place is None:
        return m.cells
    return [m.cells[cell] for cell in m.place]


def layout_of(b: Buffer, sizes: Mapping[str, int], shape: tuple[int, ...]) -> tuple[Sequence[int] | None, int]:
    """The offset of each element of `b`, in row-major order, and the size of `b` in cells; None if it is row-major."""
    if b.layout is None or isinstance(b.layout, Fragment):
        return None, cells_of(shape)
    return _layout_cells(b.layout, tuple(sizes.items()), shape)


@lru_cache(maxsize=256)
def _layout_cells(
    layout: Strided | Mapped, sizes: tuple[tuple[str, int], ...], shape: tuple[int, ...]
) -> tuple[list[int], int]:
    at, known = np.indices(shape), dict(sizes)
    if isinstance(layout, Strided):
        found = sum(x * evaluate(s, known) for x, s in zip(at, layout.strides, strict=True))
    else:
        found = evaluate(layout.at, {**known, **dict(zip(layout.dims, at, strict=True))})
    cells: list[int] = (np.zeros(shape, np.int64) + found).ravel().tolist()
    return cells, 1 + max(cells, default=-1)


def _named(func: Func, args: Mapping[str, Any] | Sequence[Any]) -> dict[str, Array]:
    wanted = [a.buffer.name for a in func.args if a.access != "out"]
    if isinstance(args, Mapping):
        named = dict(args)
        if odd := [n for n in named if n not in wanted]:
            raise ValueError(f"{func.name} has no input {odd[0]!r}; it takes {', '.join(wanted) or 'none'}")
    elif len(args) != len(wanted):
        raise ValueError(f"{func.name} takes {len(wanted)} arrays ({', '.join(wanted)}), and {len(args)} are given")
    else:
        named = dict(zip(wanted, args, strict=True))
    missing = [n for n in wanted if n not in named]
    if missing:
        raise ValueError(f"{func.name} is given no {', '.join(missing)}")
    return {n: np.asarray(named[n]) for n in wanted}


def bind_sizes(func: Func, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> dict[str, int]:
    """Infer the sizes from `shapes`, and check every dimension and assumption; ValueError if none fit."""
    if sizes.keys() >= {*func.sizes} and _fit(func, shapes, sizes):
        return {n: int(sizes[n]) for n in func.sizes}
    given = [(a.buffer, shapes[a.buffer.name]) for a in func.args if a.buffer.name in shapes]
    for b, shape in given:
        if len(shape) != len(b.shape):
            raise ValueError(f"{b.name} has {len(b.shape)} dimensions, and the array has {len(shape)}")
    found = sizes_of((Given(b.name, [size_equation(d) for d in b.shape], shape) for b, shape in given), sizes)
    missing = [n for n in func.sizes if n not in found]
    if missing:
        raise ValueError(f"no argument of {func.name} tells the size {', '.join(missing)}; give it in sizes=")
    for a in func.args:
        expected = tuple(max(0, evaluate(d, found)) for d in a.buffer.shape)
        shape = shapes.get(a.buffer.name)
        if shape is not None and tuple(shape) != expected:
            sizes_text = ", ".join(f"{k}={v}" for k, v in found.items())
            raise ValueError(f"{a.buffer.name} has shape {tuple(shape)}, not {expected} ({sizes_text})")
    for c in func.assumes:
        if not cond_holds(c, found):
            raise ValueError(f"{func.name} assumes {text(c)}, which {found} does not meet")
    return found


def _fit(func: Func, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> bool:
    """Whether nothing is wrong with sizes that are all given: what there is to say where it is takes longer."""
    for a in func.args:
        shape = shapes.get(a.buffer.name)
        if shape is not None and shape != tuple([max(0, evaluate(d, sizes)) for d in a.buffer.shape]):
            return False
    return all(sizes[n] >= 0 for n in func.sizes) and all(cond_holds(c, sizes) for c in func.assumes)


def cond_holds(c: Cond, env: Mapping[str, int]) -> bool:
    """Whether a condition without memory reads holds under `env`."""
    match c:
        case And(terms):
            return all(cond_holds(t, env) for t in terms)
        case Or(terms):
            return any(cond_holds(t, env) for t in terms)
        case Not(term):
            return not cond_holds(term, env)
        case Cmp(op, a, b):
            x, y = evaluate(a, dict(env)), evaluate(b, dict(env))
            return {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y}[op]
        case _:
            raise InterpretError("a condition from memory has no truth outside a run")
