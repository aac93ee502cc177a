"""partition where a guard speaks of quotients and remainders of a loop inside: they are bounded, and it settles."""

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.testing import assert_equivalent


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(("//", "%")),
    st.integers(1, 5),
    st.integers(-3, 3),
    st.integers(-3, 3).filter(bool),
    st.integers(1, 7),
    st.integers(-9, 12),
)
def test_guards_of_digits_of_an_inner_loop_settle(
    sign: str, by: int, scale: int, slope: int, length: int, end: int
) -> None:
    s = lp.Schedule(
        lp.parse(f"""
def f(A: "float32[9, {length}]", B: "inout float32[9, {length}]"):
    for i in range(9):
        for j in range({length}):
            B[i, j] = select(i * {slope} + j {sign} {by} * {scale} < {end}, A[i, j], B[i, j] * 2.0)
""")
    )
    if s.why("partition", "i") is None:
        assert_equivalent(s, s.partition("i"))


def test_the_interior_of_an_upsampling_chooses_nothing() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[16]", B: "out float32[32]"):
    for i in range(4):
        for j in vectorize(8):
            B[i * 8 + j] = A[i * 4 + j // 2] + select(i * 4 + j // 2 < 15, A[i * 4 + j // 2 + 1], 0.0)
""")
    )
    made = s.partition("i")
    assert "select(" not in lp.text(made.loop("i"))
    assert made.last.loops == ("i_last", "j_1")
    assert_equivalent(s, made)
