"""What `explain` says of a loop: its dependences with examples, its steps, and what it may be made."""

import pytest

import loopir as lp

SWEEP = """
def f(n: "size", m: "size", a: "float32[n, m]", b: "out float32[n]"):
    for i in range(n - 1):
        for j in range(m - 1):
            a[i + 1, j] = a[i, j + 1] + float32(1.0)
    for r in range(n):
        for c in range(m):
            b[r] = sum(a[r, c], over=c, init=0.0)
"""


def test_a_loop_says_what_it_carries_and_why_it_cannot_be_parallel() -> None:
    told = lp.Schedule(lp.parse(SWEEP)).explain("i")
    (carried,) = told.carried
    assert (carried.witness.kind, carried.witness.first["i"], carried.witness.second["i"]) == ("RAW", 0, 1)
    assert told.refusals["parallel"] is not None
    assert str(told).splitlines() == [
        "i: n - 1 iterations, serial, around a",
        "carries",
        "  RAW on a: a at (i=0, j=1) writes a[1, 1], which a at (i=1, j=0) reads later (at n=3, m=3)",
        "one iteration on",
        "  reads a[i, j + 1] m elements on",
        "  writes a[i + 1, j] m elements on",
        "parallel: iterations of 'i' are not independent",
        "vectorize: 'i' would have n - 1 lanes; a constant from 1 to 64 is possible",
    ]
    assert "<svg" in told._repr_html_()


def test_a_free_loop_says_so_and_folds_are_told_apart() -> None:
    s = lp.Schedule(lp.parse(SWEEP))
    free, fold = s.explain("r"), s.explain("c")
    assert not free.carried
    assert free.refusals["parallel"] is None
    assert fold.refusals['reorder("c", "r")'] is None
    assert all(c.fold for c in fold.carried)
    assert "whose order is free" in str(fold)
    assert "writes b[r] again" in str(fold)


def test_a_loop_that_is_not_there_is_refused() -> None:
    with pytest.raises(lp.ScheduleError, match="no loop"):
        lp.Schedule(lp.parse(SWEEP)).explain("z")
