"""Sums with common factors: factor_out takes some and refuses others, and none becomes another over the field."""

from __future__ import annotations

from hypothesis import given, settings

from loopir.ir.grammar import Func, Reduce
from loopir.ir.traverse.walk import leaf_paths
from loopir.schedule.core.trace import Step
from loopir.testing.checking import QUIET
from loopir.testing.generate.families import forms
from loopir.testing.legality import verdict


def test_some_sums_have_common_factors_and_others_none() -> None:
    found: set[str] = set()

    def judge(func: Func) -> None:
        label = next(p.stmt.label for p in leaf_paths(func.body) if isinstance(p.stmt, Reduce))
        found.add(verdict(func, Step("factor_out", (label,), ()))[0])

    settings(QUIET, max_examples=40)(given(forms(("factored",)))(judge))()
    assert found == {"accepted", "no rewrite"}
