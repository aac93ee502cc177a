"""Emit CPU instructions in LLVM IR, by the word or the text in the `llvm` field of their records; and prefetches."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from loopir.codegen.llvm import amx_tiles, ops
from loopir.codegen.llvm.instruction_text import issue_text
from loopir.codegen.llvm.ir_text import BFLOAT, FLOAT, I16, I32, I64, POINTER, VOID, constant, like, vector, word
from loopir.codegen.llvm.values import Values
from loopir.errors import LowerError
from loopir.ir.grammar import InstrCall, Int, Load
from loopir.ir.instr.llvm_text import is_llvm_text

LINE = 16
"""What the address of a store past the caches is a multiple of; LLVM makes wider ones of as many as they need."""


def issue(s: InstrCall, values: Values) -> None:
    """Emit `s` at the builder's position."""
    spell = issue_text if is_llvm_text(s.fn.llvm) else SPELLINGS.get(s.fn.llvm)
    if spell is None:
        raise LowerError(
            f"{s.fn.name} is spelt llvm={s.fn.llvm!r}, which is no word of loopir's; write an intrinsic with its "
            "arguments, as llvm.fma.v8f32(A, B, C), or the body of an LLVM function"
        )
    spell(s, values)
    values.written()


def prefetch(element: Load, values: Values) -> None:
    """Emit a prefetch of the cache line of `element`, for the first lane of a vector. Any address is allowed."""
    hint = values.library("llvm.prefetch.p0", VOID, [POINTER, I32, I32, I32])
    read, near, data = (constant(I32, n) for n in (0, 3, 1))
    values.b.call(hint, [values.address(element.buffer, element.at[0], wide=True), read, near, data])


def _stream(s: InstrCall, values: Values) -> None:
    """A vector from memory to memory, past the caches if it is aligned. The test is the same for all of a row."""
    b = values.b
    meant = s.fn.meaning.args[0].buffer
    kind = vector(ops.memory_type(meant.dtype), prod(d.value for d in meant.shape if isinstance(d, Int)))
    to, source = (values.address(x.buffer, x.at[0], wide=True) for x in s.operands)
    value = b.load(kind, source, meant.dtype.bytes)
    rest = b.op("and", b.cast("ptrtoint", to, I64), LINE - 1)
    with b.if_else(b.icmp("eq", rest, 0), likely=True) as (aligned, other):
        with aligned:
            b.store(value, to, LINE, note=f", !nontemporal {b.module.note('!{i32 1}')}")
        with other:
            b.store(value, to, meant.dtype.bytes)


PAIRS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
"""By sums of a vector what adds up products of neighbours; a CPU that has it not is told of when it is compiled."""
FOURS = "llvm.x86.avx512.vpdpbusd."
SAME_SIGN = {"int": "llvm.x86.avx2.vpdpbssd.", "uint": "llvm.x86.avx2.vpdpbuud."}
BFLOATS = "llvm.x86.avx512bf16.dpbf16ps."
"""These end with the bits of a vector."""


def _dot(s: InstrCall, values: Values) -> None:
    """Sums of a few products, by what all lanes have."""
    b = values.b
    meant = [a.buffer for a in s.fn.meaning.args]
    count, steps = (d.value for d in meant[1].shape if isinstance(d, Int))
    one, many, to = (values.address(x.buffer, x.at[0], wide=True) for x in s.operands)
    kind = ops.memory_type(meant[0].dtype)
    few = b.load(vector(kind, steps), one, meant[0].dtype.bytes)
    all_ = b.load(vector(kind, steps * count), many, meant[1].dtype.bytes)
    if steps == 2 and kind.bits == 8:
        few, all_ = (b.cast("sext", v, like(v, I16)) for v in (few, all_))
    wide = b.shuffled(few, [n % steps for n in range(steps * count)])
    sums = vector(FLOAT if meant[2].dtype.is_float else I32, count)
    old = b.load(sums, to, 4)
    if meant[2].dtype.is_float:
        narrow = vector(BFLOAT, steps * count)
        fn = values.library(f"{BFLOATS}{32 * count}", sums, [sums, narrow, narrow])
        new = b.call(fn, [old, b.bitcast(wide, narrow), b.bitcast(all_, narrow)])
    elif steps == 4:
        unsigned, signed = (wide, all_) if meant[0].dtype.kind == "uint" else (all_, wide)
        called = SAME_SIGN[meant[0].dtype.kind] if meant[0].dtype == meant[1].dtype else FOURS
        fn = values.library(f"{called}{32 * count}", sums, [sums, all_.type, all_.type])
        new = b.call(fn, [old, unsigned, signed])
    else:
        fn = values.library(PAIRS[count], sums, [all_.type, all_.type])
        new = b.op("add", old, b.call(fn, [all_, wide]))
    b.store(new, to, 4)


def _weave(s: InstrCall, values: Values) -> None:
    """Rows as vectors, two and two woven until they are one."""
    b = values.b
    to, source = s.operands
    height, width = (d.value for d in s.fn.meaning.args[0].buffer.shape if isinstance(d, Int))
    kind, first = ops.memory_type(source.buffer.dtype), values.address(source.buffer, source.at[0], wide=True)
    starts = [b.gep(kind, first, word(n * dict(s.words)["M"])) for n in range(height)]
    rows = [b.load(vector(kind, width), start, source.buffer.dtype.bytes) for start in starts]
    if to.buffer.dtype != source.buffer.dtype:
        rows = [ops.resized(b, row, ops.memory_type(to.buffer.dtype), source.buffer.dtype) for row in rows]
    while len(rows) > 1:
        half = len(rows) // 2
        rows = [b.woven(x, y) for x, y in zip(rows[:half], rows[half:], strict=True)]
    b.store(rows[0], values.address(to.buffer, to.at[0], wide=True), to.buffer.dtype.bytes)


SPELLINGS: dict[str, Callable[[InstrCall, Values], None]] = {
    "stream": _stream,
    "dot2": _dot,
    "dot4": _dot,
    "weave": _weave,
    **amx_tiles.SPELLINGS,
}
"""By the word in an instruction's record how it is spelt."""
