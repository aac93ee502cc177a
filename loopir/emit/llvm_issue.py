"""Instructions of a CPU, as LLVM IR: what the word in a record's `llvm` stands for; and hints to its caches."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from math import prod
from typing import Any

from llvmlite import ir

from loopir.emit import llvm_ops as ops
from loopir.emit.llvm_values import I32, I64, Values
from loopir.errors import LowerError
from loopir.ir.grammar import Int, Issue, Load

LINE = 16
"""What the address of a store past the caches is a multiple of; LLVM makes wider ones of as many as they need."""


def issue(s: Issue, values: Values) -> None:
    """Spell `s` at the builder's position."""
    if s.fn.llvm != "stream":
        raise LowerError(f"{s.fn.name} has no spelling on the CPU")
    _stream(s, values)


def prefetch(element: Load, values: Values) -> None:
    """Have the line of `element` brought to the first cache. No address is wrong; of lanes, the first one asks."""
    ix = element.at[0]
    at = values.index(ix) if values.lanes is None else values.first(ix)
    hint = values.library("llvm.prefetch.p0", ir.VoidType(), [ir.PointerType(), I32, I32, I32])
    read, near, data = (ir.Constant(I32, n) for n in (0, 3, 1))
    values.b.call(hint, [values.address(element.buffer, at), read, near, data])


def _stream(s: Issue, values: Values) -> None:
    """A vector from memory to memory, past the caches if it is aligned. The test is the same for all of a row."""
    b: Any = values.b
    meant = s.fn.meaning.args[0].buffer
    vector = ir.VectorType(ops.memory_type(meant.dtype), prod(d.value for d in meant.shape if isinstance(d, Int)))
    to, source = (values.address(x.buffer, values.index(x.at[0])) for x in s.operands)
    value = b.load(source, typ=vector, align=meant.dtype.bytes)
    rest = b.and_(b.ptrtoint(to, I64), ir.Constant(I64, LINE - 1))
    with b.if_else(b.icmp_unsigned("==", rest, ir.Constant(I64, 0)), likely=True) as (aligned, other):
        with aligned:
            past = b.store(value, to, align=LINE)
            past.set_metadata("nontemporal", values.module.add_metadata([ir.Constant(I32, 1)]))
        with other:
            b.store(value, to, align=meant.dtype.bytes)
