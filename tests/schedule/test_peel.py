"""peel: iterations up to any index of sizes and loops around get a loop of their own, and mean the same."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

import loopir as lp
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
