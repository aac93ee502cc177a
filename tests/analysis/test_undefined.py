"""Uses of memory that nothing has written, which are a difference although the value is lost."""

from __future__ import annotations

from test_validate_outputs import compared

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate

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
