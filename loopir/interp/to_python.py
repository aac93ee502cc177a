"""Compile a Func to a Python function, which the interpreter runs.

The user's names are prefixed, `v_` for variables and `b_` for buffers. Each statement becomes a few lines that access
checked memory (`loopir.interp.checked_memory`); an error names the statement and the iteration. A lowered kernel
becomes a generator that yields at barriers. A statement of a vectorized loop becomes two loops over the lanes: one that
reads and computes, and one that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from types import CodeType
from typing import Any

from loopir.errors import InterpretBoundsError, InterpretError
from loopir.interp.cell_address import CellAddress, cell_address, largest_values
from loopir.interp.checked_memory import Fault, OutOfArray
from loopir.interp.python_expr import DEEPEST, PythonExpr, PythonLines
from loopir.interp.spmd import BarrierArrival, NamedArrival, ShuffleEvent, launch
from loopir.interp.value_domains import DOMAINS, Domain
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    THREAD_AXES,
    Alloc,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Buffer,
    Cast,
    Cond,
    Const,
    ExpectTx,
    Fence,
    Func,
    If,
    Index,
    IndexToValue,
    InstrCall,
    InstrRegion,
    Int,
    InTurn,
    Kernel,
    Load,
    Loop,
    MBarrierInit,
    MBarrierWait,
    Op,
    Param,
    Prefetch,
    Reduce,
    RegisterFence,
    Select,
    SetMaxRegs,
    Stmt,
    Store,
    Turn,
    Value,
    ValueToCond,
    ValueToIndex,
    WarpSpecialized,
)
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.traverse.walk import has_lockstep_lanes, leaf_paths, statements

LOGGED = ("global", "shared")
"""The memories that several threads access: their accesses are logged, and checked for races."""

NESTED = 32
"""Values in one another from which on a function is begun: the parser of Python takes 200 parentheses."""


@dataclass(frozen=True)
class Program:
    source: str
    entry: Callable[..., None]


@dataclass(frozen=True)
class Lanes:
    """A vectorized loop: its variable, where the numbers of the active lanes are, and the memory each lane has."""

    var: str
    active: str
    own: tuple[Buffer, ...] = ()


@lru_cache(maxsize=256)
def compiled(func: Func, domain: str, *, traced: bool = False, in_place: bool = False) -> Program:
    """`func` as a Python function of a run and the sizes; if `traced`, it reports the instance of each access.

    With `in_place`, cells are accessed without a call where there are only bounds to check, which takes longer to
    compile. It needs memory that is `CheckedMemory`, and nobody who traces.
    """
    assert not (traced and in_place)
    return _Compiler(explicit_init(func), DOMAINS[domain](), traced=traced, in_place=in_place).program()


@lru_cache(maxsize=256)
def spelled(source: str, name: str) -> CodeType:
    """Compile `source`, cached: it has no shapes, and of loop kinds only the lanes, so many programs share one."""
    return compile(source, f"<{name}>", "exec")


@dataclass(frozen=True)
class Target:
    """An element that is written, as Python spells it: a cell if that is written in place, and else its subscripts.

    `at` has the subscripts in either case.
    """

    spelled: str
    at: str
    in_place: bool = False


class _Compiler(PythonExpr, PythonLines):
    def __init__(self, func: Func, domain: Domain, *, traced: bool, in_place: bool) -> None:
        super().__init__()
        self.func, self.domain, self.traced, self.in_place = func, domain, traced, in_place
        self.largest = largest_values(func.body) if in_place else {}
        self.unchecked: set[str] = set()
        """The buffers in scope whose accesses have only bounds to check: no other thread, and nothing asynchronous,
        writes them."""
        self.inputs = {a.buffer.name for a in func.args if a.access == "in"}
        self.instructed: set[str] = set()
        self.temporaries = 0
        self.pool: dict[str, Any] = {
            "launch": launch,
            "located": _located,
            "Fault": Fault,
            "divisor": _divisor,
            "Exchange": ShuffleEvent,
            "Meet": BarrierArrival,
            "Turn": NamedArrival,
        }
        self.loops = {p.stmt.label: tuple(x.var for x in p.loops) for p in leaf_paths(func.body)}
        self.interned: dict[Any, str] = {}
        self.meetings = 0
        self.nested = 0
        self.private: set[str] = set()
        self.threads, self.together, self.stops = 0, False, False
        self.lanes: Lanes | None = None
        self.in_lanes = False
        self.masks = 0

    def program(self) -> Program:
        self.emit(0, f"def entry(run, {''.join(f'v_{n}, ' for n in self.func.sizes)}):")
        names: list[str] = []
        for a in self.func.args:
            self.emit(1, f"b_{a.buffer.name} = run.memory[{a.buffer.name!r}]")
            names += self.bind(a.buffer, 1)
        with self.inside("run", *(f"v_{n}" for n in self.func.sizes), *names):
            self.guarded(1, lambda depth: self.body(self.func.body, depth))
        source = self.joined()
        exec(spelled(source, self.func.name), self.pool)
        return Program(source, self.pool["entry"])

    def guarded(self, depth: int, inner: Callable[[int], None]) -> None:
        """What `inner` emits, with a fault reported where it happened."""
        self.emit(depth, "at = None")
        self.emit(depth, "try:")
        start = len(self.lines)
        inner(depth + 1)
        if len(self.lines) == start:
            self.emit(depth + 1, "pass")
        self.emit(depth, "except Fault as fault:")
        self.emit(depth + 1, f"raise located({self.func.name!r}, fault, at, locals()) from None")

    def bind(self, b: Buffer, depth: int) -> list[str]:
        """The names of a buffer from here on: the memory, and its cells and shape where these are accessed in place."""
        names = [f"b_{b.name}"]
        if self.in_place and (not self.stops or (b.scope not in LOGGED and b.name not in self.instructed)):
            self.unchecked.add(b.name)
            names += self.cells(b, depth)
        return names

    def cells(self, b: Buffer, depth: int) -> list[str]:
        self.emit(depth, f"c_{b.name} = b_{b.name}.cells")
        if all(isinstance(d, Int) for d in b.shape):
            return [f"c_{b.name}"]
        self.emit(depth, f"d_{b.name} = b_{b.name}.shape")
        return [f"c_{b.name}", f"d_{b.name}"]

    def temporary(self) -> str:
        self.temporaries += 1
        return f"i{self.temporaries}"

    def address(self, b: Buffer, at: tuple[Index, ...]) -> CellAddress | None:
        """The cell of an element that may be accessed in place."""
        return cell_address(b, at, self.largest, self.index, self.temporary) if b.name in self.unchecked else None

    def share(self, key: Any, value: Any) -> str:
        """A name in the program's globals for `value`."""
        name = self.interned.get(key)
        if name is None:
            name = self.interned[key] = f"g{len(self.interned)}"
            self.pool[name] = value
        return name

    def body(self, body: Body, depth: int) -> None:
        if depth > DEEPEST:
            stops = "yield from " if self.stops else ""
            self.emit(depth, f"{stops}{self.called(lambda: self.part(body))}")
            return
        start = len(self.lines)
        for s in body:
            self.stmt(s, depth)
        if len(self.lines) == start:
            self.emit(depth, "pass")

    def part(self, body: Body) -> None:
        self.guarded(1, lambda depth: self.body(body, depth))
        if self.stops:
            self.emit(1, "yield from ()")

    def stmt(self, s: Stmt, depth: int) -> None:
        match s:
            case _ if self.lanes is not None:
                self.stmt_in_lanes(s, self.lanes, depth)
            case Loop() if has_lockstep_lanes(s):
                with self.vector(Lanes(s.var, self.mask())) as lanes:
                    self.emit(depth, f"{lanes.active} = range({self.index(s.extent)})")
                    self.body(s.body, depth)
            case Loop(var, extent, _, body):
                self.emit(depth, f"for v_{var} in range({self.index(extent)}):")
                with self.inside(f"v_{var}"):
                    self.body(body, depth + 1)
            case If(cond, then, orelse):
                self.emit(depth, f"if {self.cond(cond)}:")
                self.body(then, depth + 1)
                if orelse:
                    self.emit(depth, "else:")
                    self.body(orelse, depth + 1)
            case Alloc(buffer, body):
                names = [f"b_{buffer.name}"]
                if buffer.name not in self.private:
                    key = self.share(("buffer", buffer), buffer)
                    self.emit(depth, f"b_{buffer.name} = run.allocate({key})")
                    names = self.bind(buffer, depth)
                with self.inside(*names):
                    self.body(body, depth)
            case Store() | Reduce():
                self.locate(s.label, depth)
                self.write(s, *self.written(s, depth), depth)
            case InstrRegion(_, body) | WarpSpecialized(_, body) | InTurn(body):
                self.body(body, depth)
            case Kernel():
                self.kernel(s, depth)
            case InstrCall():
                self.issue(s, depth)
            case _:
                self.synchronize(s, depth)

    def synchronize(self, s: Stmt, depth: int) -> None:
        """What orders threads, and work that goes on beside them."""
        match s:
            case Barrier(threads, cluster):
                self.meetings += 1
                who = threads or self.threads * (not cluster and self.together)
                self.emit(depth, f"yield {f'Meet({self.meetings}, {who})' if who else self.meetings}")
            case Turn(group, _, wait):
                self.meetings += 1
                at = f"{self.index(group)} + {s.number(0)}"
                self.emit(depth, f"yield Turn({self.meetings}, {at}, {s.threads}, {wait})")
            case AsyncCommit(group):
                self.emit(depth, f"run.who.commit({group!r})")
            case AsyncWait(pending, group):
                self.emit(depth, f"run.who.wait({pending}, {group!r})")
            case RegisterFence() | SetMaxRegs() | Prefetch():
                pass
            case Fence(kind):
                self.emit(depth, f"run.who.fence({kind!r})")
            case MBarrierInit(ring, arrivals):
                self.emit(depth, f"run.who.init(b_{ring.name}, {arrivals})")
            case ExpectTx(slot, count, block):
                to = "" if block is None else f", {self.index(block)}"
                self.emit(depth, f"run.who.expect({self.slot(slot)}, {count}{to})")
            case MBarrierWait(slot, _, True):
                self.emit(depth, f"run.who.skipped({self.slot(slot)})")
            case MBarrierWait(slot, turn):
                self.emit(depth, f"x = run.who.awaited({self.slot(slot)}, {turn})")
                self.emit(depth, "if not x(): yield x")
            case _:
                raise TypeError(f"{type(s).__name__} is no statement")

    def issue(self, s: InstrCall, depth: int) -> None:
        """An instruction: all threads that issue it have come before it is done."""
        cells = "".join(f"(b_{x.buffer.name}, {self.index(x.at[0])}), " for x in s.operands)
        placed = "".join(f"({b.name!r}, {self.at(b.at)}, {b.sizes}, {b.span}), " for b in s.boxes)
        where = f"({self.slot(s.ring)})" if s.ring is not None else "None"
        all_of = f", {s.blocks}" if s.blocks > 1 else ""
        self.meetings += 1
        self.emit(depth, f"at = ({s.fn.name!r}, ())")
        key = self.share(("instruction", s.fn), s.fn)
        words = self.share(("words", s.words), dict(s.words))
        stop = "yield " * (s.fn.level != "thread")
        self.emit(depth, f"{stop}run.issue({key}, {self.meetings}, ({cells}), {words}, ({placed}), {where}{all_of})")

    def slot(self, slot: Load) -> str:
        """A barrier in shared memory."""
        return f"b_{slot.buffer.name}, {self.index(slot.at[0])}"

    def stored(self, v: Value) -> str:
        """A value to store: what is only copied, or converted on the way, may be unwritten, and so is the copy then."""
        if isinstance(v, Cast) and isinstance(v.value, Load) and v.value.buffer.name not in self.inputs:
            kept, found = self.temporary(), self.stored(v.value)
            return f"({kept} if ({kept} := {found}) is None else {self.cast(v)}({kept}))"
        if not isinstance(v, Load):
            return self.value(v)
        name = v.buffer.name
        where = self.address(v.buffer, v.at)
        if where is None:
            return f"b_{name}.peek({self.at(v.at)})"
        cell = f"c_{name}[{where.cell}]"
        return f"({cell} if {where.test} else b_{name}.peek({where.at}))" if where.test else cell

    def loaded(self, b: Buffer, at: tuple[Index, ...]) -> str:
        """The value of an element, which has to be written."""
        where = self.address(b, at)
        if where is None:
            return f"b_{b.name}.load({self.at(at)})"
        value, tests = f"c_{b.name}[{where.cell}]", [where.test] if where.test else []
        if b.name not in self.inputs:
            kept = self.temporary()
            tests.append(f"({kept} := {value}) is not None")
            value = kept
        return f"({value} if {' and '.join(tests)} else b_{b.name}.load({where.at}))" if tests else value

    def locate(self, label: str, depth: int) -> None:
        loops = self.loops[label]
        self.emit(depth, f"at = {self.share(('at', label), (label, loops))}")
        if self.traced:
            self.emit(depth, f"run.here = ({label!r}, ({''.join(f'v_{v}, ' for v in loops)}))")

    def exchanged(self, v: Value, depth: int) -> str | None:
        """The name of what another lane gives, if that is what `v` says."""
        if not isinstance(v, Op) or v.fn.lane is None:
            return None
        self.meetings += 1
        lane = self.share(("lane", v.fn), v.fn.lane)
        self.emit(depth, f"x = yield Exchange({self.meetings}, {v.fn.name!r}, {lane}, {self.value(v.args[0])})")
        return "x"

    def written(self, s: Store | Reduce, depth: int) -> tuple[Target, list[str]]:
        """The element that `s` writes and its new values, as expressions, after all that it reads."""
        to = self.target(s)
        if isinstance(s, Store):
            return to, [self.exchanged(s.value, depth) or self.stored(s.value)]
        if not to.in_place:
            self.emit(depth, f"e = {to.spelled}")
        step = f", {s.monoid.name!r}" if s.atomic else ""
        right = [f"r{n}" for n in range(len(s.values))]
        left = [f"l{n}" for n in range(len(s.values))]
        for name, v in zip(right, s.values, strict=True):
            self.emit(depth, f"{name} = {self.value(v)}")
        if to.in_place:  # a value that cannot be read is reported first, as where the element is loaded by a call
            self.emit(depth, f"e = {to.spelled}")
        for name, b in zip(left, s.buffers, strict=True):
            if to.in_place:
                self.emit(depth, f"{name} = c_{b.name}[e]")
                self.emit(depth, f"if {name} is None: b_{b.name}.load({to.at})")
                continue
            old = f"run.fold(b_{b.name}, e, {s.label!r}{step})" if self.traced else f"b_{b.name}.load(e{step})"
            self.emit(depth, f"{name} = {old}")
        env = {p.name: name for p, name in zip((*s.monoid.left, *s.monoid.right), (*left, *right), strict=True)}
        made = [self.value(v, env) for v in s.monoid.combine]
        if len(made) > 1:
            self.emit(depth, f"c = ({', '.join(made)})")
            made = [f"c[{n}]" for n in range(len(made))]
        return Target("e", to.at, to.in_place), made

    def target(self, s: Store | Reduce) -> Target:
        """The element that `s` writes: the cell, if all of its buffers have it in the same place.

        Lanes have to have read before any writes, so there only what needs no test is a cell.
        """
        first = s.buffers[0]
        alike = all(b.name in self.unchecked and b.shape == first.shape and b.layout == first.layout for b in s.buffers)
        where = self.address(first, s.at) if alike else None
        if where is None or (where.test and self.in_lanes):
            at = self.at(s.at)
            return Target(at, at)
        cell = f"({where.cell} if {where.test} else b_{first.name}.cell({where.at}))" if where.test else where.cell
        return Target(cell, where.at, in_place=True)

    def write(self, s: Store | Reduce, to: Target, values: Sequence[str], depth: int) -> None:
        step = ""
        if isinstance(s, Reduce):
            step = f", {s.monoid.name!r}" if s.atomic else ""
            if self.traced:
                self.emit(depth, f"run.folded({s.label!r}, {to.spelled})")
        for b, value in zip(s.buffers, values, strict=True):
            here = f"c_{b.name}[{to.spelled}] = {value}"
            self.emit(depth, here if to.in_place else f"b_{b.name}.store({to.spelled}, {value}{step})")

    # ------------------------------------------------------------ lanes

    def mask(self) -> str:
        self.masks += 1
        return f"lanes_{self.masks}"

    @contextmanager
    def vector(self, lanes: Lanes) -> Generator[Lanes]:
        """Where statements run in all of `lanes` at a time."""
        around, self.lanes = self.lanes, lanes
        with self.inside(lanes.active, *(f"all_{b.name}" for b in lanes.own)):
            yield lanes
        self.lanes = around

    @contextmanager
    def each_lane(self, lanes: Lanes, depth: int, *, over: str = "") -> Generator[int]:
        """Emit a loop over `lanes`, in order; what is emitted in it, at the depth given, is of one lane."""
        self.emit(depth, f"for {over or f'v_{lanes.var}'} in {lanes.active if not over else 'held'}:")
        names: list[str] = []
        for b in lanes.own:
            self.emit(depth + 1, f"b_{b.name} = all_{b.name}[v_{lanes.var}]")
            names += self.bind(b, depth + 1)
        start = len(self.lines)
        around, self.lanes, self.in_lanes = self.lanes, None, True
        with self.inside(f"v_{lanes.var}", *names):
            yield depth + 1
        self.lanes, self.in_lanes = around, False
        if len(self.lines) == start:
            self.emit(depth + 1, "pass")

    def stmt_in_lanes(self, s: Stmt, lanes: Lanes, depth: int) -> None:
        """A statement of a vectorized loop: all lanes have read before any writes."""
        match s:
            case Loop(var, extent, _, body):
                self.emit(depth, f"for v_{var} in range({self.index(extent)}):")
                with self.inside(f"v_{var}"):
                    self.body(body, depth + 1)
            case If(cond, then, orelse):
                masks = self.mask(), self.mask()
                self.emit(depth, f"{masks[0]}, {masks[1]} = [], []")
                with self.each_lane(lanes, depth) as inner:
                    self.emit(inner, f"({masks[0]} if {self.cond(cond)} else {masks[1]}).append(v_{lanes.var})")
                for mask, body in zip(masks, (then, orelse), strict=True):
                    if body:
                        self.emit(depth, f"if {mask}:")
                        with self.vector(replace(lanes, active=mask)):
                            self.body(body, depth + 1)
            case Alloc(buffer, body) if buffer.name not in self.private:
                key = self.share(("buffer", buffer), buffer)
                self.emit(depth, f"all_{buffer.name} = {{n: run.allocate({key}) for n in {lanes.active}}}")
                with self.vector(replace(lanes, own=(*lanes.own, buffer))):
                    self.body(body, depth)
            case Alloc(_, body) | InstrRegion(_, body) | WarpSpecialized(_, body) | InTurn(body):
                self.body(body, depth)
            case Store() | Reduce():
                self.emit(depth, "held = []")
                with self.each_lane(lanes, depth) as inner:
                    self.locate(s.label, inner)
                    to, values = self.written(s, inner)
                    self.emit(inner, f"held.append((v_{lanes.var}, {', '.join((to.spelled, *values))}))")
                names = ["e", *(f"r{n}" for n in range(len(values)))]
                with self.each_lane(lanes, depth, over=f"v_{lanes.var}, {', '.join(names)}") as inner:
                    self.locate(s.label, inner)
                    self.write(s, replace(to, spelled=names[0]), names[1:], inner)
            case _:
                with self.each_lane(lanes, depth) as inner:
                    self.stmt(s, inner)

    def kernel(self, s: Kernel, depth: int) -> None:
        axes, allocs, body = _bound_loops(s)
        if not axes:
            self.body(s.body, depth)
            return
        shared = [x.buffer for x in [*allocs, *_allocs(body)] if x.buffer.scope == "shared"]
        self.private = {b.name for b in shared}
        self.together = any(isinstance(x, Barrier) and x.cluster for x in statements(body))
        blocks = [x for x in axes if x.kind in BLOCK_AXES]
        threads = [x for x in axes if x.kind not in BLOCK_AXES]
        self.threads = prod(x.extent.value for x in threads if isinstance(x.extent, Int))
        params = [f"v_{x.var}" for x in blocks + threads]
        self.emit(depth, f"def k_{s.name}({', '.join(['mine', *params])}):")
        if shared:
            self.emit(depth + 1, f"{''.join(f'b_{b.name}, ' for b in shared)} = mine")
        self.stops, around = True, self.unchecked
        self.instructed = asynchronous_operands(s)
        self.unchecked = around - written_buffers(s) - self.instructed
        with self.inside(*params, *(f"b_{b.name}" for b in shared)):
            self.guarded(depth + 1, lambda d: self.body(body, d))
        self.stops, self.unchecked = False, around
        self.emit(depth + 1, "yield from ()")
        self.launch_call(s.name, depth, blocks, threads, shared)
        self.private = set()

    def launch_call(
        self, name: str, depth: int, blocks: Sequence[Loop], threads: Sequence[Loop], shared: Sequence[Buffer]
    ) -> None:
        """The call that runs every thread of the kernel `name`."""
        keys = "".join(self.share(("buffer", b), b) + ", " for b in shared)
        grid = "".join(f"{self.index(x.extent)}, " for x in blocks)
        block = "".join(f"{self.index(x.extent)}, " for x in threads)
        axes = "".join(f"{THREAD_AXES.index(x.kind)}, " for x in threads)
        watched = "[m for n, m in list(locals().items()) if n.startswith('b_')]"
        cluster = next((n for n, x in enumerate(blocks) if x.kind == "cluster" and self.together), None)
        self.emit(
            depth, f"launch(k_{name}, ({grid}), ({block}), ({axes}), lambda: [run.allocate(b) for b in ({keys})],"
        )
        self.emit(depth + 2, f"{watched}, run.who, run.seed, {cluster})")

    # ------------------------------------------------------------ expressions

    def at(self, at: Iterable[Index]) -> str:
        return f"({''.join(self.index(x) + ', ' for x in at)})"

    def variable(self, name: str) -> str:
        return f"v_{name}"

    def checked(self, divisor: Index) -> str:
        return f"divisor({self.index(divisor)})"

    def from_memory(self, part: ValueToIndex | ValueToCond) -> str:
        return f"{'int' if isinstance(part, ValueToIndex) else 'bool'}({self.value(part.value)})"

    def value(self, v: Value, env: Mapping[str, str] | None = None) -> str:
        """`v` as an expression of Python; what has more parentheses than that takes is in functions of its own."""
        depth = self.nested
        begun = depth >= NESTED and env is None
        self.nested = 1 if begun else depth + 1
        try:
            if begun:
                return self.called(lambda: self.emit(1, f"return {self.spelt(v, env)}"))
            return self.spelt(v, env)
        finally:
            self.nested = depth

    def spelt(self, v: Value, env: Mapping[str, str] | None) -> str:
        match v:
            case Const(value, t):
                return self.share(("const", v), self.domain.const(value, t))
            case Load(buffer, at):
                return self.loaded(buffer, at)
            case IndexToValue(Index() as ix, t):
                return f"{self.from_int(t)}({self.index(ix)})"
            case IndexToValue(Cond() as c, t):
                return f"{self.from_int(t)}(int({self.cond(c)}))"
            case Cast(value):
                return f"{self.cast(v)}({self.value(value, env)})"
            case Select(c, a, b):
                test = self.cond_in(c, env)
                return f"({self.value(a, env)} if {test} else {self.value(b, env)})"
            case Op(fn, args):
                spelt = self.domain.spelling(fn, args[0].dtype)
                if spelt is not None:
                    return spelt.format(*(self.value(a, env) for a in args))
                op = self.share(("op", fn, args[0].dtype), self.domain.op(fn, args[0].dtype))
                return f"{op}({', '.join(self.value(a, env) for a in args)})"
            case Param(name, _):
                assert env is not None
                return env[name]
            case _:
                raise TypeError(f"{type(v).__name__} is no value")

    def cast(self, v: Cast) -> str:
        """The function that converts as `v` does."""
        return self.share(("cast", v.value.dtype, v.type), self.domain.cast(v.value.dtype, v.type))

    def cond_in(self, c: Cond, env: Mapping[str, str] | None) -> str:
        return f"bool({self.value(c.value, env)})" if isinstance(c, ValueToCond) else self.cond(c)

    def from_int(self, t: DType) -> str:
        const = self.domain.const

        def made(x: int) -> Any:
            return const(x, t)

        return self.share(("of", t), made)


def _bound_loops(s: Kernel) -> tuple[list[Loop], list[Alloc], Body]:
    """The bound loops of a kernel in its lowered form, the allocations among them, and what they enclose."""
    axes: list[Loop] = []
    allocs: list[Alloc] = []
    body = s.body
    while len(body) == 1 and isinstance(only := body[0], Loop | Alloc):
        if isinstance(only, Loop):
            if only.kind not in AXES:
                break
            axes.append(only)
        elif any(isinstance(x, Loop) and x.kind in AXES for x in statements(only.body)):
            allocs.append(only)
        else:
            break
        body = only.body
    if any(isinstance(x, Loop) and x.kind in AXES for x in statements(body)):
        return [], [], s.body
    return axes, allocs, body


def written_buffers(s: Kernel) -> set[str]:
    """What a kernel writes, by statements or by instructions."""
    out: set[str] = set()
    for x in statements(s.body):
        if isinstance(x, Store | Reduce):
            out.update(b.name for b in x.buffers)
        elif isinstance(x, InstrCall):
            out.update(o.buffer.name for o, a in zip(x.operands, x.fn.meaning.args, strict=True) if a.access != "in")
    return out


def asynchronous_operands(s: Kernel) -> set[str]:
    """What an instruction may still read or write while its thread goes on."""
    issued = [x for x in statements(s.body) if isinstance(x, InstrCall) and x.fn.asynchronous]
    return {o.buffer.name for x in issued for o in x.operands}


def _allocs(body: Body) -> list[Alloc]:
    return [s for s in statements(body) if isinstance(s, Alloc)]


def _divisor(b: int) -> int:
    if b < 1:
        raise OutOfArray(f"divides by {b}, and a divisor is at least 1")
    return b


def _located(func: str, fault: Fault, at: tuple[str, tuple[str, ...]] | None, env: Mapping[str, Any]) -> InterpretError:
    error = InterpretBoundsError if isinstance(fault, OutOfArray) else InterpretError
    if at is None:
        return error(f"{func}: a thread {fault}")
    label, loops = at
    iteration = ", ".join(f"{v}={env[f'v_{v}']}" for v in loops if f"v_{v}" in env)
    return error(f"{func}: statement {label} at ({iteration}) {fault}")
