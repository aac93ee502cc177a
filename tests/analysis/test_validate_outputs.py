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


@pytest.mark.parametrize("least", [50, 333, 4000])
def test_a_difference_that_begins_late_is_met(least: int) -> None:
    found = compared(CHAIN, "A[i] + 1.0", f"A[i] + select(i < {least}, 1.0, 2.0)")
    assert found.proved == ("Z",)
    assert found.wrong is not None
    assert (found.wrong.buffer, found.wrong.element) == ("X", (least,))


TWO_SIZES = """
def f(n: "size", m: "size", A: "float32[n, m]", X: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            X[i, j] = A[i, j] + 1.0
"""


def test_a_difference_far_out_along_one_of_two_sizes_is_met() -> None:
    found = compared(TWO_SIZES, "+ 1.0", "+ select(j < 700, 1.0, 2.0)")
    assert found.wrong is not None
    assert found.wrong.element == (0, 700)


DEAD = """
def f(n: "size", A: "float32[n]", X: "out float32[n]"):
    with alloc("float32[n]") as T:
        for i in range(n):
            X[i] = A[i] + 1.0
"""


def test_a_use_of_memory_that_nothing_has_written_is_seen_where_the_value_is_lost() -> None:
    found = compared(DEAD, "            X[i] =", '            X[i]: "lost" = T[i] * 2.0\n            X[i] =')
    assert found.proved == ()
    assert found.unproved == (("X", "lost uses T[0], which nothing has written (at n=1)"),)
    assert found.wrong is not None


def test_so_is_a_use_by_way_of_copies() -> None:
    lost = '            X[i]: "copy" = T[i]\n            X[i]: "lost" = X[i] + 1.0\n            X[i] ='
    found = compared(DEAD, "            X[i] =", lost)
    assert found.proved == ()
    assert "lost uses X[0]" in found.unproved[0][1]


def test_a_copy_of_it_that_is_lost_is_no_use() -> None:
    assert compared(DEAD, "            X[i] =", '            X[i]: "copy" = T[i]\n            X[i] =')


def test_a_fold_into_memory_that_nothing_has_written_is_seen() -> None:
    found = compared(DEAD, "            X[i] =", '            T[i]: "lost" = sum(A[i])\n            X[i] =')
    assert found.proved == ()
    assert "lost uses T[0]" in found.unproved[0][1]


def test_what_no_branch_takes_is_no_use() -> None:
    old = "X[i] = A[i] + 1.0"
    assert compared(DEAD, old, "X[i] = select(i < n, A[i] + 1.0, T[i] * 2.0)")
    assert not compared(DEAD, old, "X[i] = select(i < n - 1, A[i] + 1.0, T[i] * 2.0)")


PARTLY = """
def f(n: "size", A: "float32[n]", X: "out float32[n]"):
    with alloc("float32[n]") as T:
        for i in range(n - 1):
            T[i] = A[i] + 1.0
        for j in range(n):
            X[j] = T[j] * 2.0
"""


def test_a_program_that_means_nothing_may_become_another() -> None:
    """Whatever n is but 0, the first one uses what nothing has written."""
    assert validate(lp.parse(PARTLY), lp.parse(PARTLY))


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
