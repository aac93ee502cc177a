"""How threads share a kernel of a range: its arguments go to memory, from where each takes them for its ranges.

Beside `i32 name(args..., i64 begin, i64 end)` stand `i32 name.part(ptr, i64 begin, i64 end)`, which threads call, and
`i32 name.shared(ptr run, ptr pool, args..., i64 extent)`, which calls `run(pool, name.part, memory, extent)` once.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any

from llvmlite import ir

I64, I32 = ir.IntType(64), ir.IntType(32)


def shared(module: Any, kernel: Any) -> None:
    """Put both functions beside `kernel`, whose code stays one."""
    kernel.attributes.add("noinline")
    address = ir.PointerType()
    args = ir.LiteralStructType([a.type for a in kernel.args[:-2]])
    part = ir.Function(module, ir.FunctionType(I32, [address, I64, I64]), f"{kernel.name}.part")
    part.linkage = "internal"
    b: Any = ir.IRBuilder(part.append_basic_block("entry"))
    memory, begin, end = part.args
    given = [b.load(_field(b, args, memory, n), typ=t) for n, t in enumerate(args.elements)]
    b.ret(b.call(kernel, [*given, begin, end]))
    fn = ir.Function(module, ir.FunctionType(I32, [address, address, *args.elements, I64]), f"{kernel.name}.shared")
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    run, pool, *values, extent = fn.args
    memory = b.alloca(args)
    memory.type = address  # llvmlite gives it the type of what it points at
    for n, value in enumerate(values):
        b.store(value, _field(b, args, memory, n))
    kind = ir.FunctionType(I32, [address, address, address, I64])
    b.ret(b.call(_Pointed(run, kind), [pool, part, memory, extent]))


def _field(b: Any, args: Any, memory: Any, n: int) -> Any:
    return b.gep(memory, [ir.Constant(I32, 0), ir.Constant(I32, n)], source_etype=args)


class _Pointed:
    """A function whose address is a value."""

    def __init__(self, value: Any, kind: Any) -> None:
        self.function_type, self.get_reference = kind, value.get_reference
