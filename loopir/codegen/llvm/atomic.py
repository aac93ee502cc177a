"""Emit atomic updates in LLVM IR, as compare-and-swap loops."""

from __future__ import annotations

from loopir.codegen.llvm import ops
from loopir.codegen.llvm.ir_text import I1, integer
from loopir.codegen.llvm.values import Values
from loopir.ir.grammar import Reduce

ORDER = "monotonic"
"""Threads meet at the end of a parallel loop, and that orders what they did."""


def update(s: Reduce, values: Values) -> None:
    """Emit the atomic fold of the value of `s`, a reduction into one buffer, into its element."""
    (buffer,), b = s.buffers, values.b
    kind, word = ops.memory_type(buffer.dtype), integer(8 * buffer.dtype.bytes)
    right = values.whole(s.values[0])
    values.written()
    address = values.address(buffer, s.at[0])
    first = b.made(word, f"load atomic {word.text}, {address.typed} {ORDER}, align {buffer.dtype.bytes}")
    start = b.block
    again, after = b.new_block("update"), b.new_block("updated")
    b.jump(again)
    b.block = again
    seen = b.phi(word, (first, start))
    left = ops.from_memory(b, b.bitcast(seen, kind), buffer.dtype)
    with values.bound({s.monoid.left[0].name: left, s.monoid.right[0].name: right}):
        folded = values.value(s.monoid.combine[0])
    now = b.bitcast(ops.to_memory(b, folded, buffer.dtype), word)
    pair = f"{{ {word.text}, i1 }}"
    found = b.made(word, f"cmpxchg {address.typed}, {seen.typed}, {now.typed} {ORDER} {ORDER}").text
    seen.incoming.append((b.made(word, f"extractvalue {pair} {found}, 0"), b.block))
    b.jump_if(b.made(I1, f"extractvalue {pair} {found}, 1"), after, again)
    b.block = after
