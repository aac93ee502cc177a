"""Updates of one element that no other thread comes between, in LLVM IR: compare and exchange until it holds."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any

from llvmlite import ir

from loopir.emit import llvm_ops as ops
from loopir.emit.llvm_values import Values
from loopir.ir.grammar import Reduce

ORDER = "monotonic"
"""Threads meet at the end of a parallel loop, and that orders what they did."""


def update(s: Reduce, values: Values) -> None:
    """Fold the value of `s`, a reduction into one buffer, into its element as one step."""
    (buffer,), b = s.buffers, values.b
    kind, word = ops.memory_type(buffer.dtype), ir.IntType(8 * buffer.dtype.bytes)
    right = values.whole(s.values[0])
    values.written()
    address = values.address(buffer, s.at[0])
    first: Any = b.load_atomic(address, ORDER, buffer.dtype.bytes, typ=word)
    start = b.block
    again, after = b.append_basic_block("update"), b.append_basic_block("updated")
    b.branch(again)
    b.position_at_end(again)
    seen = b.phi(word)
    seen.add_incoming(first, start)
    left = ops.from_memory(b, b.bitcast(seen, kind), buffer.dtype)
    with values.bound({s.monoid.left[0].name: left, s.monoid.right[0].name: right}):
        folded = values.value(s.monoid.combine[0])
    now = b.bitcast(ops.to_memory(b, folded, buffer.dtype), word)
    found = b.cmpxchg(address, seen, now, ORDER)
    seen.add_incoming(b.extract_value(found, 0), b.block)
    b.cbranch(b.extract_value(found, 1), after, again)
    b.position_at_end(after)
