"""Stages whose blocks are made of folds that go on: others read a copy that is made at the end."""

from __future__ import annotations

from attention_programs import attention, blocked, exact

import loopir as lp


def test_a_stage_that_others_read_is_copied_for_them() -> None:
    s = blocked(lp.Schedule(attention(1, 8, 4)), 8, 4)
    t = s.rolling_update(("P", "L"), "jo")
    assert {"P", "P_1"} <= {*t.stages}
    assert exact(t, dict.fromkeys("QKV", (1, 8, 4))) == exact(s, dict.fromkeys("QKV", (1, 8, 4)))


def test_others_read_a_copy_of_what_is_made_of_a_stage_that_reads_the_fold() -> None:
    """Y is read outside and does not read M itself: X does."""
    program = """
def f(A: "float32[8]", T: "out float32[1]", Y: "out float32[8]"):
    with alloc("float32[1]") as M, alloc("float32[8]") as X:
        for jo in range(4):
            for j in range(2):
                M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
        for xo in range(4):
            for x in range(2):
                X[xo * 2 + x] = exp(A[xo * 2 + x] - M[0])
        for yo in range(4):
            for y in range(2):
                Y[yo * 2 + y] = X[yo * 2 + y] * 2.0
        for to in range(4):
            for t in range(2):
                T[0] = sum(Y[to * 2 + t], over=(to, t), init=0.0)
"""
    s = lp.Schedule(lp.parse(program))
    t = s.rolling_update(("X", "Y", "T"), "jo")
    assert exact(t, {"A": (8,)}) == exact(s, {"A": (8,)})
    assert len(t.loops("T")) == 2
    assert t.loops("T")[0] == "jo"
