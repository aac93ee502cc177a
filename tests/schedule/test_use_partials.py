"""use_partials: exact over a field in which exp is a homomorphism, also of parts of nothing; else refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.schedule.core.trace import Step
from loopir.testing.generate.chains import partial_folds
from loopir.testing.legality import verdict

PARTS = """
def f(A: "float32[3, 8]", V: "float32[8]", T: "out float32[3]", R: "out float32[3]"):
    for i in range(3):
        for j in range(8):
            {guard}R[i] = {r}({of}, over=j, init={r0})
    for i1 in range(3):
        for k in range(8):
            T[i1] = {t}({term}, over=k, init={t0})
"""
MASKED = "select(j < 5, A[i, j], -inf)"
FORMS = {
    "powers": ("max", "A[i, j]", "-inf", "sum", "exp(A[i1, k] - R[i1]) * V[k]", "0.0"),
    "masked powers": ("max", MASKED, "-inf", "sum", "exp(select(k < 5, A[i1, k], -inf) - R[i1])", "0.0"),
    "below a minimum": ("min", "A[i, j]", "inf", "sum", "exp(R[i1] - A[i1, k])", "0.0"),
    "with a start": ("max", "A[i, j]", "-inf", "sum", "exp2(A[i1, k] - R[i1])", "7.0"),
    "the largest difference": ("sum", "A[i, j]", "0.0", "max", "A[i1, k] - R[i1]", "-inf"),
}


def parts(form: tuple[str, ...], size: int, guard: str = "") -> lp.Schedule:
    """Both folds of partial results of so many terms."""
    names = dict(zip(("r", "of", "r0", "t", "term", "t0"), form, strict=True))
    s = lp.Schedule(lp.parse(PARTS.format(guard=guard, **names)))
    for stage in ("R", "T"):
        row, loop = s.loops(stage)
        s = s.split(loop, size, names=(f"{loop}o", f"{loop}i")).reorder(f"{loop}o", row, f"{loop}i")
        s = s.rfactor(stage, f"{loop}o")
    return s


@settings(max_examples=12)
@given(st.sampled_from(sorted(FORMS)), st.sampled_from((1, 2, 3, 4, 5)))
def test_parts_are_corrected(name: str, size: int) -> None:
    """Also where the last part is shorter, or all of one is masked."""
    s = parts(FORMS[name], size)
    t = s.use_partials("T", "R")
    a, v = (np.random.default_rng(0).standard_normal(n).astype(np.float32) for n in ((3, 8), (8,)))
    one, other = (x.build("interpret")(a, v) for x in (s, t))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(y, x, rtol=2e-5, atol=1e-6)
    if "masked" not in name:
        assert_same(s.func, t.func, {})


@settings(max_examples=30, deadline=None)
@given(partial_folds(), st.data())
def test_several_stages_use_the_parts_of_one_fold(func: lp.Func, data: st.DataObject) -> None:
    """In any order of the stages: what one of them has made of the parts is not there before it."""
    s = lp.Schedule(func)
    for stage in data.draw(st.permutations(sorted({"T", "U"}.intersection(s.stages)))):
        found, told = verdict(s.func, Step("use_partials", (stage, "M"), ()))
        assert found not in ("accepted, illegal", "refused, legal", "crash"), told
        s = s.use_partials(stage, "M") if found == "accepted" else s


def test_scores_of_a_thousand_overflow_nothing() -> None:
    s = parts(FORMS["masked powers"], 2).use_partials("T", "R")
    a, v = np.full((3, 8), -1000.0, np.float32), np.ones(8, np.float32)
    assert np.array_equal(s.build("interpret")(a, v)[0], np.full(3, 5.0, np.float32))


@pytest.mark.parametrize(
    ("form", "guard", "told"),
    [
        (("sum", "A[i, j]", "0.0", "sum", "abs(A[i1, k] - R[i1])", "0.0"), "", "changes by no one amount"),
        (FORMS["powers"], "if j < 5:\n                ", "terms that count where"),
        (("max", "A[i, j]", "-inf", "sum", "exp(A[i1, k] - R[i1] + R[0])", "0.0"), "", "several elements"),
        (("max", "A[i, j]", "-inf", "sum", "exp(A[i1, k] - R[k % 3])", "0.0"), "", "another element"),
        (("max", MASKED, "-inf", "sum", "exp(A[i1, k] - R[i1])", "0.0"), "", "terms that count where"),
    ],
)
def test_what_has_no_correction_is_refused(form: tuple[str, ...], guard: str, told: str) -> None:
    why = parts(form, 2, guard).why("use_partials", "T", "R")
    assert why is not None
    assert told in why.reason


@pytest.mark.parametrize("stages", [("T", "R"), ("R", "T")])
def test_partial_results_of_one_row_are_refused(stages: tuple[str, str]) -> None:
    """Their memory ends with the row."""
    names = dict(zip(("r", "of", "r0", "t", "term", "t0"), FORMS["powers"], strict=True))
    s = lp.Schedule(lp.parse(PARTS.format(guard="", **names)))
    for stage, loop in (("R", "j"), ("T", "k")):
        s = s.split(loop, 2, names=(f"{loop}o", f"{loop}i")).rfactor(stage, f"{loop}o")
    why = s.why("use_partials", *stages)
    assert why is not None
    assert "not made of their partial results one after the other" in why.reason
