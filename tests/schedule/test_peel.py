"""peel: iterations up to any index of sizes and loops around get a loop of their own, and mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.testing import assert_equivalent

TWO_LOOPS = """
def f(n: "size", m: "size", A: "float32[n, m]", d: "inout float32[n, m]", S: "out float32[n]"):
    for k in range(n):
        for i in range(m):
            d[k, i] = minimum(d[k, i], d[k, m - 1 - i] + A[k, i])
        for i1 in range(m):
            S[k] = sum(A[k, i1] * d[k, i1], over=i1, init=0.0)
"""


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(("i", "i1")),
    st.sampled_from(("k", "m - 2", "n", "k - n", "2 * k + 1", "m // 2", "min(k, m)", "m - k")),
    st.integers(0, 2),
)
def test_an_index_cuts_a_loop_anywhere(loop: str, first: str, last: int) -> None:
    s = lp.Schedule(lp.parse(TWO_LOOPS))
    if (why := s.why("peel", loop, first=first, last=last)) is not None:
        assert "all m iterations" in str(why)
        return
    made = s.peel(loop, first=first, last=last)
    assert_equivalent(s, made)


def test_loops_around_a_pivot_are_independent() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", d: "inout float32[n]"):
    for k in range(n):
        for i in range(n):
            d[i] = minimum(d[i], d[k] + 1.0)
""")
    )
    assert s.why("parallel", "i") is not None
    made = s.peel("i", first="k").peel("i", first=1)
    assert [made.why("parallel", made.loops(stage)[1]) for stage in made.stages] == [None] * 3


def test_a_loop_is_cut_at_an_index_only_where_its_parts_may_differ() -> None:
    """Lanes, unrolled loops and threads take the same parts together; a fold starts outside of the loops it is over."""
    s = Schedule(parse("""
def f(A: "float32[4, 6]", B: "out float32[4, 6]", S: "out float32[4, 6]"):
    for i in range(4):
        for j in range(6):
            B[i, j] = A[i, j] + 1.0
    for k in range(4):
        for q in range(6):
            S[0, q] = sum(A[k, q], over=k, init=0.0)
"""))  # fmt: skip
    for kind in ("unroll", "vectorize"):
        with pytest.raises(ScheduleError, match=f"'j', which is written as {kind}, would have no constant length"):
            getattr(s, kind)("j").peel("j", first="i")
    for bound in (s.bind("i", "threadIdx.x"), s.bind("i", "blockIdx.x")):
        with pytest.raises(ScheduleError, match="cut where 'i' tells, whose iterations run together"):
            bound.peel("j", first="i")
    with pytest.raises(ScheduleError, match="S starts outside of 'k', which would tell its elements inside"):
        s.peel("q", first="k")
    assert_equivalent(s.parallel("i").peel("j", first="i"), s)


def test_a_fold_of_threads_is_not_cut_where_they_tell() -> None:
    s = Schedule(parse("""
def scattered(A: "float32[3]", L: "int32[6]", S: "inout float32[4]"):
    for i in bind("threadIdx.x", 3):
        for j in range(3):
            S[L[0] % 4] = prod(A[i], over=(i, j))
"""))  # fmt: skip
    with pytest.raises(ScheduleError, match="cut where 'i' tells"):
        s.peel("j", first="i", last=1)
