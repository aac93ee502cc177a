"""Emit LLVM IR from a lowered Func: one function a kernel, `vectorize` loops as fixed-width vectors.

Nothing is decided here. A kernel is `i32 name(i64..., ptr..., [i64 begin, i64 end])`; the last two parameters are the
range to run of its outermost loop, if that is `parallel`. It returns 0, or 1 if memory for an intermediate cannot be
allocated. Threads run it by the functions of `loopir.codegen.llvm.parallel_ranges`. Statements are emitted in this
file, expressions in `loopir.codegen.llvm.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

from loopir.codegen.index_bounds import INT32_END
from loopir.codegen.llvm.amx_tiles import allocated, configure, in_tiles, release, uses_tiles
from loopir.codegen.llvm.atomic import update
from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.interleaved_stores import interleaved_stores, store_interleaved
from loopir.codegen.llvm.ir_text import I32, I64, POINTER, VOID, Constant, Function, Module, Operand, word, zero
from loopir.codegen.llvm.issue import issue, prefetch
from loopir.codegen.llvm.loop_metadata import no_optimize_note
from loopir.codegen.llvm.narrow_index import IndexWidth
from loopir.codegen.llvm.parallel_ranges import shared
from loopir.codegen.llvm.values import MAX_SHUFFLE_DISTANCE, Values
from loopir.codegen.overflow import index_bounds
from loopir.codegen.params import Params, kernels_of, params_of
from loopir.errors import LowerError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Func,
    If,
    Index,
    InstrCall,
    Int,
    Kernel,
    Loop,
    Prefetch,
    Reduce,
    Stmt,
    Store,
)
from loopir.ir.recursion import deep
from loopir.ir.traverse.queries import loaded_buffers
from loopir.ir.traverse.walk import has_lockstep_lanes, statements

ALIGNMENT = 64
STACK_BYTES = 1 << 18
"""How much of a thread's stack a kernel may take; what is over lies on the heap."""
UNROLL_LIMIT = 1024
"""How many copies of a statement unrolling may make, loops inside one another together; over it they stay loops."""
MAX_LANES = 64


@dataclass(frozen=True, slots=True)
class LlvmKernel:
    """How to call a kernel: its parameters, and its parallel loop, if it has one."""

    name: str
    params: Params
    root: Loop | None


@dataclass(frozen=True, slots=True)
class LlvmModule:
    """The source, how to call its kernels, and the loop from which each line comes."""

    source: str
    kernels: tuple[LlvmKernel, ...]
    loops: tuple[str | None, ...]
    left: bool = True
    """Whether LLVM can make loops faster, or has all of them as they are to run."""


@deep(LowerError)
def emit(func: Func, *, fma: bool = True, vector_functions: frozenset[str] = frozenset()) -> LlvmModule:
    """Emit the LLVM IR of every kernel in `func`; with `fma`, a product and a sum may be fused and rounded once.

    It calls no functions of vectors but `vector_functions`, by their symbols.
    """
    index_bounds(func)
    module = Module(vector_functions=vector_functions)
    emitters = [_Emitter(module, k, fma, assumes=True) for k in kernels_of(func)]
    kernels = tuple(LlvmKernel(e.source.name, e.params, e.root) for e in emitters)
    versions = [v for e in emitters for v in _versions(module, e, fma)]
    left = any(v.values.left.anything for v in versions)
    source, loops = module.written(left)
    return LlvmModule(source, kernels, loops, left)


def _versions(module: Module, narrow: _Emitter, fma: bool) -> list[_Emitter]:
    """Emit a kernel: twice, if its indices in lanes are of 32 bits where its sizes are small enough, and a choice."""
    kernel = narrow.source
    narrow.kernel()
    found, small = [narrow], narrow.values.narrow.width.assumed
    entry = narrow.fn
    if small:
        entry = Function(kernel.name, I32, narrow.signature, how=narrow.how)
        narrow.fn.hidden(f"{kernel.name}.narrow")
        wide = _Emitter(module, kernel, fma, assumes=False)
        wide.kernel()
        wide.fn.hidden(f"{kernel.name}.wide")
        module.functions.append(entry)
        found.append(wide)
        _choose(module, entry, narrow, wide, small)
    if narrow.root is not None:
        shared(module, entry)
    return found


def _choose(module: Module, entry: Function, narrow: _Emitter, wide: _Emitter, small: Collection[Index]) -> None:
    """Make `entry` call `narrow` where all of `small` are below 2^31, and `wide` elsewhere."""
    b = Builder(module, entry)
    values = Values(b, False, wide.values.narrow.width)
    values.env.update(zip(narrow.params.integers, entry.args, strict=False))
    tests = [b.icmp("slt", values.index(bound), INT32_END) for bound in small]
    every = reduce(partial(b.op, "and"), tests)
    with b.if_then(every, likely=True):
        b.ret(b.call(narrow.fn, entry.args))
    b.ret(b.call(wide.fn, entry.args))


def _read_buffers(body: Body) -> frozenset[str]:
    """The buffers that are loaded from in `body`, those that a reduction adds to included."""
    reduced = (b.name for s in statements(body) if isinstance(s, Reduce) for b in s.buffers)
    return frozenset(reduced).union(*map(loaded_buffers, body))


class _Emitter:
    """Emits one kernel."""

    def __init__(self, module: Module, kernel: Kernel, fma: bool, *, assumes: bool) -> None:
        self.module, self.source = module, kernel
        self.params = params_of(kernel)
        first = kernel.body[0] if len(kernel.body) == 1 else None
        self.root = first if isinstance(first, Loop) and first.kind == "parallel" else None
        args = [(I64, x, "") for x in self.params.integers] + [
            (POINTER, b.name, " noalias") for b in self.params.buffers
        ]
        extra = [(I64, "begin", ""), (I64, "end", "")] if self.root else []
        self.signature, self.how = [*args, *extra], " noinline" if self.root else ""
        self.fn = Function(kernel.name, I32, self.signature, how=self.how)
        module.functions.append(self.fn)
        self.b = Builder(module, self.fn)
        self.entry = self.b.block
        width = IndexWidth(kernel, self.params.integers, assumes=assumes)
        self.values = Values(self.b, fma, width, _read_buffers(kernel.body))
        self.copies, self.unrolled = 1, 0
        self.stack_bytes = 0
        self.heap: list[Operand] = []
        self.tiles = uses_tiles(kernel)

    def kernel(self) -> None:
        values, count = self.values, len(self.params.integers)
        values.env.update(zip(self.params.integers, self.fn.args, strict=False))
        values.pointers.update((b.name, v) for b, v in zip(self.params.buffers, self.fn.args[count:], strict=False))
        values.indices.depths.update(dict.fromkeys(self.fn.args, 0))
        start = self.b.new_block("start")
        self.b.jump(start)
        self.b.block = values.indices.scopes[0].block = start
        if self.tiles:
            configure(values)
        if self.root is not None:
            begin, end = self.fn.args[-2:]
            with self.b.marked(self.root.var):
                self.loop(self.root.var, begin, end, lambda: self.body(self.root.body if self.root else ()))
        else:
            self.body(self.source.body)
        if any(isinstance(s, InstrCall) for s in statements(self.source.body)):
            self.b.do("fence seq_cst")  # what went past the caches is there before another thread is told
        self.leave(0)

    def leave(self, code: int) -> None:
        if self.tiles:
            release(self.values)
        self.b.ret(word(code, I32))

    # ------------------------------------------------------------ statements

    def body(self, body: Body) -> None:
        n = 0
        while n < len(body):
            if group := interleaved_stores(body[n : n + MAX_SHUFFLE_DISTANCE], self.values):
                store_interleaved(group, self.values)
            else:
                self.stmt(body[n])
            n += max(1, len(group))

    def stmt(self, s: Stmt) -> None:
        match s:
            case Loop():
                with self.b.marked(s.var):
                    self.any_loop(s)
            case If():
                self.guard(s)
            case Store():
                self.values.copy(s.buffer, s.at[0], s.value)
            case Reduce(atomic=True):
                update(s, self.values)
            case Reduce():
                self.reduce(s)
            case Alloc():
                self.alloc(s)
            case Prefetch(element):
                prefetch(element, self.values)
            case InstrCall():
                issue(s, self.values)
            case _:
                raise LowerError(f"{type(s).__name__} has no meaning on a CPU; barriers are for GPU kernels")

    def any_loop(self, s: Loop) -> None:
        values = self.values
        count = s.extent.value if isinstance(s.extent, Int) else -1
        if values.lanes is None and 1 <= count <= MAX_LANES and has_lockstep_lanes(s):
            values.enter_lanes(s.var, count)
            self.body(s.body)
            values.leave_lanes()
        elif count == 1:  # such as the last vector of a row: masks in it are constant
            values.env[s.var] = word(0)
            self.body(s.body)
        elif s.kind == "unroll" and 0 <= self.copies * count <= UNROLL_LIMIT:
            around, self.copies = self.copies, self.copies * max(1, count)
            self.unrolled += 1
            with values.left.copies():
                for n in range(count):
                    values.env[s.var] = word(n)
                    self.body(s.body)
            self.copies = around
        else:
            self.loop(s.var, word(0), values.index(s.extent), lambda: self.body(s.body))

    def loop(self, var: str, begin: Operand, end: Operand, body: Callable[[], None]) -> None:
        """for var in begin .. end - 1, with its test at the end, where LLVM has tests."""
        b = self.b
        before = b.block
        inside, after = (b.new_block(f"{var}.{part}") for part in ("body", "end"))
        if isinstance(begin, Constant) and isinstance(end, Constant) and (begin.number or 0) < (end.number or 0):
            b.jump(inside)
        else:
            b.jump_if(b.icmp("slt", begin, end), inside, after)
        b.block = inside
        counter = b.phi(I64, (begin, before), label=var)
        self.values.env[var] = counter
        unrolled, divided = self.unrolled, b.divided
        with self.values.indices.scope(counter), self.values.left.loop(len(self.values.indices.scopes) - 1):
            body()
        following = b.made(I64, f"add nsw {counter.typed}, 1")
        counter.incoming.append((following, b.block))
        divides = b.block is not inside and b.divided > divided
        note = no_optimize_note(self.module, divides=divides, unrolled=self.unrolled > unrolled)
        b.jump_if(b.icmp("ne", following, end), inside, after, loop=note)
        b.block = after

    def guard(self, s: If) -> None:
        values = self.values
        if values.lanes is not None and values.varies(s.cond):
            test = values.cond(s.cond)
            with values.masked(test, s.cond):
                self.body(s.then)
            if s.orelse:
                with values.masked(self.b.not_(test), s.cond):
                    self.body(s.orelse)
            return
        if not s.orelse:
            with self.b.if_then(values.cond(s.cond)):
                self.body(s.then)
            return
        with self.b.if_else(values.cond(s.cond)) as (then, orelse):
            with then:
                self.body(s.then)
            with orelse:
                self.body(s.orelse)

    def reduce(self, s: Reduce) -> None:
        values = self.values
        at = s.at[0]
        right = [values.whole(v) for v in s.values]
        left = [values.load(b, at) for b in s.buffers]
        env = {p.name: v for p, v in zip(s.monoid.left, left, strict=True)}
        env |= {p.name: v for p, v in zip(s.monoid.right, right, strict=True)}
        with values.bound(env):
            combined = [values.value(v) for v in s.monoid.combine]
        for b, v in zip(s.buffers, combined, strict=True):
            values.store(b, at, v)

    def alloc(self, s: Alloc) -> None:
        """Memory for `s.body`: on the stack if its size is constant and small. In lanes, as much for each."""
        b, values = s.buffer, self.values
        if in_tiles(b):
            with allocated(b, values):
                self.body(s.body)
            return
        lanes = 1 if values.lanes is None else values.lanes.width
        sizes = [max(0, d.value) for d in b.shape if isinstance(d, Int)]
        need = max(1, prod(sizes) * b.dtype.bytes * lanes) if len(sizes) == len(b.shape) else STACK_BYTES + 1
        if lanes > 1:
            values.private.add(b.name)
        if b.name in self.values.stack or self.stack_bytes + need <= STACK_BYTES:
            values.pointers[b.name] = self.on_stack(b.name, need)
            self.body(s.body)
        else:
            memory = values.pointers[b.name] = self.on_heap(b, lanes)
            with values.indices.scope(memory):
                self.body(s.body)
            self.heap.pop()
            self.give_back(memory)
        values.private.discard(b.name)

    def on_stack(self, name: str, size: int) -> Operand:
        """One place for all unrolled copies of an allocation, as they follow one another."""
        if name not in self.values.stack:
            with self.b.at(self.entry):
                memory = self.values.stack[name] = self.b.alloca(f"[{size} x i8]", ALIGNMENT)
            self.values.indices.depths[memory] = 0
            self.stack_bytes += size
        return self.values.stack[name]

    def on_heap(self, b: Buffer, lanes: int) -> Operand:
        """Memory from the C library; the kernel gives up if there is none, or if the size does not fit 64 bits."""
        count, size = self.values.elements(b.shape)
        each = b.dtype.bytes * lanes
        vast = self.b.fcmp("ogt", size, 2.0**62 / each)
        asked = self.b.op("add", self.b.op("mul", count, each), ALIGNMENT)
        asked = self.b.select(vast, -1, asked)
        memory = self.b.call(self.values.library("malloc", POINTER, [I64]), [asked])
        with self.b.if_then(self.b.icmp("eq", memory, zero(POINTER)), likely=False):
            for other in self.heap:
                self.give_back(other)
            self.leave(1)
        self.heap.append(memory)
        return memory

    def give_back(self, memory: Operand) -> None:
        self.b.call(self.values.library("free", VOID, [POINTER]), [memory])
