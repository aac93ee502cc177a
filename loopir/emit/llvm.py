"""LLVM IR from a lowered Func: one function a kernel, `vectorize` loops as vectors of fixed width.

This room only spells. A kernel is `void name(i64..., ptr..., [i64 begin, i64 end])`, the last two where it is rooted at
a `parallel` loop, of which it runs that range. Statements are here, expressions in `llvm_values`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from loopir.emit.llvm_values import I64, Values
from loopir.emit.params import Params, kernels_of, params_of
from loopir.errors import LowerError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Func,
    If,
    Int,
    Kernel,
    Loop,
    Reduce,
    Stmt,
    Store,
)
from loopir.ir.walk import statements, variables

STACK_BYTES = 1 << 16
UNROLL_LIMIT = 64


@dataclass(frozen=True, slots=True)
class LlvmKernel:
    """How a kernel is called: its parameters, and the loop over whose range it runs, if it is parallel."""

    name: str
    params: Params
    root: Loop | None


@dataclass(frozen=True, slots=True)
class LlvmModule:
    source: str
    kernels: tuple[LlvmKernel, ...]


def emit(func: Func, *, fma: bool = True) -> LlvmModule:
    """The LLVM IR of every kernel in `func`; with `fma`, a product and a sum may be rounded once."""
    module = ir.Module(name=func.name)
    kernels = tuple(_Emitter(module, k, fma).kernel() for k in kernels_of(func))
    return LlvmModule(str(module), kernels)


class _Emitter:
    """One kernel."""

    def __init__(self, module: Any, kernel: Kernel, fma: bool) -> None:
        self.module, self.source = module, kernel
        self.params = params_of(kernel)
        first = kernel.body[0] if len(kernel.body) == 1 else None
        self.root = first if isinstance(first, Loop) and first.kind == "parallel" else None
        extra = [I64, I64] if self.root else []
        types = [*(I64 for _ in self.params.integers), *(ir.PointerType() for _ in self.params.buffers), *extra]
        self.fn = ir.Function(module, ir.FunctionType(ir.VoidType(), types), kernel.name)
        self.entry = self.fn.append_basic_block("entry")
        self.b = ir.IRBuilder(self.entry)
        self.values = Values(module, self.b, fma)

    def kernel(self) -> LlvmKernel:
        for name, arg in zip(self.params.names, self.fn.args, strict=False):
            arg.name = name
        for name, arg in zip(self.params.integers, self.fn.args, strict=False):
            self.values.env[name] = arg
        for b, arg in zip(self.params.buffers, self.fn.args[len(self.params.integers) :], strict=False):
            arg.add_attribute("noalias")
            self.values.pointers[b.name] = arg
        start = self.fn.append_basic_block("start")
        self.b.position_at_end(start)
        if self.root is not None:
            begin, end = self.fn.args[-2:]
            self.loop(self.root.var, begin, end, lambda: self.body(self.root.body if self.root else ()))
        else:
            self.body(self.source.body)
        self.b.ret_void()
        self.b.position_at_end(self.entry)
        self.b.branch(start)
        return LlvmKernel(self.source.name, self.params, self.root)

    # ------------------------------------------------------------ statements

    def body(self, body: Body) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        match s:
            case Loop():
                self.any_loop(s)
            case If():
                self.guard(s)
            case Store():
                self.values.store(s.buffer, s.at[0], self.values.whole(s.value))
            case Reduce():
                self.reduce(s)
            case Alloc():
                self.alloc(s)
            case _:
                raise LowerError(f"{type(s).__name__} has no meaning on a CPU; barriers are for GPU kernels")

    def any_loop(self, s: Loop) -> None:
        values = self.values
        if s.kind == "vectorize" and values.lanes is None and isinstance(s.extent, Int) and _vectorizable(s):
            values.enter_lanes(s.var, s.extent.value)
            self.body(s.body)
            values.leave_lanes()
        elif s.kind == "unroll" and isinstance(s.extent, Int) and s.extent.value <= UNROLL_LIMIT:
            for n in range(s.extent.value):
                values.env[s.var] = ir.Constant(I64, n)
                self.body(s.body)
        else:
            self.loop(s.var, ir.Constant(I64, 0), values.index(s.extent), lambda: self.body(s.body))

    def loop(self, var: str, begin: Any, end: Any, body: Callable[[], None]) -> None:
        """for var in begin .. end - 1."""
        b: Any = self.b
        before = b.block
        head, inside, after = (b.append_basic_block(f"{var}.{part}") for part in ("head", "body", "end"))
        b.branch(head)
        b.position_at_end(head)
        counter = b.phi(I64, var)
        counter.add_incoming(begin, before)
        b.cbranch(b.icmp_signed("<", counter, end), inside, after)
        b.position_at_end(inside)
        self.values.env[var] = counter
        body()
        counter.add_incoming(b.add(counter, ir.Constant(I64, 1), flags=("nsw",)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def guard(self, s: If) -> None:
        values = self.values
        if values.lanes is not None and values.varies(s.cond):
            test = values.cond(s.cond)
            with values.masked(test):
                self.body(s.then)
            if s.orelse:
                with values.masked(self.b.not_(test)):
                    self.body(s.orelse)
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
        b = s.buffer
        values = self.values
        count = values.index_product(b.shape)
        size = b.dtype.bytes
        constant = isinstance(count, ir.Constant)
        if constant and count.constant * size <= STACK_BYTES:
            with self.b.goto_block(self.entry):
                memory: Any = self.b.alloca(ir.ArrayType(ir.IntType(8), max(1, count.constant * size)))
                memory.align = 64
            values.pointers[b.name] = memory
            self.body(s.body)
            return
        nothing = self.b.icmp_signed("<", count, ir.Constant(I64, 1))
        asked = self.b.select(nothing, ir.Constant(I64, 64), self.b.mul(count, ir.Constant(I64, size)))
        memory = self.b.call(values.library("malloc", ir.PointerType(), [I64]), [asked])
        values.pointers[b.name] = memory
        self.body(s.body)
        self.b.call(values.library("free", ir.VoidType(), [ir.PointerType()]), [memory])


def _vectorizable(loop: Loop) -> bool:
    """Whether the lanes of `loop` can run as vectors: no memory of their own, inner loops of one length for all."""
    for s in statements(loop.body):
        if isinstance(s, Alloc):
            return False
        if isinstance(s, Loop) and (s.kind == "vectorize" or loop.var in variables(s.extent)):
            return False
    return True
