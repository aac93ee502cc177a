"""What people write wrong first, and what they are told: a sentence with the cure, and never an error from inside."""

import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

n = lp.symbol("n")
A = lp.placeholder((n, 64), "float32", name="A")
B = lp.placeholder((64, 32), "float32", name="B")
E = lp.placeholder((8,), "float32", name="E")
I = lp.placeholder((n,), "int32", name="I")  # noqa: E741
k = lp.reduce_axis(64, name="k")
C = lp.compute((n, 32), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
S = lp.Schedule(C)
ONES = np.ones((4, 64), np.float32), np.ones((64, 32), np.float32)
NO_LOOP = "nothing here runs over {}; an index belongs to the function of its compute, a reduce_axis to a reduction"

MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lp.compute((n,), lambda i: A[i, k]), lp.ExprError, NO_LOOP.format("k")),
    (lambda: lp.compute((n,), lambda i: A[i, k], name="B"), lp.ExprError, NO_LOOP.format("k")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, k])), lp.ExprError, NO_LOOP.format("i and k")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, :])), lp.ExprError, NO_LOOP.format("i")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, 0], axis=i)), lp.ExprError, "sum over axis i of .* a reduce_axis"),
    (lambda: lp.sum(A, axis="k"), lp.ExprError, "an axis is a reduce_axis, or a dimension from -2 to 1"),
    (lambda: lp.compute((n, 64), lambda i: A[i, 0]), lp.ExprError, "compute: the shape has 2 dimensions, .* takes 1"),
    (lambda: lp.compute((n,), lambda i: A), lp.ExprError, "compute: the function gives A"),
    (lambda: list(A), TypeError, "no elements to go through"),
    (lambda: sum(A), TypeError, r"lp\.sum"),
    (lambda: lp.symbol(3), TypeError, "a size is named by a string"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.Schedule(np.ones((100, 100))), TypeError, "not of ndarray$"),  # pyright: ignore[reportArgumentType]
    (lambda: schedules.auto(A + 1.0, "llvm"), TypeError, r"takes a Schedule"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.func(lambda n: n), lp.ParseError, "a nest is a function written with def"),
    (lambda: lp.Schedule(A @ A.T).build("llvm")(), TypeError, "A is missing"),
    (lambda: lp.Schedule(A + lp.placeholder((64,), name="b")).build("llvm")(), TypeError, "A and b are missing"),
    # ---- Python and NumPy where an expression is
    (lambda: np.exp(A), TypeError, r"np\.exp takes arrays, and A .* is an expression: lp\.exp makes the expression"),
    (lambda: np.arctan2(A, A), TypeError, r"lp\.atan2 makes the expression"),
    (lambda: np.sum(A), TypeError, r"np\.sum takes arrays.*lp\.sum makes the expression"),
    (lambda: np.matmul(A, B), TypeError, r"lp\.matmul makes the expression"),
    (lambda: np.cbrt(A), TypeError, r"lp has no cbrt; see dir\(lp\)"),
    (lambda: lp.compute((n,), lambda i: np.exp(i)), TypeError, r"np\.exp of the index i: .* lp\.exp takes it"),
    (lambda: math.exp(A), TypeError, r"A .* has no value until its kernel is called; lp\.exp"),
    (lambda: float(A[0, 0]), TypeError, "has no value until its kernel is called"),
    (lambda: len(A), TypeError, r"the size of a dimension is \.shape\[0\]"),
    (lambda: [*range(n)], TypeError, r"n is no number until the kernel is called: range"),  # pyright: ignore
    (lambda: [0] * n, TypeError, "n is no number until the kernel is called"),  # pyright: ignore
    (lambda: A.__setitem__((0, 0), 1), TypeError, r"is not written to; lp\.compute and lp\.where make a new tensor"),
    (lambda: A + ONES[0], TypeError, r"an array \(numpy.ndarray\) is no tensor expression: declare it"),
    (lambda: ONES[0] + A, TypeError, r"an array \(numpy.ndarray\) is no tensor expression: declare it"),
    (lambda: A @ ONES[1], TypeError, r"lp\.placeholder\(shape, dtype, name=\.\.\.\), build with that"),
    (lambda: A + "x", TypeError, "'x', a str, is no tensor expression and no number"),
    (lambda: A + None, TypeError, "None is no tensor expression and no number"),
    # ---- conditions
    (lambda: 1 if A else 0, TypeError, r"use lp\.where\(cond, a, b\) for if, and & \| ~ for and, or, not"),
    (lambda: lp.compute((n, 64), lambda i, j: A[i, j] if A[i, j] > 0 else 0), TypeError, r"use lp\.where"),
    (lambda: lp.compute((n, 64), lambda i, j: A[i, j] if i > 0 else 0), TypeError, r"use lp\.where"),
    (lambda: lp.compute((n,), lambda i: lp.where(0 < i < 5, 1, 0)), TypeError, r"use lp\.where"),
    # ---- subscripts
    (lambda: A[0.5], TypeError, "is indexed by 0.5; use an integer, a slice, None or an integer tensor"),
    (lambda: lp.compute((n,), lambda i: A[i / 2, 0]), TypeError, "write // for /"),
    (lambda: A[0, 0, 0], lp.ExprError, "A .* has 2 dimensions, and is indexed by 3"),
    (lambda: A[0, 64], lp.ExprError, "index 64 is out of bounds for dimension 1 of A"),
    (lambda: lp.compute((8,), lambda i: E[i + 1], name="D"), lp.ExprError, r"D reads E\[i \+ 1\] outside: at i=7"),
    (lambda: lp.compute((n,), lambda i: A[i - 1, 0]), lp.ExprError, r"at i=0, index 0 is -1, and A has n there"),
    (lambda: lp.compute((n,), lambda i: A[i + 1, 0]), lp.ExprError, r"at i=n - 1, index 0 is n, .* lp\.where"),
    # ---- types, names, shapes
    (lambda: lp.placeholder((3,), "fp32", name="x"), TypeError, "'fp32' is not an element type of loopir; there are"),
    (
        lambda: lp.parse('def f(a: "int32[8]"):\n    for i in range(8):\n        a[i] = 1.5\n'),
        lp.ParseError,
        r"the literal 1.5 is no int32 \(<nest>, line 3\)",
    ),
    (lambda: I // 2**40, lp.ExprError, "is no int32, which a number takes from the tensor beside it"),
    (lambda: lp.Schedule(E + lp.placeholder((8,), name="E")), lp.ExprError, "two placeholders or sizes are called 'E'"),
    (
        lambda: lp.Schedule(A[:, 0] + lp.placeholder((lp.symbol("n", min=3),), name="y")),
        lp.ExprError,
        r'size \'n\' is declared twice, as lp.symbol\("n"\) and as lp.symbol\("n", min=3\)',
    ),
    (lambda: lp.placeholder(("n",), name="x"), lp.ExprError, "'n' is no size; .* made from lp.symbol"),
    (lambda: lp.placeholder((3,), name="for"), lp.ExprError, "'for' is no usable name"),
    (lambda: A + B, lp.ExprError, "add: A .* and B .* do not broadcast; sizes are equal or 1, from the right"),
    (lambda: A @ A, lp.ExprError, "matmul of A .* and A .*: the inner sizes differ"),
    (lambda: A.sum(axis=2), lp.ExprError, "sum over axis 2 of A .* a dimension from -2 to 1"),
    (lambda: lp.compute((n,), lambda i: None), TypeError, "a function that gives an element ends with return"),
    (lambda: lp.compute((n, 64), A), TypeError, "is no function; an element is given by one, as lambda i, j"),
    (lambda: lp.relu6, AttributeError, "loopir has no 'relu6'; did you mean relu or"),  # pyright: ignore
    # ---- steps
    (lambda: S.split("x", 4), lp.ScheduleError, "there is no loop 'x' in 'compute_C'; the loops there are i, j and k"),
    (lambda: S.split("i", "4"), TypeError, 'split: factor is int, not "4"'),  # pyright: ignore
    (lambda: S.split("i"), TypeError, "missing a required argument: 'factor'"),  # pyright: ignore
    (lambda: S.split("i", 4, tail="none"), lp.ScheduleError, 'tail is one of "guard"'),  # pyright: ignore
    (lambda: S.parallel("k"), lp.ScheduleError, r"C at \(i=0, j=0, k=0\) writes C\[0, 0\], which"),
    (lambda: S.vectorize("i"), lp.ScheduleError, r"instead: split\(\"i\", 8\) and vectorize the inner loop"),
    (lambda: S.compute_at("A", "i"), lp.ScheduleError, "there is no stage 'A' in 'compute_C'; its stages are C"),
    (lambda: S.rfactor("Q", "k"), lp.ScheduleError, "there is no stage 'Q'"),
    (lambda: lp.Schedule(E + 1.0).rfactor("out", "i"), lp.ScheduleError, "leave it: this program has no reduction"),
    (lambda: S.why("paralel", "i"), AttributeError, "did you mean parallel"),
    # ---- calls
    (lambda: S.build("gpu"), lp.TargetError, "there is no target 'gpu'; there are cuda, llvm, interpret and auto"),
    (lambda: S.build("interpret")(ONES[0].astype(float), ONES[1]), TypeError, "A holds float64, .* takes float32"),
    (lambda: S.build("interpret")(ONES[0], ONES[0]), ValueError, r"B has shape \(4, 64\), and the kernel takes"),
    (lambda: S.build("interpret")(ONES[0].T.copy().T, ONES[1]), ValueError, "pass a copy, as np.ascontiguousarray"),
    (lambda: S.build("interpret")(*ONES, out=ONES[0]), TypeError, "one array, not a tuple, is given"),
    (lambda: S.build("interpret")(ONES[0].tolist(), ONES[1]), TypeError, "A is a list; a kernel takes arrays"),
    (lambda: S.build("interpret")(ONES[0], b=ONES[1]), TypeError, "compute_C has no argument 'b'; it takes A, B"),
    # ---- habits from NumPy, torch and TVM
    (lambda: A.view(64, n), AttributeError, r"A float32\[n, 64\] has no 'view'; .reshape changes the shape"),
    (lambda: A.relu(), AttributeError, r"has no 'relu'; lp.relu is a function: lp.relu\(x\)"),
    (lambda: A.to("float16"), AttributeError, r"has no 'to'; .astype\(\"float32\"\) converts"),
    (lambda: A.numpy(), AttributeError, "it has no elements until its kernel is called"),
    (lambda: A.cuda(), AttributeError, r"lp.Schedule\(x\).build\(\"cuda\"\) is for the GPU"),
    (lambda: A.smu(), AttributeError, "has no 'smu'; did you mean lp.sum"),
    (lambda: C.op.axis, AttributeError, r"a step of a Schedule takes the name of a loop: s.split\(\"i\", 4\)"),
    (lambda: lp.cat([A, A]), AttributeError, "loopir has no 'cat'; lp.concatenate joins tensors"),
    (lambda: lp.float32, AttributeError, r"a type is named by a string: \"float32\""),
    (lambda: lp.max(A, B), lp.ExprError, "of two tensors lp.maximum is"),  # pyright: ignore[reportArgumentType]
    (lambda: A[A > 0], TypeError, r"an index is an integer; lp.where\(mask, a, b\) takes a mask"),
    (lambda: lp.placeholder((n * 2.5,), name="x"), TypeError, "n is an index, a whole number, and 2.5 is none"),
    (lambda: S.split(k, 4), TypeError, r'loops, stages and buffers go by name: "k"'),  # pyright: ignore
    (lambda: S.reorder(["i", "k"]), TypeError, r'written one by one: reorder\("i", "k"\)'),  # pyright: ignore
    (lambda: S.build("cpu"), lp.TargetError, "there is no target 'cpu'; .*; the CPU is llvm"),
    (lambda: S.build("interpret")(*ONES, out=(np.ones((4, 32)),)), TypeError, "make one of float32, which is filled"),
    (lambda: S.build("interpret")(ONES[0] * 1j, ONES[1]), TypeError, "complex.*copies of its .real and .imag"),
    # ---- nests
    (lambda: nest("b[i] = a[i][0]"), lp.ParseError, r"in one bracket: a\[i, j\], not a\[i\]\[j\] .*line 3"),
    (lambda: nest("b[i] = len(a)"), lp.ParseError, 'the size of a dimension is a parameter, n: "size".*line 3'),
    (lambda: nest("b[i // 2] = a[i / 2]"), lp.ParseError, r"write // for /; .*line 3"),
    (lambda: nest("b[i] = sqr(a[i])"), lp.ParseError, "'sqr' is no operation of one element; did you mean .*sqrt"),
    (lambda: nest("print(a[i])"), lp.ParseError, "a statement is a for, .*line 3"),
    (lambda: nest("b[i] = a[i]\n        ..."), lp.ParseError, r"lines that were left out of this text; lp\.text"),
]


def nest(statement: str) -> lp.Func:
    """A nest with this statement in a loop, on its third line."""
    return lp.parse(f'def f(a: "float32[8]", b: "out float32[8]"):\n    for i in range(8):\n        {statement}\n')


@pytest.mark.parametrize(("wrong", "error", "told"), MISTAKES, ids=[told[:40] for *_, told in MISTAKES])
def test_a_mistake_is_told(wrong: Callable[[], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        wrong()


def test_there_are_ninety_of_them() -> None:
    assert len(MISTAKES) >= 90


def test_where_chooses_in_a_nest_as_in_an_expression() -> None:
    assert nest("b[i] = lp.where(a[i] > 0.0, a[i], 0.0)") == nest("b[i] = select(a[i] > 0.0, a[i], 0.0)")


INSIDE = (
    "object has no attribute",
    "not supported between",
    "object is not",
    "unsupported operand",
    "ufunc",
    "NoneType",
)


@pytest.mark.parametrize(("wrong", "error", "told"), MISTAKES, ids=[told[:40] for *_, told in MISTAKES])
def test_what_is_told_is_a_sentence_that_the_code_of_the_user_ends_in(
    wrong: Callable[[], Any], error: type[Exception], told: str
) -> None:
    """No error of Python's from inside comes out, and the traceback begins with the line that was written."""
    with pytest.raises(error) as caught:
        wrong()
    assert not any(words in str(caught.value) for words in INSIDE)
    assert Path(__file__).name in {Path(f.filename).name for f in traceback.extract_tb(caught.tb)}


def test_who_calls_wrongly_is_told_how_a_call_is_written() -> None:
    with pytest.raises(ValueError, match="A has shape") as caught:
        S.build("interpret")(ONES[1], ONES[0])
    (note,) = caught.value.__notes__
    assert note == (
        "the call is compute_C(A: float32[n, 64], B: float32[64, 32]), in the order in which they were declared, "
        "and gives C: float32[n, 32]"
    )


def test_numbers_of_numpy_stand_on_the_left() -> None:
    x = np.arange(8, dtype=np.float32)
    assert np.array_equal(lp.Schedule(np.float32(2) * E).build("interpret")(x), 2 * x)
    assert np.array_equal(lp.Schedule(np.int64(3) < E).build("interpret")(x), x > 3)
    assert repr(np.int64(2) * n + np.int32(1)) == "n * 2 + 1"
    assert lp.Schedule(lp.compute(8, lambda i: E[np.int64(7) - i])).build("interpret")(x).tolist() == x[::-1].tolist()


def test_a_read_that_is_inside_at_some_sizes_or_under_a_guard_is_no_mistake() -> None:
    m = lp.symbol("m", min=0)
    lp.compute((n,), lambda i: A[i * 2, 0])
    lp.compute((8,), lambda i: lp.where(i < 7, E[i + 1], 0.0))
    lp.compute((m,), lambda i: E[i + 8])
