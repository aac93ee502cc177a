"""specialize: both versions mean what the loop meant, and bad conditions are told what is wrong with them."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp

NEST = """
def f(n: "size", m: "size", A: "float32[n, m]", S: "out float32[n]"):
    for i in range(n):
        for k in range(m):
            S[i] = sum(A[i, k], over=k, init=0.0)
"""
CONDITIONS = ["n % 4 == 0", "m > 2 and n < 3", "n == m or m == 0", "i < 2", "i * 2 < n", "not i == 1"]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CONDITIONS), st.sampled_from("ik"), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_both_versions_mean_the_same(when: str, loop: str, n: int, m: int, split: bool) -> None:
    s = lp.Schedule(lp.parse(NEST))
    t = s.split("i", 4) if split else s
    if loop not in t.loops():
        loop = "i_o"
    if (error := t.why("specialize", loop, when)) is None:
        assert_same(s.func, t.specialize(loop, when).func, {"n": n, "m": m})
    else:
        assert "speaks of 'i'" in str(error) or "is no condition on n" in str(error)


@pytest.mark.parametrize(
    ("loop", "when", "message"),
    [
        ("i", "n +", "is no condition on n and m"),
        ("i", "n + 1", "is no condition on n and m"),
        ("i", "k == 0", "speaks of 'k', which stands inside"),
        ("i", "m >= 0", "0 <= m always holds where 'i' stands"),
        ("k", "i >= n", "n <= i never holds where 'k' stands"),
    ],
)
def test_refusals(loop: str, when: str, message: str) -> None:
    s = lp.Schedule(lp.parse(NEST))
    with pytest.raises(lp.ScheduleError, match=message):
        s.specialize(loop, when)


def test_a_part_of_a_fold_may_have_versions() -> None:
    """Each starts it from the same, before the first."""
    s = lp.Schedule(lp.parse(NEST)).split("k", 2)
    assert_same(s.func, s.specialize("k_i", "k_o == 0").func, {"n": 3, "m": 5})


@pytest.mark.parametrize(("init", "free"), [("T[0]", True), ("T[0] + 1.0", False), ("1.0", True)])
def test_a_fold_that_goes_on_in_two_versions_may_start_from_its_own_element(init: str, free: bool) -> None:
    s = lp.Schedule(
        lp.parse(f"""
def f(n: "size", A: "float32[n, n]", T: "inout float32[2]"):
    for i in range(n):
        for j in range(n):
            T[0] = sum(A[i, j], over=(i, j), init={init})
""")
    )
    for when, legal in (("n > 2", True), ("i < 2", free)):  # where i is asked, either version starts it
        error = s.why("specialize", "j", when)
        assert (error is None) == legal, error
        for n in range(5) if error is None else ():
            assert_same(s.func, s.specialize("j", when).func, {"n": n})
