"""factor_out: exact over the field, past a stage, and refused where sums of nothing or early readers would differ."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from meaning import assert_same

import loopir as lp
from loopir.schedule.core.trace import Step
from loopir.testing.legality import verdict

SUM = """
def f(A: "float32[3, 8]", V: "float32[8]", L: "float32[3]", S: "out float32[3]"):
    for i in range(3):
        for j in range(8):
            S[i] = sum({}, over=j, init=0.0)
"""
STAGED = """
def f(A: "float32[3, 8]", V: "float32[8]", L: "float32[3]", S: "out float32[3]"{more}):
    with alloc("float32[3, 8]") as P:
        for i in range(3):
            for j in range(8):
                P[i, j] = {stored}
{between}        for i_1 in range(3):
            for k in range(8):
                S[i_1] = sum({term}, over=k, init=0.0)
{after}"""


@pytest.mark.parametrize(
    ("term", "left"),
    [
        ("A[i, j] * L[i]", "A[i, j]"),
        ("A[i, j] * V[j] / L[i]", "A[i, j] * V[j]"),
        ("L[i] / A[i, j] * exp(L[i])", "1.0 / A[i, j]"),
        ("A[i, j] / (L[i] + 1.0) / V[j]", "A[i, j] / V[j]"),
    ],
)
def test_what_all_terms_share_leaves_the_sum(term: str, left: str) -> None:
    s = lp.Schedule(lp.parse(SUM.format(term)))
    t = s.factor_out("S")
    assert f"sum({left}, over=j" in str(t)
    assert_same(s.func, t.func, {})


@pytest.mark.parametrize("term", ["A[i, j] / L[i]", "A[i, j] * L[i]"])
def test_brute_force_takes_it_for_legal(term: str) -> None:
    assert verdict(lp.parse(SUM.format(term)), Step("factor_out", ("S",), ())) == ("accepted", "")


INSIDE = """
def f(A: "float32[3, 8]", V: "float32[8]", L: "inout float32[3]", S: "out float32[3]"):
    for i in range(3):
        for j in range(8):
{before}            with alloc("float32[1]") as P:
                P[0] = A[i, j] / {by}
                S[i] = sum(P[0] * V[j], over=j, init=0.0)
"""


def test_past_a_stage_in_the_nest_of_the_sum() -> None:
    s = lp.Schedule(lp.parse(INSIDE.format(before="", by="L[i]")))
    t = s.factor_out("S")
    assert "P[0] = A[i, j]\n" in str(t)
    assert_same(s.func, t.func, {})


def test_a_factor_that_changes_in_the_nest_of_the_sum_stays() -> None:
    s = lp.Schedule(lp.parse(INSIDE.format(before="            L[i] = V[j]\n", by="L[i]")))
    with pytest.raises(lp.ScheduleError, match="no factor that is the same"):
        s.factor_out("S")


STAYING = """
def f(A: "float32[8]", L: "float32[3]", S: "out float32[3]"):
    with alloc("float32[8]") as P:
        for i in range(3):
            for j in range(8):
                if {when}:
                    P[j] = A[j] / L[i]
            for k in range(8):
                S[i] = sum(P[k], over=k, init=0.0)
"""


def test_a_stage_that_is_left_from_another_iteration_keeps_its_factor() -> None:
    s = lp.Schedule(lp.parse(STAYING.format(when="i == 0")))
    with pytest.raises(lp.ScheduleError, match="no factor that is the same"):
        s.factor_out("S")
    s = lp.Schedule(lp.parse(STAYING.format(when="i + j < 12")))
    assert_same(s.func, s.factor_out("S").func, {})


def test_a_factor_that_the_element_tells_leaves_a_stage_of_another_iteration() -> None:
    text = """
def f(A: "float32[3, 8]", L: "float32[3]", S: "out float32[3]"):
    with alloc("float32[3, 8]") as P:
        for t in range(4):
            for i in range(3):
                if i == t:
                    for j in range(8):
                        P[i, j] = A[i, j] / L[i]
            if 1 <= t:
                for k in range(8):
                    S[t - 1] = sum(P[t - 1, k], over=k, init=0.0)
"""
    s = lp.Schedule(lp.parse(text))
    assert_same(s.func, s.factor_out("S").func, {})


def test_a_factor_that_is_allocated_in_the_nest_of_the_sum_stays() -> None:
    text = """
def f(A: "float32[3, 8]", V: "float32[8]", S: "out float32[3]"):
    for i in range(3):
        for j in range(8):
            with alloc("float32[1]") as T, alloc("float32[1]") as P:
                T[0] = V[j]
                P[0] = A[i, j] / T[0]
                S[i] = sum(P[0], over=j, init=0.0)
"""
    with pytest.raises(lp.ScheduleError, match="no factor that is the same"):
        lp.Schedule(lp.parse(text)).factor_out("S")


@pytest.mark.parametrize("stored", ["A[i, j] / L[i]", "exp(A[i, j]) * (1.0 / L[i])", "V[j] * (A[i, j] * L[i])"])
def test_past_the_stage_that_the_sum_reads(stored: str) -> None:
    s = lp.Schedule(lp.parse(STAGED.format(more="", stored=stored, between="", term="P[i_1, k] * V[k]", after="")))
    t = s.factor_out("S")
    assert "L[" not in str(t).split("S[i_1] =")[0].split("as P:")[1]
    assert_same(s.func, t.func, {})


@pytest.mark.parametrize(
    ("stored", "term", "more", "between", "after"),
    [
        ("A[i, j] / L[i]", "P[i_1, k] * P[i_1, k]", "", "", ""),
        ("A[i, j] / L[i]", "P[k % 3, k]", "", "", ""),
        ("A[i, j] / L[i]", "P[i_1, k]", ', Y: "out float32[1]"', "", "        Y[0] = P[0, 0]\n"),
        ("A[i, j] / L[i]", "P[i_1, k] + 1.0", "", "", ""),
    ],
)
def test_a_stage_that_others_read_or_that_is_no_factor_keeps_its_own(
    stored: str, term: str, more: str, between: str, after: str
) -> None:
    text = STAGED.format(more=more, stored=stored, between=between, term=term, after=after)
    with pytest.raises(lp.ScheduleError, match="no factor that is the same"):
        lp.Schedule(lp.parse(text)).factor_out("S")


REFUSED = {
    "guarded": (
        """
def f(A: "float32[8]", L: "float32[1]", S: "out float32[1]"):
    for j in range(8):
        if 3 <= j:
            S[0] = sum(A[j] * L[0], over=j, init=0.0)
""",
        "may have no terms",
    ),
    "a maximum": (
        """
def f(A: "float32[8]", L: "float32[1]", S: "out float32[1]"):
    for j in range(8):
        S[0] = max(A[j] * L[0], over=j, init=-inf)
""",
        "no sum that starts from 0",
    ),
    "over no loop": (
        """
def f(A: "float32[3]", L: "float32[3]", S: "out float32[3]"):
    for i in range(3):
        S[i] = sum(A[i] * L[i], init=0.0)
""",
        "S folds over no loop",
    ),
    "read on the way": (
        """
def f(A: "float32[8]", L: "float32[1]", S: "out float32[1]", Y: "out float32[8]"):
    for j in range(8):
        S[0] = sum(A[j] * L[0], over=j, init=0.0)
        Y[j] = S[0]
""",
        "which has more to do with its elements",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proved_is_refused(name: str) -> None:
    text, told = REFUSED[name]
    with pytest.raises(lp.ScheduleError, match=told):
        lp.Schedule(lp.parse(text)).factor_out("S")


def test_a_factor_that_changes_before_the_sum_stays() -> None:
    text = STAGED.replace('L: "float32[3]"', 'L: "inout float32[3]"').format(
        more="", stored="A[i, j] / L[i]", between="        for h in range(3):\n            L[h] = 2.0\n",
        term="P[i_1, k]", after="",
    )  # fmt: skip
    with pytest.raises(lp.ScheduleError, match="no factor that is the same"):
        lp.Schedule(lp.parse(text)).factor_out("S")


def test_softmax_before_a_product_is_divided_after_it() -> None:
    q, k, v = (lp.placeholder((2, 8, 4), "float32", name=x) for x in "QKV")
    s = lp.Schedule(lp.softmax(q @ k.transpose(0, 2, 1)) @ v)
    t = s.factor_out(s.stages[-1])
    some = np.random.default_rng(0).standard_normal((3, 2, 8, 4)).astype(np.float32)
    np.testing.assert_allclose(t.build("interpret")(*some), s.build("interpret")(*some), rtol=1e-5, atol=1e-6)
    assert_same(s.func, t.func, {})


ROUNDED = """
def f(A: "float32[3, 8]", V: "{t}[8]", L: "float32[3]", S: "out float32[3]"):
    with alloc("{t}[3, 8]") as P:
        for i in range(3):
            for j in range(8):
                P[i, j] = {t}(A[i, j] * (1.0 / L[i]))
        for h in range(3):
            for k in range(8):
                S[h] = sum(float32(P[h, k]) * float32(V[k]), over=k, init=0.0)
"""


def test_past_a_stage_that_is_rounded_when_it_is_stored() -> None:
    s = lp.Schedule(lp.parse(ROUNDED.format(t="bfloat16"))).factor_out("S")
    assert "P[i, j] = bfloat16(A[i, j])" in str(s)
    assert "S[h] * (1.0 / L[h])" in str(s)
    a, v = (np.random.default_rng(n).integers(-8, 9, m).astype(np.float32) for n, m in ((0, (3, 8)), (1, 8)))
    lengths = np.array([1, 2, 4], np.float32)
    got = s.build("interpret")(a, v.astype(ml_dtypes.bfloat16), lengths)
    np.testing.assert_array_equal(got, a @ v / lengths)


@pytest.mark.parametrize("t", ["float16", "float8_e4m3fn"])
def test_a_factor_stays_that_keeps_what_is_stored_in_range(t: str) -> None:
    """Of A = 1e6 and L = 1e3 nothing is left in float16, undivided, but infinities."""
    refused = lp.Schedule(lp.parse(ROUNDED.format(t=t))).why("factor_out", "S")
    assert refused is not None
    assert "no factor that is the same" in str(refused)


HALF = """
def f(X: "float32[3, 8]", V: "float32[8]", S: "out float32[3]"):
    with alloc("float32[3]") as M, alloc("float32[3]") as L, alloc("float16[3, 8]") as P:
        for i in range(3):
            for j in range(8):
                M[i] = max(X[i, j], over=j, init=-inf)
        for i_1 in range(3):
            for j_1 in range(8):
                L[i_1] = sum(exp(X[i_1, j_1] - M[i_1]), over=j_1, init=0.0)
        for i_2 in range(3):
            for j_2 in range(8):
                P[i_2, j_2] = float16(exp(X[i_2, j_2]{less}) * (1.0 / L[i_2]))
        for i_3 in range(3):
            for k in range(8):
                S[i_3] = sum(float32(P[i_3, k]) * V[k], over=k, init=0.0)
"""


def test_past_rounding_to_float16_of_powers_that_their_sum_divides() -> None:
    """Each power is at most 1, and their sum at least that: the power alone is rounded no worse."""
    s = lp.Schedule(lp.parse(HALF.format(less=" - M[i_2]")))
    t = s.factor_out("S")
    assert "P[i_2, j_2] = float16(exp(X[i_2, j_2] - M[i_2]))" in str(t)
    rng = np.random.default_rng(0)
    for size in (1.0, 30.0):
        x, v = (rng.standard_normal(n).astype(np.float32) for n in ((3, 8), (8,)))
        want = np.exp(x * size - (x * size).max(-1, keepdims=True)).astype(np.float64)
        want = want / want.sum(-1, keepdims=True) @ v
        off = [np.abs(y.build("interpret")(x * size, v) - want).max() for y in (s, t)]
        assert off[1] < off[0] + 2**-11


def test_not_past_rounding_to_float16_of_powers_of_any_size() -> None:
    told = lp.Schedule(lp.parse(HALF.format(less=""))).why("factor_out", "S")
    assert told is not None
    assert "no factor that is the same" in told.reason
