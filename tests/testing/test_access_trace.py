"""The traced run: which accesses depend on one another, and in which order a step runs them."""

import loopir as lp
from loopir.testing.oracles.access_trace import Run, crossing, dependent, violated

PREFIX = lp.parse("""
def f(a: "inout float32[6]"):
    for i in range(5):
        a[i + 1] = a[i] + a[i + 1]
""")
APART = lp.parse("""
def f(A: "float32[5]", B: "out float32[5]"):
    for i in range(5):
        B[i] = A[i]
""")


def test_a_recurrence_crosses_its_loop_once_an_iteration() -> None:
    found = [*crossing(Run(PREFIX, {}).events, "i")]
    assert {(e.at()["i"], f.at()["i"]) for e, f in found} == {(i, i + 1) for i in range(4)}
    assert all(e.cell == f.cell and (e.write or f.write) for e, f in found)


def test_reductions_over_a_loop_around_start_in_nests_of_their_own() -> None:
    """Which run one after the other, whatever runs at once in each."""
    starts = lp.parse("""
def f(A: "float32[4]", b: "inout float32[2]"):
    for i in range(4):
        for j in range(2):
            b[j] = sum(A[i], over=i, init=0.0, label="up")
            b[1 - j] = max(A[i], over=i, init=1.0, label="down")
""")
    found = [*crossing(Run(starts, {}).events, "j")]
    assert found
    assert not any(e.init or f.init for e, f in found)


def test_elements_apart_do_not_depend() -> None:
    assert [*dependent(Run(APART, {}).events)] == []


def test_a_reversed_recurrence_violates_its_dependences_and_a_reversed_copy_none() -> None:
    backwards = lp.parse(lp.text(PREFIX).replace("a[i + 1]", "a[5 - i]").replace("a[i]", "a[4 - i]"))
    renamed = Run(backwards, {}).events
    moved = [e.__class__(e.label, e.init, tuple((v, 4 - x) for v, x in e.env), e.home, e.cell, e.write, e.fold, e.time)
             for e in renamed]  # fmt: skip
    assert [*violated(Run(PREFIX, {}).events, moved)]
    assert not [*violated(Run(PREFIX, {}).events, Run(PREFIX, {}).events)]
