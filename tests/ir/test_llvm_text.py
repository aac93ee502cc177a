"""What an LLVM spelling is, and what is none."""

import pytest

from loopir.ir.instr.llvm_text import IntrinsicCall, intrinsic_call, is_llvm_text, llvm_text_fault, read_operands
from loopir.ir.parser.parse import meaning

NEST = meaning('def f(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = A[i] * 2.0\n')


@pytest.mark.parametrize(
    ("spelling", "call"),
    [
        ("llvm.sqrt.v8f32(A)", ("llvm.sqrt.v8f32", ("A",))),
        (" llvm.fma.f32( A , B,C )\n", ("llvm.fma.f32", ("A", "B", "C"))),
        ("llvm.x(A, <4 x i8> zeroinitializer, i16 -1)", ("llvm.x", ("A", "<4 x i8> zeroinitializer", "i16 -1"))),
        ("llvm.x.y(A, <2 x i32> <i32 1, i32 2>)", ("llvm.x.y", ("A", "<2 x i32> <i32 1, i32 2>"))),
        ("llvm.x.y()", ("llvm.x.y", ())),
        ("%r = fadd float %A, %A\nret float %r", None),
        ("sqrt(A)", None),
    ],
)  # fmt: skip
def test_calls(spelling: str, call: tuple[str, tuple[str, ...]] | None) -> None:
    assert intrinsic_call(spelling) == (None if call is None else IntrinsicCall(*call))


def test_a_word_is_no_text() -> None:
    assert not is_llvm_text("stream")
    assert not is_llvm_text("")
    assert is_llvm_text("ret i32 0")


def test_operands_that_are_read_are_given() -> None:
    assert [a.buffer.name for a in read_operands(NEST)] == ["A"]
    assert llvm_text_fault("llvm.x(A, <2 x i32> <i32 1, i32 2>)", NEST) is None
    assert "'B', which is no operand that is read (A)" in str(llvm_text_fault("llvm.x(B)", NEST))
    assert "no typed constant, as i32 4" in str(llvm_text_fault("llvm.x(A, 4)", NEST))
    assert "nor the body of a function" in str(llvm_text_fault("%x = add i32 1, 2", NEST))
    assert llvm_text_fault("ret <8 x float> %A", NEST) is None
