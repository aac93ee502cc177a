"""The critical path of a kernel's block: the fewest cycles in which one of its threads gets through its instructions.

A thread issues its instructions in order, and one that needs a result waits for it (NVIDIA's GPUs have no other order;
Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018). Compilers move loads up, but in
straight code alone: not over the end of a loop, nor over a barrier. So a path is that of one straight piece of code
after the other: in each, the instruction that is issued last, whose operands are there at last. Of a loop a few
iterations are followed, in its middle, and what the last takes stands for each of the others.

Every latency is one of `Machine.cycles`. What cannot be told is taken to be there at once, and warps beside it are left
out, so that no thread is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from loopir.analysis.cost.gpu_traffic import L1_LINE
from loopir.errors import VerifyError
from loopir.ir.grammar import (
    BLOCK_AXES,
    THREAD_AXES,
    Alloc,
    And,
    Barrier,
    Body,
    Cast,
    Cmp,
    Cond,
    If,
    Index,
    InstrCall,
    Kernel,
    Load,
    Loop,
    Node,
    Not,
    Op,
    Or,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
)
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.walk import children, nodes, statements
from loopir.machines import Latencies

UNROLLED = 4
"""Iterations of an innermost loop that NVIDIA's compiler puts side by side, where nothing in it makes threads meet."""
FOLLOWED, MOST_STATEMENTS = 64, 3000
"""Iterations of an unrolled loop that depend on one another, and statements of a kernel, that are followed."""
SIDES = {"<": int.__lt__, "<=": int.__le__, "==": int.__eq__, "!=": int.__ne__}
Cell = tuple[str, int | None]
"""A buffer, and the offset of one of its elements; None where memory decides."""


class _TooLong(Exception):
    """More statements than are followed."""


def critical_path(kernel: Kernel, sizes: Mapping[str, int], far: Mapping[str, float], cycles: Latencies) -> float:
    """Cycles of a block of `kernel`, as far as it is followed; 0 where it has no loop.

    `far` has, for buffers in global memory, the cycles from a load of a line that the thread has not loaded before.
    """
    if not any(isinstance(s, Loop) and _is_serial(s) for s in statements(kernel.body)):
        return 0.0
    env = dict(sizes)
    body: Body = kernel.body
    while len(body) == 1 and isinstance(head := body[0], Loop) and head.kind in BLOCK_AXES + THREAD_AXES:
        env[head.var] = int(evaluate(head.extent, sizes)) // 2 if head.kind in BLOCK_AXES else 0
        body = head.body
    thread = _Thread(env, far, cycles)
    with suppress(_TooLong):
        thread.body(body)
    return thread.issued


def _is_serial(s: Loop) -> bool:
    return s.kind in ("serial", "parallel")


@dataclass
class _Thread:
    """A thread on its way: where `begun` is the cycle at which the straight code that it is in begins, and `issued` the
    one at which its last instruction so far is issued."""

    env: dict[str, int]
    far: Mapping[str, float]
    cycles: Latencies
    begun: float = 0.0
    issued: float = 0.0
    ready: dict[Cell, float] = field(default_factory=dict[Cell, float])
    """When the value of an element is there that this thread has stored."""
    latest: float = 0.0
    """When the last of them is there."""
    lines: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When each of the lines of global memory is there that it has asked for."""
    followed: int = 0
    steps: dict[int, bool] = field(default_factory=dict[int, bool])

    def body(self, body: Body) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        self.followed += 1
        if self.followed > MOST_STATEMENTS:
            raise _TooLong
        match s:
            case Loop():
                self.loop(s)
            case If(cond, then, orelse):
                self.body(then if self.holds(cond) else orelse)
            case Alloc(_, body):
                self.body(body)
            case Store(_, b, at, value):
                self.store((b.name, self.offset(at)), b.scope, self.value(value))
            case Reduce():
                self.fold(s)
            case InstrCall():
                self.instruction(s)
            case Barrier():
                self.issued += self.cycles.barrier
                self.begun = self.issued
            case _:
                pass

    # ---------------------------------------------------------------- loops

    def loop(self, s: Loop) -> None:
        try:
            count = int(evaluate(s.extent, self.env))
        except VerifyError:  # memory decides
            return
        if s.kind == "vectorize":
            self.iteration(s, 0, min(count, 1))
        elif not _is_serial(s) or count <= UNROLLED:
            self.unrolled(s, count)
        else:
            self.serial(s, count)

    def iteration(self, s: Loop, first: int, count: int) -> None:
        """So many iterations, side by side in straight code."""
        for n in range(first, first + count):
            self.env[s.var] = n
            self.body(s.body)

    def unrolled(self, s: Loop, count: int) -> None:
        """Iterations in straight code. Where the second does not wait for the first, none waits for another."""
        last, grown = self.issued, 0.0
        for n in range(min(count, FOLLOWED)):
            before = self.latest
            self.iteration(s, n, 1)
            grown = self.latest - before
            if n == 1 and grown <= 0.0 and self.issued == last:
                return
            last = self.issued
        if count > FOLLOWED and grown > 0.0:
            self.later(grown * (count - FOLLOWED))

    def serial(self, s: Loop, count: int) -> None:
        """Iterations one after the other, or as many at once as a compiler unrolls."""
        each = UNROLLED if self.is_unrolled(s) else 1
        rounds = -(-count // each)
        middle = rounds // 4 * 2  # even, as lines of memory and tiles begin at even numbers, and few iterations do
        before = self.issued
        for n in (0, middle, middle + 1) if rounds > 3 else range(rounds):
            self.begun = before = self.issued
            self.iteration(s, n * each, min(each, count - n * each))
        if rounds > 3:
            self.later((rounds - 3) * (self.issued - before))
        self.begun = self.issued

    def is_unrolled(self, s: Loop) -> bool:
        if id(s) not in self.steps:
            inner = list(statements(s.body))
            meet = any(isinstance(x, Barrier | InstrCall) or (isinstance(x, Store) and _lane(x.value)) for x in inner)
            self.steps[id(s)] = not meet and not any(isinstance(x, Loop) and _is_serial(x) for x in inner)
        return self.steps[id(s)]

    def later(self, cycles: float) -> None:
        """Let so many cycles pass, with all that is under way."""
        since = self.begun
        self.issued += cycles
        self.latest += cycles
        self.ready = {cell: t + cycles if t >= since else t for cell, t in self.ready.items()}

    # ---------------------------------------------------------------- statements

    def store(self, cell: Cell, scope: str, ready: float) -> None:
        self.set(cell, ready)
        if scope in ("global", "shared"):
            self.issued = max(self.issued, ready)

    def set(self, cell: Cell, ready: float) -> None:
        self.ready[cell] = ready
        self.latest = max(self.latest, ready)

    def fold(self, s: Reduce) -> None:
        """A fold into elements: what they hold is needed for the last instruction alone."""
        combine = s.monoid.combine
        offset = self.offset(s.at)
        values = zip(s.values, (*combine, *combine[-1:] * len(s.values)), strict=False)
        new = max(self.contracted(v) if _is(c, "+") else self.value(v) for v, c in values)
        for b in s.buffers:
            if not s.atomic:
                new = max(new, self.load(b.name, b.scope, b.dtype.bytes, offset, self.begun))
        self.issued = max(self.issued, new)
        new += max(map(self.depth, combine))
        for b in s.buffers:
            self.store((b.name, offset), b.scope, new)

    def depth(self, v: Node) -> float:
        """Cycles of the operations of `v` one after the other, all that it takes being there."""
        below = max(map(self.depth, children(v)), default=0.0)
        return below + (self.latency(v) if isinstance(v, Op | Cast | Select) else 0.0)

    def instruction(self, s: InstrCall) -> None:
        """An instruction that goes on by itself is waited for elsewhere."""
        if s.fn.asynchronous or s.boxes:
            return
        taken, made = self.begun, list[Cell]()
        for a, x in zip(s.fn.meaning.args, s.operands, strict=True):
            offset = self.offset(x.at)
            if a.access != "out":
                taken = max(taken, self.load(x.buffer.name, x.buffer.scope, x.buffer.dtype.bytes, offset, self.begun))
            if a.access != "in":
                made.append((x.buffer.name, offset))
        folds = s.fn.level != "thread" and any(isinstance(n, Reduce) for n in nodes(s.fn.meaning))
        self.issued = max(self.issued, taken)
        for cell in made:
            self.set(cell, taken + (self.cycles.tensor if folds else self.cycles.arithmetic))

    # ---------------------------------------------------------------- values

    def value(self, v: Node) -> float:
        """When `v` is there, a value, an index, or a condition."""
        match v:
            case Load(b, at):
                begun = max((self.value(x) for x in at), default=self.begun)
                return self.load(b.name, b.scope, b.dtype.bytes, self.offset(at), begun)
            case Op(_, args):
                wait = max(
                    (self.contracted(x) if _is(v, "+", "-") else self.value(x) for x in args), default=self.begun
                )
            case Select(cond, a, b):
                known = self.known(cond)
                if known is not None:
                    return self.value(a if known else b)
                wait = max(self.value(cond), self.value(a), self.value(b))
            case _:
                wait = max(map(self.value, children(v)), default=self.begun)
                if not isinstance(v, Cast):
                    return wait
        self.issued = max(self.issued, wait)
        return wait + self.latency(v)

    def contracted(self, v: Value) -> float:
        """When what a sum takes of `v` is there: of a product its factors, as both are one instruction."""
        if not _is(v, "*"):
            return self.value(v)
        return max(map(self.value, cast(Op, v).args))

    def latency(self, v: Node) -> float:
        """Cycles of an operation, its instructions one after the other."""
        cycles = self.cycles
        if not isinstance(v, Op):
            return cycles.arithmetic
        if v.fn.lane is not None:
            return cycles.shuffle
        special = v.fn.work > 1 and v.dtype.is_float
        return cycles.arithmetic * (v.fn.work - special) + (cycles.special if special else 0.0)

    def load(self, buffer: str, scope: str, item: int, offset: int | None, begun: float) -> float:
        """When an element is there that is asked for at `begun` at the earliest; what the thread itself stored or
        folded since it met others, or in its registers, it has."""
        stored = self.ready.get((buffer, offset))
        if scope not in ("global", "shared"):
            return max(begun, stored or 0.0)
        if stored is not None and stored >= self.begun:
            return stored
        self.issued = max(self.issued, begun)
        if scope == "shared":
            return begun + self.cycles.shared
        line = buffer, (offset or 0) * item // L1_LINE
        asked = self.lines.get(line) if offset is not None else None
        if asked is not None:
            return max(asked, begun + self.cycles.first_cache)
        self.lines[line] = begun + self.far.get(buffer, self.cycles.first_cache)
        return self.lines[line]

    def offset(self, at: tuple[Index, ...]) -> int | None:
        try:
            return int(evaluate(at[0], self.env)) if at else 0
        except (VerifyError, KeyError, ZeroDivisionError):
            return None

    def known(self, cond: Cond) -> bool | None:
        """Whether it holds; None where memory decides."""
        match cond:
            case And(terms) | Or(terms):
                found = [self.known(t) for t in terms]
                decided = isinstance(cond, Or)
                return decided if decided in found else None if None in found else not decided
            case Not(term):
                inner = self.known(term)
                return None if inner is None else not inner
            case Cmp(op, a, b):
                try:
                    return bool(SIDES[op](int(evaluate(a, self.env)), int(evaluate(b, self.env))))
                except (VerifyError, KeyError, ZeroDivisionError):
                    return None
            case _:
                return None

    def holds(self, cond: Cond) -> bool:
        """Whether it holds; yes where memory decides."""
        known = self.known(cond)
        if known is None:
            self.issued = max(self.issued, self.value(cond))
        return known is not False


def _lane(v: Value) -> bool:
    return isinstance(v, Op) and v.fn.lane is not None


def _is(v: Node, *infix: str) -> bool:
    return isinstance(v, Op) and v.fn.infix in infix
