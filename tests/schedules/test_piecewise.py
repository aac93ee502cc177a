"""Concatenations on a CPU: a loop for each part, which holds no test, and means the same."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.piecewise import cut_in_pieces


def concatenation(lengths: list[int], axis: int, other: int = 5) -> lp.Schedule:
    shapes = [(n, other) if axis == 0 else (other, n) for n in lengths]
    parts = [lp.placeholder(shape, "float32", name=f"x{n}") * float(n + 2) for n, shape in enumerate(shapes)]
    return lp.Schedule(lp.concatenate(parts, axis=axis).named("y"))


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from((0, 1)))
def test_parts_of_any_length_mean_the_same(lengths: list[int], axis: int) -> None:
    s = concatenation(lengths, axis)
    assert_equivalent(s, cut_in_pieces(s, "y"))
    assert_equivalent(s, cpu(s, 4))


def test_no_part_tests_of_which_it_is() -> None:
    for axis in (0, 1):
        made = cpu(concatenation([16, 32, 16, 48], axis, 64), 4)
        assert "select(" not in lp.text(made.func)
        assert all(made.loop(made.loops(x)[-1]).kind == "vectorize" for x in made.stages)
        assert len(made.stages) == 4


def test_a_border_is_no_chain() -> None:
    s = lp.Schedule(lp.pad(lp.placeholder((8, 8), "float32", name="x"), [(1, 1), (1, 1)], 0.0).named("y"))
    assert cut_in_pieces(s, "y") is s
