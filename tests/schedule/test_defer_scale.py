"""defer_scale: the same to the bit, whatever the scale rounds; and refused where it would not be."""

import numpy as np
import pytest

import loopir as lp

ROWS = """
def f(A: "float32[5, 9]", B: "out float32[5, 9]"):
    with alloc("float32[5, 9]") as X, alloc("float32[5]") as M:
        for i in range(5):
            for j in range(9):
                X[i, j] = {x}
        for i_1 in range(5):
            for j_1 in range(9):
                M[i_1] = {fold}(X[i_1, j_1]{by}, over=j_1, init={start})
        for i_2 in range(5):
            for j_2 in range(9):
                B[i_2, j_2] = exp(X[i_2, j_2] - M[i_2])
"""


def rows(x: str, fold: str = "max", by: str = "", start: str = "-inf") -> lp.Schedule:
    return lp.Schedule(lp.parse(ROWS.format(x=x, fold=fold, by=by, start=start)))


def same(s: lp.Schedule, t: lp.Schedule) -> None:
    a = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
    a[0], a[1, 3], a[2, 4], a[3] = 1e38, np.inf, np.nan, -0.0
    one, other = (x.build("interpret")(a) for x in (s, t))
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("scale", ["0.08838834764831845", "3e-39", "7.1e10"])
@pytest.mark.parametrize("x", ["A[i, j] * {}", "{} * A[i, j]", "select(j <= i, A[i, j] * {}, -inf)"])
def test_a_product_is_left_to_its_readers_and_to_those_of_its_maximum(x: str, scale: str) -> None:
    s = rows(x.format(scale))
    t = s.defer_scale("X").defer_scale("M")
    assert "exp(X[i_2, j_2] * " in str(t)
    assert " - M[i_2] * " in str(t)
    same(s, t)


@pytest.mark.parametrize(("fold", "start"), [("min", "inf"), ("max", "0.0")])
def test_any_extreme_from_a_start_that_has_no_scale(fold: str, start: str) -> None:
    s = rows("A[i, j]", fold, " * 0.3", start)
    same(s, s.defer_scale("M"))


@pytest.mark.parametrize(
    ("x", "fold", "by", "start", "stage", "why"),
    [
        ("A[i, j] * 0.5", "max", " * 0.3", "1.0", "M", "starts from what is neither 0 nor infinite"),
        ("A[i, j] * 0.0", "max", "", "-inf", "X", "no positive constant"),
        ("select(j <= i, A[i, j] * 0.5, -1e30)", "max", "", "-inf", "X", "no positive constant"),
        ("select(j <= i, A[i, j] * 0.5, A[i, 0] * 0.3)", "max", "", "-inf", "X", "no positive constant"),
        ("A[i, j] / 0.5", "max", "", "-inf", "X", "no positive constant"),
        ("A[i, j] * 0.5", "sum", " * 0.3", "0.0", "M", "rounded otherwise"),
    ],
)
def test_what_would_not_be_the_same_is_refused(x: str, fold: str, by: str, start: str, stage: str, why: str) -> None:
    with pytest.raises(lp.ScheduleError, match=why):
        rows(x, fold, by, start).defer_scale(stage)


TWICE = """
def f(A: "float32[8]", B: "out float32[8]"):
    with alloc("float32[8]") as T:
        for i in range(8):
            T[i] = A[i] * 0.5
        for k in range(8):
            T[k]: "again" = {again}
        for j in range(8):
            B[j] = T[j]
"""


@pytest.mark.parametrize(("stage", "again"), [("T", "A[k]"), ("again", "T[k] * 0.5")])
def test_a_buffer_of_two_stages_keeps_its_scale(stage: str, again: str) -> None:
    with pytest.raises(lp.ScheduleError, match="also stores into T"):
        lp.Schedule(lp.parse(TWICE.format(again=again))).defer_scale(stage)
