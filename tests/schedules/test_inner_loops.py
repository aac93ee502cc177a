"""Stages inside loops that carry dependences: what is independent inside them runs by vectors."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.parser.parse import parse
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.inner_loops import inner_vectors

NESTS = {
    "LU": """
    for k in range({n}):
        for i in range({m} - k):
            A[k + 1 + i, k] = A[k + 1 + i, k] * A[k, k]
        for i1 in range({m} - k):
            for j in range({m} - k):
                A[k + 1 + i1, k + 1 + j] = A[k + 1 + i1, k + 1 + j] - A[k + 1 + i1, k] * A[k, k + 1 + j]
""",
    "Cholesky": """
    for i in range({n}):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] = A[i, j] * A[j, j]
""",
    "triangular product": """
    for i in range({n}):
        for j in range({n}):
            for k in range({m} - i):
                A[i, j] += B[i + 1 + k, i] * A[i + 1 + k, j]
            A[i, j] = 1.5 * A[i, j]
""",
    "sweep": """
    for t in range(3):
        for i in range({m}):
            for j in range({n}):
                A[i + 1, j] = A[i, j] + B[i, j]
""",
}


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(sorted(NESTS)), st.integers(1, 11), st.sampled_from((2, 4)))
def test_what_depends_on_its_order_keeps_it(name: str, n: int, lanes: int) -> None:
    text = f'def f(A: "inout float64[{n}, {n}]", B: "float64[{n}, {n}]"):' + NESTS[name].format(n=n, m=n - 1)
    s = lp.Schedule(parse(text))
    assert_equivalent(s, cpu(s, lanes))


@pytest.mark.parametrize("name", sorted(NESTS))
def test_the_inner_loops_are_vectors(name: str) -> None:
    s = cpu(
        lp.Schedule(parse('def f(A: "inout float64[64, 64]", B: "float64[64, 64]"):' + NESTS[name].format(n=64, m=63))),
        4,
    )
    assert any(s.loop(x).kind == "vectorize" for x in s.loops())


def test_a_column_that_is_no_run_of_memory_is_left_as_it_is() -> None:
    s = lp.Schedule(
        parse("""
def f(A: "inout float64[9, 9]"):
    for k in range(8):
        for i in range(9):
            A[i, k + 1] = A[i, k] * 2.0
""")
    )
    assert inner_vectors(s, "A", lanes=4).func is s.func
