"""Padding with the identity of a fold folds nothing in; another constant does."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate

PADDED = """
def padded(A: "float32[13]", B: "float32[13]", C: "out float32[1]"):
    for o in range(4):
        with alloc("float32[4]") as T, alloc("float32[4]") as U:
            for x in range(4):
                T[x] = select(o * 4 + x < 13, A[o * 4 + x], {first})
            for y in range(4):
                if o * 4 + y < 13:
                    U[y] = B[o * 4 + y]
                else:
                    U[y]: "rest" = {second}
            for i in range(4):
                C[0] = sum(T[i] * U[i], over=(o, i), init=0.0)
"""


DOT = """
def padded(A: "float32[13]", B: "float32[13]", C: "out float32[1]"):
    for i in range(13):
        C[0] = sum(A[i] * B[i], over=i, init=0.0)
"""


@pytest.mark.parametrize(("first", "second"), [("0.0", "0.0"), ("0.0", "2.0"), ("1.0", "0.0")])
def test_zeros_that_padding_folds_in_are_nothing(first: str, second: str) -> None:
    assert validate(lp.parse(DOT), lp.parse(PADDED.format(first=first, second=second)))


@pytest.mark.parametrize(("first", "second"), [("1.0", "1.0"), ("0.5", "2.0")])
def test_what_is_no_zero_is_not_left_out(first: str, second: str) -> None:
    assert not validate(lp.parse(DOT), lp.parse(PADDED.format(first=first, second=second)))
