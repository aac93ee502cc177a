"""Wrap a parallel kernel so that the threads of a pool can run ranges of it.

Beside `i32 name(args..., i64 begin, i64 end)` stand `i32 name.part(ptr, i64 begin, i64 end)`, which threads call, and
`i32 name.shared(ptr run, ptr pool, args..., i64 extent)`, which calls `run(pool, name.part, memory, extent)` once.
"""

from __future__ import annotations

from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import I32, I64, POINTER, Callee, Function, Module, Operand, constant


def shared(module: Module, kernel: Function) -> None:
    """Put both functions beside `kernel`."""
    types = [v.type for v in kernel.args[:-2]]
    struct = f"{{ {', '.join(t.text for t in types)} }}"
    part = Function(f"{kernel.label}.part", I32, [(POINTER, "memory", ""), (I64, "begin", ""), (I64, "end", "")])
    b = Builder(module, part)
    memory, begin, end = part.args
    given = [b.load(t, _field(b, struct, memory, n), 8) for n, t in enumerate(types)]
    b.ret(b.call(kernel, [*given, begin, end]))
    named = [(t, "given", "") for t in types]
    entry = [(POINTER, "run", ""), (POINTER, "pool", ""), *named, (I64, "extent", "")]
    fn = Function(f"{kernel.label}.shared", I32, entry)
    b = Builder(module, fn)
    run, pool, *values, extent = fn.args
    memory = b.alloca(struct, 8)
    for n, value in enumerate(values):
        b.store(value, _field(b, struct, memory, n), 8)
    b.ret(b.call(Callee(I32, run.text), [pool, part.pointer, memory, extent]))
    module.functions += part, fn


def _field(b: Builder, struct: str, memory: Operand, n: int) -> Operand:
    return b.gep(struct, memory, constant(I32, 0), constant(I32, n))
