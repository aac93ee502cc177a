"""Products whose batch lies along memory: of copies that have it outside, they are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.common.batch_outside import batch_along, batch_outside, turned_last
from schedules.common.contraction import contraction

RNG = np.random.default_rng(5)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(("ikc,jkc->ijc", "kic,kjc->ijc", "cik,jkc->ijc", "ikc,jkc->cij", "bqhd,bkhd->bqkh")), st.data())
def test_a_batch_along_memory_goes_outside(form: str, data: st.DataObject) -> None:
    sizes = {c: data.draw(st.sampled_from((16, 17))) if c in "ijkqd" else 2 for c in "ijkqdcbh"}
    terms = form.partition("->")[0].split(",")
    x, y = (lp.placeholder([sizes[c] for c in t], "int32", name=n) for n, t in zip("xy", terms, strict=True))
    s = lp.Schedule(lp.einsum(form, x, y))
    match = batch_along(s)
    assert match is not None
    made = batch_outside(s, match)
    assert contraction(made, next(x for x in made.stages if made.reduced(x))) is not None
    arrays = [RNG.integers(-9, 9, t.shape).astype(np.int32) for t in (x, y)]
    want, got = (f.build("interpret")(*arrays) for f in (s, made))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("form", ["ij,jk->ik", "bij,bjk->bik"])
def test_matrices_one_after_the_other_stay(form: str) -> None:
    shapes = [tuple(16 for _ in t) for t in form.partition("->")[0].split(",")]
    assert (
        batch_along(
            lp.Schedule(lp.einsum(form, lp.placeholder(shapes[0], name="x"), lp.placeholder(shapes[1], name="y")))
        )
        is None
    )


def test_sums_are_turned_by_tiles_after_they_are_stored() -> None:
    x, y = (lp.placeholder((16, 16, 16), "bfloat16", name=n) for n in "xy")
    s = lp.Schedule(lp.einsum("ikc,jkc->ijc", x, y))
    match = batch_along(s)
    assert match is not None
    made = turned_last(batch_outside(s, match))
    assert any("shared" in x for x in made.stages)
    arrays = [RNG.integers(-3, 4, t.shape).astype(t.dtype.numpy) for t in (x, y)]
    np.testing.assert_array_equal(made.build("interpret")(*arrays), s.build("interpret")(*arrays))


@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_a_plan_takes_it_where_it_is_cheaper(target: str) -> None:
    x, y = (lp.placeholder((128, 128, 64), name=n) for n in "xy")
    plan = schedules.plan(
        lp.Schedule(lp.einsum("ikc,jkc->ijc", x, y)), target, arch="sm_90a" if target == "cuda" else None
    )
    assert [g.how for g in plan.groups] == ["batch outside"]
