"""Read the LLVM spelling of an instruction: a call of an intrinsic, or the body of a function.

    llvm.x86.avx512.vpdpbusd.512(C, A, B)            a call; its value is the new one of the operand that is written
    %r = fmul <8 x float> %A, %B  ret <8 x float> %r  a body, in which %A is the value of operand A

Anything else is a word that `loopir.codegen.llvm.issue` knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from loopir.ir.grammar import Arg, Func, Reduce, Store
from loopir.ir.instr.match_nest import perfect_nest

_CALL = re.compile(r"\s*(llvm(?:\.\w+)+)\s*\(([^()]*)\)\s*")
_TYPED = re.compile(r"(?:i\d+|half|bfloat|float|double|<\d+ x \w+>) (?:[^\s,<]+|<[^<>]*>)")
_RETURN = re.compile(r"(?m)^\s*ret\s")
MAX_RANK = 2
"""Dimensions of an operand at most: a row, or rows of a matrix."""


@dataclass(frozen=True, slots=True)
class IntrinsicCall:
    """A call of an LLVM intrinsic. An argument is an operand's name, or a typed constant such as `i32 4`."""

    name: str
    args: tuple[str, ...]


def is_llvm_text(spelling: str) -> bool:
    """Whether a spelling is a text in LLVM's language, and no word of loopir's."""
    return bool(spelling) and not spelling.isidentifier()


@lru_cache(maxsize=256)
def intrinsic_call(spelling: str) -> IntrinsicCall | None:
    """The call that a spelling is; None if it is the body of a function."""
    found = _CALL.fullmatch(spelling)
    if found is None:
        return None
    args = _split_arguments(found[2])
    return IntrinsicCall(found[1], tuple(args))


def _split_arguments(text: str) -> list[str]:
    return [x.strip() for x in re.split(r",(?![^<]*>)", text) if x.strip()]


def result_of(meaning: Func) -> Arg:
    """The operand that an instruction with an LLVM text writes."""
    _, stmt = perfect_nest(meaning.body)
    assert isinstance(stmt, Store | Reduce)
    return next(a for a in meaning.args if a.buffer == next(iter(stmt.buffers)))


def read_operands(meaning: Func) -> tuple[Arg, ...]:
    """The operands whose values an LLVM text is given, in order."""
    return tuple(a for a in meaning.args if a.access != "out")


def llvm_text_fault(spelling: str, meaning: Func) -> str | None:
    """What is wrong with a text as the spelling of an instruction with this meaning; None if nothing is."""
    _, stmt = perfect_nest(meaning.body)
    if isinstance(stmt, Store | Reduce) and len(tuple(stmt.buffers)) > 1:
        return "an LLVM text gives one value, and this writes several operands; write an instruction for each"
    if deep := next((a.buffer.name for a in meaning.args if len(a.buffer.shape) > MAX_RANK), None):
        return f"an operand of an LLVM text is a number, a row or a matrix, and {deep} has more than 2 dimensions"
    known = [a.buffer.name for a in read_operands(meaning)]
    call = intrinsic_call(spelling)
    if call is not None:
        odd = next((x for x in call.args if x not in known and not _TYPED.fullmatch(x)), None)
        read = f"no operand that is read ({', '.join(known) or 'none'})"
        return odd and f"{call.name} is given {odd!r}, which is {read} and no typed constant, as i32 4"
    if _RETURN.search(spelling) is None:
        return (
            "its LLVM text is neither a call, as llvm.fma.v8f32(A, B, C), nor the body of a function, which ends in "
            "ret with the new value of the operand that is written"
        )
    return None
