"""Folds into an element whose number is read from memory, which steps give the iteration or take from it."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.schedule.core.trace import Step
from loopir.testing import assert_equivalent
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.families import forms
from loopir.testing.legality import JUDGED, verdict

OWN = """
def own(n: "size", A: "int32[n + 1]", B: "float32[n]", Y: "inout float32[5]"):
    for i in range(n):
        with alloc("int32[2]") as T:
            for k in range(2):
                T[k] = A[i + k]
            Y[T[1] % 5] = sum(B[i], over=i)
"""
STEPS = {
    "distribute": ("i", "T"), "compute_root": ("T",), "double_buffer": ("T", "i"), "unroll_and_jam": ("i", 2),
    "compute_inline": ("T",), "reverse_compute_inline": ("Y",),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_an_element_that_comes_to_depend_on_the_loop_is_not_folded_over_it(name: str) -> None:
    s = lp.Schedule(lp.parse(OWN))
    assert_equivalent(s, s.apply(Step(name, STEPS[name], ())))


@settings(max_examples=40, deadline=None)
@given(forms(("scattered",)), st.data())
def test_every_step_keeps_the_meaning_or_refuses(func: lp.Func, data: st.DataObject) -> None:
    listed = [step for name in sorted({*JUDGED} & {*TABLE}) for step in candidate_steps(func, name)]
    for step in data.draw(st.lists(st.sampled_from(listed), min_size=1, max_size=4)):
        found, told = verdict(func, step)
        assert found not in ("accepted, illegal", "crash"), f"{step}\n{told}"
