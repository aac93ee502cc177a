"""A few programs that are drawn at random: the same for a seed, and right; `benchmarks/random_programs.py` has more."""

from __future__ import annotations

import pytest
from drawn_programs import FORMS, drawn
from random_programs import checked

import loopir as lp


@pytest.mark.parametrize("seed", range(4))
def test_programs_are_right_on_a_cpu(seed: int) -> None:
    assert checked(seed, "llvm", 0.0)[:2] == ("right", "")


def test_a_program_is_right_on_a_gpu() -> None:
    assert checked(11, "cuda", 0.0)[:2] == ("right", "")


def test_a_seed_draws_the_same_and_forms_differ_in_little() -> None:
    for seed in range(3):
        plain = str(lp.Schedule([v.tensor for v in drawn(seed, large=True).outputs]))
        assert plain == str(lp.Schedule([v.tensor for v in drawn(seed, large=True).outputs]))
        for form in FORMS:
            p = drawn(seed, large=True, form=form)
            assert p.operations == drawn(seed, large=True).operations
            assert lp.Schedule([v.tensor for v in p.outputs])
