"""Emit instructions that are spelt in LLVM's language: each is a function of the values of its operands, inlined.

The function's text says by what instruction it is there and which features it needs: `loopir.runtime.llvm_jit` reads
that before LLVM does, as LLVM ends the process at an instruction that the CPU lacks.
"""

from __future__ import annotations

import textwrap
from math import prod

from loopir.codegen.llvm import ops
from loopir.codegen.llvm.ir_text import BFLOAT, Callee, Operand, Type, vector, word
from loopir.codegen.llvm.values import Values
from loopir.ir.dtypes import bfloat16
from loopir.ir.grammar import Arg, Buffer, InstrCall, Int, Load
from loopir.ir.instr.llvm_text import intrinsic_call, read_operands, result_of
from loopir.ir.ops import Instruction


def issue_text(s: InstrCall, values: Values) -> None:
    """Load the operands that are read, call the function of the text, store what it returns."""
    places = dict(zip((a.buffer.name for a in s.fn.meaning.args), s.operands, strict=True))
    pitches = dict(s.words)
    read = [_loaded(a, places[a.buffer.name], pitches, values) for a in read_operands(s.fn.meaning)]
    result = result_of(s.fn.meaning)
    new = values.b.call(_function(s.fn, values), read)
    _store_result(result, places[result.buffer.name], pitches, new, values)


def _function(fn: Instruction, values: Values) -> Callee:
    """The function of the text, which the module has once."""
    result = _value_type(result_of(fn.meaning).buffer)
    given = {a.buffer.name: _value_type(a.buffer) for a in read_operands(fn.meaning)}
    label = f"instruction.{fn.name}"
    head = ", ".join(f"{kind.text} %{name}" for name, kind in given.items())
    needs = f" needs {' '.join(fn.needs)}" if fn.needs else ""
    text = (
        f"; instruction {fn.name}{needs}\n"
        f"define internal {result.text} @{label}({head}) alwaysinline nounwind {{\n"
        f"{_function_body(fn.llvm, given, result)}\n}}"
    )
    return values.b.module.defined(label, result, text)


def _function_body(spelling: str, given: dict[str, Type], result: Type) -> str:
    call = intrinsic_call(spelling)
    if call is None:
        return textwrap.indent(textwrap.dedent(spelling).strip("\n"), "  ")
    args = ", ".join(f"{given[x].text} %{x}" if x in given else x for x in call.args)
    return f"  %.r = call {result.text} @{call.name}({args})\n  ret {result.text} %.r"


def _element_type(b: Buffer) -> Type:
    return BFLOAT if b.dtype == bfloat16 else ops.memory_type(b.dtype)


def _shape(b: Buffer) -> tuple[int, ...]:
    return tuple(d.value for d in b.shape if isinstance(d, Int))


def _value_type(b: Buffer) -> Type:
    """The type of an operand's value: a vector of all elements, or a number."""
    return vector(_element_type(b), prod(_shape(b))) if b.shape else _element_type(b)


def _row_starts(a: Arg, at: Load, pitches: dict[str, int], values: Values) -> tuple[list[Operand], int]:
    """Where the rows of an operand start, and their length; rows that follow one another count as one."""
    start, shape = values.address(at.buffer, at.at[0], wide=bool(a.buffer.shape)), _shape(a.buffer)
    pitch = pitches.get(a.buffer.name)
    if len(shape) < 2 or pitch in (None, shape[-1]):
        return [start], prod(shape)
    kind = ops.memory_type(at.buffer.dtype)
    return [start, *(values.b.gep(kind, start, word(n * (pitch or 0))) for n in range(1, shape[0]))], shape[1]


def _loaded(a: Arg, at: Load, pitches: dict[str, int], values: Values) -> Operand:
    starts, length = _row_starts(a, at, pitches, values)
    kind, align = _element_type(a.buffer), a.buffer.dtype.bytes
    rows = [values.b.load(vector(kind, length) if a.buffer.shape else kind, x, align) for x in starts]
    whole = rows[0]
    for row in rows[1:]:
        whole = values.b.joined(whole, row)
    return whole


def _store_result(a: Arg, at: Load, pitches: dict[str, int], new: Operand, values: Values) -> None:
    starts, length = _row_starts(a, at, pitches, values)
    for n, start in enumerate(starts):
        row = new if len(starts) == 1 else values.b.shuffled(new, range(n * length, (n + 1) * length))
        values.b.store(row, start, a.buffer.dtype.bytes)
