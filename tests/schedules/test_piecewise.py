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


def test_a_mask_that_changes_in_every_row_is_not_cut_again_and_again() -> None:
    """A piece that decides no select is not cut further: its bounds would grow, and nothing be decided."""
    n = lp.symbol("n", min=1)
    x = lp.tril(lp.placeholder((n, 17), "float32", name="x"), -1)
    made = cut_in_pieces(lp.Schedule((x[:, :-2] + x[:, 1:-1] * 2.0 + x[:, 2:]).named("y")), "y")
    assert len(lp.text(made.func)) < 8000
    assert len(made.stages) < 9


def test_what_all_parts_read_is_computed_once() -> None:
    """In a window on rows it would be computed for each, as no part of it belongs to one."""
    x = lp.placeholder((3, 16, 16), "float32", name="x")
    total = (x[0] + x[1] + x[2]).named("total")
    s = lp.Schedule(lp.stack([x[n] * 0.5 + total for n in range(3)], axis=0).named("y"))
    made = cpu(s, 4)
    assert len(lp.nests(made.func)) >= 2
    assert lp.text(made.func).count('alloc("float32[16, 16]")') == 1
    assert_equivalent(s, made)


def test_a_convolution_in_groups_is_no_fold_of_rows() -> None:
    x = lp.placeholder((2, 32, 28, 28), "float32", name="x")
    w = lp.placeholder((32, 16, 3, 3), "float32", name="w")
    made = cpu(lp.Schedule(lp.conv2d(x, w, padding=1, groups=2).named("y")), 16)
    assert any(made.loop(x).kind == "unroll" for x in made.loops())


def test_the_vectors_inside_periodic_borders_have_no_mask() -> None:
    n = lp.symbol("n")
    x = lp.placeholder((n, n), "uint8", name="x")
    cell = lambda i, j: x[(i - 1) % n, j] + x[i, (j - 1) % n] + x[i, (j + 1) % n]  # noqa: E731
    s = lp.Schedule(lp.compute((n, n), cell, name="y"))
    made = cpu(s, 4)
    vectors = [lp.text(made.loop(x)) for x in made.loops(kind="vectorize")]
    assert any("if " not in x for x in vectors)
    assert_equivalent(s, made)
