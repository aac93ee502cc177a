"""s.validate() judges each output by itself: nothing that one proof assumed, or did not look at, serves another."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.analysis.dataflow.equivalence import Validation, validate


def compared(before: str, old: str, new: str) -> Validation:
    assert before.count(old) == 1
    return validate(lp.parse(before), lp.parse(before.replace(old, new)))


CHAIN = """
def f(n: "size", A: "float32[n]", X: "out float32[n]", Y: "out float32[n]", Z: "out float32[n]"):
    for i in range(n):
        X[i] = A[i] + 1.0
    for j in range(n):
        Y[j] = X[j] * 2.0
    for k in range(n):
        Z[k] = A[k] * 3.0
"""


def test_what_a_failed_proof_assumed_is_taken_back() -> None:
    found = compared(CHAIN, "+ 1.0", "+ 4.0")
    assert found.proved == ("Z",)
    assert [name for name, _ in found.unproved] == ["X", "Y"]


def test_an_output_that_is_right_is_proved_beside_one_that_is_not() -> None:
    found = compared(CHAIN, "* 2.0", "* 4.0")
    assert found.proved == ("X", "Z")
    assert found.wrong is not None
    assert found.wrong.buffer == "Y"


TWO_SIZES = """
def f(n: "size", m: "size", A: "float32[n, m]", X: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            X[i, j] = A[i, j] + 1.0
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('A: "float32[n, m]"', 'A: "float32[n, m + 1]"', "A has another shape"),
        ('A: "float32[n, m]"', 'B: "float32[n, m]"', "the arguments are others"),
        ('"size", A', '"size", B: "float32[n]", A', "the arguments are others"),
    ],
)
def test_arguments_are_the_same(old: str, new: str, why: str) -> None:
    after = lp.parse(TWO_SIZES.replace(old, new).replace("= A[", f"= {new[0] if new[1] == ':' else 'A'}["))
    found = validate(lp.parse(TWO_SIZES), after)
    assert found.proved == ()
    assert why in found.unproved[0][1]


def test_another_type_of_all_arguments_is_no_proof() -> None:
    text = TWO_SIZES.replace("+ 1.0", "+ A[i, j]")
    assert not validate(lp.parse(text), lp.parse(text.replace("float32", "float16")))
