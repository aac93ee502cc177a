"""Comparisons of numbers made of indices become conditions on indices where that is the same."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.arith.simplify_func import simplify_func
from loopir.ir.printer import text

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "bfloat16")
PROGRAM = """
def f(n: "size", A: "int32[12]", out: "out bool[12, 9]"):
    for i in range(12):
        for j in range(9):
            out[i, j] = {}
"""


@st.composite
def numbers(draw: st.DrawFn, kind: str, depth: int = 2) -> str:
    """A number of type `kind`, mostly made of `i` and `j`, which may wrap or be rounded."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        leaves = [f"{kind}({x} * {draw(st.sampled_from((1, -1, 3, 40, 400)))})" for x in "ij"]
        return draw(
            st.sampled_from([*leaves, f"{kind}({draw(st.integers(0, 100))})", f"{kind}(A[i])"][: 3 + (depth < 2)])
        )
    if draw(st.integers(0, 3)) == 0:
        return f"{kind}({draw(numbers(draw(st.sampled_from(TYPES)), depth - 1))})"
    operator = draw(st.sampled_from(["+", "-", "*"]))
    return f"({draw(numbers(kind, depth - 1))} {operator} {draw(numbers(kind, depth - 1))})"


@st.composite
def comparisons(draw: st.DrawFn, depth: int = 1) -> str:
    form = draw(st.integers(0, 5)) if depth else 0
    if form == 1:
        return f"({draw(comparisons(depth - 1))} {draw(st.sampled_from('&|'))} {draw(comparisons(depth - 1))})"
    if form == 2:
        return f"~{draw(comparisons(depth - 1))}"
    if form == 3:
        bound = draw(st.sampled_from((0, 1, 2)))
        return f"(select({draw(comparisons(depth - 1))}, float32(1.5), float32(0.5)) < float32({bound}))"
    kind = draw(st.sampled_from(TYPES))
    order = draw(st.sampled_from(["<", "<=", "==", "!="]))
    return f"({draw(numbers(kind))} {order} {draw(numbers(kind))})"


@settings(max_examples=100)
@given(comparisons())
def test_what_becomes_of_a_comparison_is_the_same_at_each_index(test: str) -> None:
    func = lp.parse(PROGRAM.format(test))
    given_ = [np.arange(12, dtype=np.int32) * 7 - 30]
    with np.errstate(all="ignore"):
        want, got = (lp.interpret(f, given_, sizes={"n": 3})["out"] for f in (func, simplify_func(func)))
    np.testing.assert_array_equal(got, want)
    assert simplify_func(simplify_func(func)) == simplify_func(func)


@pytest.mark.parametrize(("test", "made"), [
    ("int64(i) <= int64(j)", "i <= j"),
    ("int64(i) - int64(j) < int64(4)", "i - j < 4"),
    ("int32(i) // int32(4) == int32(j) // int32(4)", "i // 4 == j // 4"),
    ("int64(n) - int64(i) <= int64(j)", "n - i <= j"),
    ("(int64(i) <= int64(j)) & (A[i] == 3)", "i <= j and A[i] == 3"),
    ("float32(i) < float32(j)", "i < j"),
    ("select(int64(i) <= int64(j), float32(1.0), float32(0.0)) == float32(0.0)", "not i <= j"),
    ("int8(i * 100) < int8(j)", "int8(i * 100) < int8(j)"),
    ("uint8(i) - uint8(j) < uint8(4)", "uint8(i) - uint8(j) < 4"),
    ("int32(n) < int32(j)", "int32(n) < int32(j)"),
])  # fmt: skip
def test_a_comparison_becomes_one_of_indices_where_nothing_wraps(test: str, made: str) -> None:
    func = lp.parse(PROGRAM.format(f"select({test}, A[i] == 1, False)"))
    assert f"select({made}, A[i] == 1, False)" in text(simplify_func(func))
