"""Folds of two programs are matched, each with one of the other's, or the proof is refused."""

from __future__ import annotations

import pytest
from test_validate_outputs import compared

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate

EXTREME = """
def f(n: "size", A: "float32[n]", B: "float32[n]", V: "out float32[1]", I: "out int32[1]"):
    for i in range(n):
        V[0], I[0] = argmax(A[i], int32(i), over=i, init=(0.0, 9))
"""


def test_a_fold_of_two_values_begins_with_both() -> None:
    assert validate(lp.parse(EXTREME), lp.parse(EXTREME))
    found = compared(EXTREME, "(0.0, 9)", "(5.0, 9)")
    assert found.proved == ()
    assert found.wrong is not None


BETWEEN = """
def f(n: "size", A: "float32[n]", V: "out float32[1]", I: "out int32[1]"):
    V[0] = 0.0
    I[0] = 9
    for i in range(n):
        V[0], I[0] = argmax(A[i], int32(i), over=i)
        {between}
"""


@pytest.mark.parametrize("between", ['V[0]: "late" = 7.0', 'I[0]: "late" = 7', 'V[0]: "late" = max(3.0)'])
def test_neither_may_be_written_between_the_folds(between: str) -> None:
    found = validate(lp.parse(BETWEEN.format(between="")), lp.parse(BETWEEN.format(between=between)))
    assert found.proved == ()


PARTIAL = """
def f(A: "float32[8]", B: "float32[8]", V: "out float32[1]", I: "out int32[1]"):
    with alloc("float32[2]") as P, alloc("int32[2]") as Q, alloc("float32[2]") as R, alloc("int32[2]") as S:
        for b in range(2):
            for c in range(4):
                P[b], Q[b] = argmax(A[b * 4 + c], int32(b * 4 + c), over=c, init=(-inf, 2147483647))
            for d in range(4):
                R[b], S[b] = argmax(B[b * 4 + d], int32(b * 4 + d), over=d, init=(-inf, 2147483647))
        for e in range(2):
            V[0], I[0] = argmax({value}[e], {at}[e], over=e, init=(-inf, 2147483647))
"""


ALL = """
def f(A: "float32[8]", B: "float32[8]", V: "out float32[1]", I: "out int32[1]"):
    for i in range(8):
        V[0], I[0] = argmax(A[i], int32(i), over=i, init=(-inf, 2147483647))
"""


def test_partial_results_of_two_values_belong_together() -> None:
    assert validate(lp.parse(ALL), lp.parse(PARTIAL.format(value="P", at="Q")))
    for value, at in ("PS", "RQ", "RS"):
        assert not validate(lp.parse(ALL), lp.parse(PARTIAL.format(value=value, at=at))).proved
