"""A loop in parts: guards are decided in each, and folds start as they did."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same
from test_loop_steps import CONV, guards

from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule

PADDED = """
def f(n: "size", x: "float32[n]", w: "float32[3]", y: "out float32[n]"):
    for i in range(n):
        for u in range(3):
            y[i] = sum(select(1 <= i + {k}*u and i + {k}*u < n + 1, x[i + {k}*u - 1], 0.0) * w[u], over=u, init=0.0)
"""


@pytest.mark.parametrize("step", [1, 2, 3])
def test_in_the_edges_that_a_condition_makes_it_fails(step: int) -> None:
    s = Schedule(parse(PADDED.format(k=step)))
    after = s.partition("u")
    assert str(after).count("0.0 * w[") == 2
    assert "select" not in str(after)
    for n in range(9):
        assert_same(s.func, after.func, {"n": n})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-4, 6), st.booleans()), min_size=1, max_size=3), st.data())
def test_conditions_of_any_slope_turn_out_as_they_did(terms: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    tests = [f"{a} * i + {b * 2} {'<' if less else '<='} n" for a, b, less in terms]
    joined = data.draw(st.sampled_from([" and ", " or "])).join(tests)
    inner = data.draw(st.booleans())
    test = joined.replace("* i", "* (i + j)") if inner else joined
    source = f"""
def f(n: "size", x: "float32[10, 3]", y: "inout float32[10, 3]"):
    for i in range(10):
        for j in range(3):
            y[i, j] = select({test}, x[i, j], y[i, j] * 2.0)
            if {joined}:
                y[i, j]: "again" = y[i, j] + 1.0
"""
    s = Schedule(parse(source))
    if s.why("partition", "i") is None:
        for n in (0, 3, 7, 20):
            assert_same(s.func, s.partition("i").func, {"n": n})


def test_the_interior_of_a_padded_convolution_has_no_guard() -> None:
    """Inlined, the padding is a guard in the innermost loop; in the interior of both loops it is gone."""
    s = Schedule(parse(CONV)).compute_inline("P")
    assert guards(s.func, "x") == 1
    after = s.partition("y").partition("x")
    assert guards(after.func, "x") == 0
    assert "min" not in str(after).split("for y_last")[0].split("for x in")[1].split("\n")[0]
    assert str(after).count("A[y + k, x + h] * W[k, h]") == 1
    for n in (0, 1, 2, 3, 6):
        assert_same(s.func, after.func, {"n": n})


def test_a_guard_that_holds_everywhere_or_nowhere_leaves_one_loop() -> None:
    s = Schedule(
        parse("""
def f(n: "size", m: "size", A: "float32[n + m]", B: "out float32[n + m]"):
    for i in range(n + m):
        if i < n:
            B[i] = A[i]
    for j in range(n + m):
        if n <= j:
            B[j] = A[j] * 2.0
""")
    )
    after = s.partition("i").partition("j")
    assert str(after) == str(Schedule(parse("""
def f(n: "size", m: "size", A: "float32[n + m]", B: "out float32[n + m]"):
    for i in range(n):
        B[i] = A[i]
    for j in range(m):
        B[n + j] = A[n + j] * 2.0
""")))  # fmt: skip


def test_guards_on_what_does_not_move_in_steps_are_left_alone() -> None:
    s = Schedule(
        parse("""
def f(n: "size", ix: "int32[n]", A: "inout float32[n]"):
    for i in range(n):
        if i % 2 == 0 and ix[i] < 3 and i < ix[0]:
            A[i] = 1.0
        if i * i < n:
            A[i] = 2.0
""")
    )
    with pytest.raises(ScheduleError, match="no guard in 'i' changes at an iteration that is known"):
        s.partition("i")


def test_a_reduction_starts_where_a_guard_on_what_it_is_over_lets_nothing_be_folded() -> None:
    s = Schedule(
        parse("""
def f(n: "size", A: "float32[n]", S: "out float32[n]"):
    for i in range(n):
        for k in range(3):
            if k + i <= k + 2:
                S[i] = sum(A[i], over=k, init=7.0)
""")
    )
    for n in (0, 2, 5):
        assert_same(s.func, s.partition("i").func, {"n": n})


def test_a_fold_whose_element_comes_to_depend_on_a_loop_is_not_over_it_any_more() -> None:
    s = Schedule(
        parse("""
def f(n: "size", A: "float32[n, n]", S: "inout float32[2 * n]"):
    for i in range(n):
        for j in range(n + n):
            if i <= j and j < n:
                S[j] = sum(A[i, j], over=i)
""")
    )
    after = s.partition("j")
    assert "over" not in str(after)
    for n in (0, 1, 4):
        assert_same(s.func, after.func, {"n": n})
        assert_same(s.func, s.skew("i", "j").func, {"n": n})


def test_an_element_that_comes_to_speak_of_a_reduced_loop_by_the_width() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[8]", T: "inout float32[8]"):
    for i in range(5):
        for j in range(5 - i):
            for k in range(i + 1):
                T[j] = max(A[k], over=(i, k))
""")
    )
    assert_same(s.func, s.fuse("j", "k").func, {})
