"""Instructions of one's own that are spelt in LLVM's language: what they do, where they match, what is refused."""

from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.errors import CompileError, TargetError, VerifyError
from loopir.ir.ops import INSTRUCTIONS
from loopir.testing import check_instruction

NUMBERS = count()


def named(text: str) -> str:
    """A text with a name that no instruction has, for `NAME`."""
    return text.replace("NAME", f"own_{next(NUMBERS)}")


def root_of_eight(llvm: str, **how: Any) -> lp.Schedule:
    """A root of eight numbers by an instruction that is spelt so."""
    fn = lp.instruction(llvm=llvm, **how)(
        named('def NAME(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i])\n')
    )
    nest = 'def f(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i])\n'
    return lp.Schedule(lp.parse(nest)).tensorize("i", fn.name)


def test_an_intrinsic_is_called_where_the_nest_stands() -> None:
    s = root_of_eight("llvm.sqrt.v8f32(A)")
    x = np.arange(8, dtype=np.float32)
    kernel = s.build("llvm")
    assert "call <8 x float> @llvm.sqrt.v8f32" in kernel.source
    assert np.array_equal(kernel(x), np.sqrt(x))
    assert np.array_equal(s.build("interpret")(x), np.sqrt(x))


@pytest.mark.parametrize(
    ("llvm", "how", "error", "told"),
    [
        ("llvm.sqrt.v8f32(Q)", {}, VerifyError, "is given 'Q', which is no operand that is read .A. and no typed"),
        ("llvm.sqrt.v8f32(B)", {}, VerifyError, "is given 'B', which is no operand that is read .A."),
        ("%r = fadd <8 x float> %A, %A", {}, VerifyError, "neither a call, .* nor the body of a function, which ends"),
        ("sqrt", {}, VerifyError, "llvm='sqrt' is neither a call of an intrinsic nor a function's body"),
        ("llvm.sqrt.v8f32(A)", {"level": "warp"}, VerifyError, "a thread issues it, and no warp; leave level= out"),
        ("llvm.x86.sse9.root(A)", {}, CompileError, "text of own_.*: .* unknown intrinsic 'llvm.x86.sse9.root'"),
        ("ret <8 x float> %Q", {}, CompileError, "text of own_.*: .* use of undefined value '%Q'"),
        ("llvm.ctpop.v8i32(A)", {}, CompileError, "text of own_.*: .*invalid intrinsic signature"),
        ("llvm.sqrt.v8f32(A)", {"needs": "amx-cake"}, TargetError, "needs 'amx-cake', which is no feature of a CPU"),
        ("llvm.sqrt.v8f32(A)", {"needs": "vxe"}, TargetError, "needs 'vxe', which is no feature|needs vxe, which this"),
    ],
)
def test_what_is_no_spelling_is_refused(llvm: str, how: dict[str, str], error: type[Exception], told: str) -> None:
    before = set(INSTRUCTIONS)
    with pytest.raises(error, match=told):
        root_of_eight(llvm, **how).build("llvm")
    if error is VerifyError:
        assert set(INSTRUCTIONS) == before  # the name is free for the next attempt


def test_a_text_that_ends_llvms_process_does_not_end_this_one() -> None:
    wrong = '%r = call <8 x float> asm "cake $0", "=x"()\nret <8 x float> %r'
    with pytest.raises(CompileError, match="LLVM cannot compile the text of own_"):
        root_of_eight(wrong).build("llvm")


def test_an_operand_has_two_dimensions_at_most_and_one_is_written() -> None:
    deep = 'def NAME(A: "float32[2, 2, 2]", B: "out float32[2, 2, 2]"):\n    for i, j, k in grid(2, 2, 2):\n'
    with pytest.raises(VerifyError, match="a number, a row or a matrix, and A has more than 2 dimensions"):
        lp.instruction(llvm="llvm.sqrt.v8f32(A)")(named(f"{deep}        B[i, j, k] = sqrt(A[i, j, k])\n"))


def test_the_same_again_is_no_second_one() -> None:
    text = named('def NAME(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i])\n')
    first = lp.instruction(llvm="llvm.sqrt.v8f32(A)")(text)
    assert lp.instruction(llvm="llvm.sqrt.v8f32(A)")(text) is first
    with pytest.raises(ValueError, match="declared twice; give the other one another name"):
        lp.instruction(llvm="llvm.fabs.v8f32(A)")(text)


def test_a_kernel_runs_the_loops_where_checks_are_asked_for() -> None:
    s = root_of_eight("llvm.sqrt.v8f32(A)")
    with pytest.raises(lp.NanError):
        s.build("llvm", checks=True)(np.full(8, -1, np.float32))


OPERATIONS = {
    "float32": {"+": "fadd", "-": "fsub", "*": "fmul"},
    "float64": {"+": "fadd", "-": "fsub", "*": "fmul"},
    "int8": {"+": "add", "-": "sub", "*": "mul"},
    "uint16": {"+": "add", "-": "sub", "*": "mul"},
    "int64": {"+": "add", "-": "sub", "*": "mul"},
}
TYPES = {"float32": "float", "float64": "double", "int8": "i8", "uint16": "i16", "int64": "i64"}


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_random_instructions_do_what_they_mean(data: st.DataObject) -> None:
    """Rows and matrices of any length, anywhere in larger arrays, in either order of dimensions and loops; few, as each
    text is compiled in a process of its own first."""
    dtype = data.draw(st.sampled_from(sorted(OPERATIONS)))
    sign = data.draw(st.sampled_from("+-*"))
    shape = data.draw(st.sampled_from([(), (1,), (3,), (8,), (2, 4), (3, 5), (4, 1)]))
    fold = data.draw(st.booleans())
    width = int(np.prod(shape))
    kind = f"<{width} x {TYPES[dtype]}>" if shape else TYPES[dtype]
    add = OPERATIONS[dtype]["+"]
    end = f"%n = {add} {kind} %C, %r\nret {kind} %n" if fold else f"ret {kind} %r"
    llvm = f"%r = {OPERATIONS[dtype][sign]} {kind} %A, %B\n{end}"
    names = ["i", "j"][: len(shape)] or ["i"]
    extents = shape or (1,)
    at = ", ".join(names) if shape else "()"
    size = f"[{', '.join(map(str, shape))}]" if shape else ""
    loops = (
        f"    for {', '.join(names)} in grid({', '.join(map(str, extents))}):\n"
        if len(names) > 1
        else (f"    for {names[0]} in range({extents[0]}):\n")
    )
    fn = lp.instruction(llvm=llvm)(named(
        f'def NAME(A: "{dtype}{size}", B: "{dtype}{size}", C: "{"inout" if fold else "out"} {dtype}{size}"):\n{loops}'
        f"        C[{at}] {'+=' if fold else '='} A[{at}] {sign} B[{at}]\n"
    ))  # fmt: skip
    try:
        check_instruction(fn, examples=3, seed=data.draw(st.integers(0, 99)))
        room = [data.draw(st.integers(0, 3)) for _ in shape]
        first = [data.draw(st.integers(0, r)) for r in room]
        outer = ", ".join(["3", *(str(n + r) for n, r in zip(shape, room, strict=True))])
        where = ", ".join(["t", *(f"{v} + {f}" for v, f in zip(names, first, strict=False) if shape)])
        order = data.draw(st.permutations(list(zip(names, extents, strict=True))))
        nest = "".join(f"{'    ' * (n + 2)}for {v} in range({e}):\n" for n, (v, e) in enumerate(order))
        s = lp.Schedule(lp.parse(
            f'def f(A: "{dtype}[{outer}]", B: "{dtype}[{outer}]", C: "inout {dtype}[{outer}]"):\n'
            f"    for t in range(3):\n{nest}{'    ' * (len(order) + 2)}"
            f"C[{where}] {'+=' if fold else '='} A[{where}] {sign} B[{where}]\n"
        ))  # fmt: skip
        done = s.tensorize(order[0][0], fn.name)
        rng = np.random.default_rng(0)
        shape_of = tuple(n + r for n, r in zip((3, *shape), (0, *room), strict=True))
        given_ = [rng.integers(-9, 9, shape_of).astype(dtype) for _ in range(3)]
        wanted, got = ([x.copy() for x in given_] for _ in range(2))
        s.build("interpret")(*wanted)
        done.build("llvm")(*got)
        assert np.array_equal(wanted[2], got[2])
    finally:
        INSTRUCTIONS.pop(fn.name, None)


def test_a_wrong_spelling_is_found_and_told() -> None:
    fn = lp.instruction(llvm="%r = sub <4 x i32> %C, %A\nret <4 x i32> %r")(
        named('def NAME(A: "int32[4]", C: "inout int32[4]"):\n    for i in range(4):\n        C[i] += A[i]\n')
    )
    with pytest.raises(AssertionError, match=rf"{fn.name}: C\[0\] is -?\d+, and by its meaning -?\d+") as told:
        check_instruction(fn)
    assert "its operands were\n    A = [" in str(told.value)


def test_an_approximation_is_right_to_so_many_units() -> None:
    """Three digits of a root, by dropping bits."""
    fn = lp.instruction(
        llvm="""
        %r = call <4 x float> @llvm.sqrt.v4f32(<4 x float> %A)
        %b = bitcast <4 x float> %r to <4 x i32>
        %c = and <4 x i32> %b, splat (i32 -8)
        %s = bitcast <4 x i32> %c to <4 x float>
        %n = fcmp uno <4 x float> %r, %r
        %t = select <4 x i1> %n, <4 x float> %r, <4 x float> %s
        ret <4 x float> %t
        """
    )(named('def NAME(A: "float32[4]", B: "out float32[4]"):\n    for i in range(4):\n        B[i] = sqrt(A[i])\n'))
    check_instruction(fn, ulps=8)
    with pytest.raises(AssertionError, match="is "):
        check_instruction(fn, ulps=1)


def test_only_texts_are_checked() -> None:
    with pytest.raises(ValueError, match="stream_8_float32 has no LLVM text as its llvm="):
        check_instruction("stream_8_float32")


def test_conditions_are_part_of_a_meaning() -> None:
    fn = lp.instruction(llvm="""
        %r = fcmp olt <8 x float> %A, zeroinitializer
        %s = select <8 x i1> %r, <8 x float> zeroinitializer, <8 x float> %A
        ret <8 x float> %s
    """)(named("""
def NAME(A: "float32[8]", C: "out float32[8]"):
    for i in range(8):
        C[i] = select(A[i] < 0.0, 0.0, A[i])
"""))  # fmt: skip
    check_instruction(fn)
    nest = 'def f(A: "float32[8]", C: "out float32[8]"):\n    for i in range(8):\n        C[i] = {}\n'
    s = lp.Schedule(lp.parse(nest.format("select(A[i] < 0.0, 0.0, A[i])"))).tensorize("i", fn.name)
    x = np.arange(-4, 4).astype(np.float32)
    assert np.array_equal(s.build("llvm")(x), np.maximum(x, 0))
    for other in ("select(A[i] > 0.0, 0.0, A[i])", "select(A[i] < 1.0, 0.0, A[i])", "select(A[i] < 0.0, A[i], 0.0)"):
        assert lp.Schedule(lp.parse(nest.format(other))).why("tensorize", "i", fn.name) is not None


def test_memory_of_one_type_for_another_is_told() -> None:
    fn = root_of_eight("llvm.sqrt.v8f32(A)").instructions[0]
    nest = 'def f(A: "float64[8]", B: "out float64[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i])\n'
    told = str(lp.Schedule(lp.parse(nest)).why("tensorize", "i", fn))
    assert "its operand B is float32, and B is float64" in told


def test_elements_that_do_not_follow_one_another_are_told() -> None:
    fn = root_of_eight("llvm.sqrt.v8f32(A)").instructions[0]
    nest = 'def f(A: "float32[8, 3]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i, 1])\n'
    told = str(lp.Schedule(lp.parse(nest)).why("tensorize", "i", fn))
    assert "its elements along dimension 0 do not follow one another" in told


def test_an_instruction_of_both_targets_has_aligned_operands() -> None:
    """A GPU loads what the text asks for as one vector."""
    text = 'def NAME(A: "float32[4]", B: "out float32[4]"):\n    for i in range(4):\n        B[i] = A[i] * 2.0\n'
    llvm = "%r = fadd <4 x float> %A, %A\nret <4 x float> %r"
    cuda = "*(float4*){B} = twice(*(const float4*){A});"
    with pytest.raises(VerifyError, match="the addresses of A do not tell where all of it is"):
        lp.instruction(llvm=llvm, cuda=cuda)(named(text))
    run = lp.Pointer((0,), run=4)
    fn = lp.instruction(llvm=llvm, cuda=cuda, at={"A": run, "B": run})(named(text))
    check_instruction(fn, examples=5)
    nest = 'def f(A: "float32[9]", B: "out float32[8]"):\n    for i in range(4):\n        B[i] = A[i + {}] * 2.0\n'
    assert lp.Schedule(lp.parse(nest.format(4))).why("tensorize", "i", fn.name) is None
    assert "no multiple of 4" in str(lp.Schedule(lp.parse(nest.format(1))).why("tensorize", "i", fn.name))


def test_both_targets_of_a_matrix() -> None:
    head = 'def NAME(A: "float32[2, 4]", B: "out float32[2, 4]"):'
    text = f"{head}\n    for i, j in grid(2, 4):\n        B[i, j] = A[i, j] * 2.0\n"
    rows = lp.Pointer((0, 0), run=4, rows=True)
    llvm = "%r = fadd <8 x float> %A, %A\nret <8 x float> %r"
    check_instruction(
        lp.instruction(llvm=llvm, cuda="twice({A}, {B});", at={"A": rows, "B": rows})(named(text)), examples=5
    )
