"""Contractions of few results and many terms: cut in parts, each a member of a batch."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.common.contraction import separate_operands
from schedules.cuda import deep_contraction
from schedules.cuda.deep_contraction import in_parts, part_by_threads, parts_of


def gradient(terms: int, rows: int, columns: int, dtype: str = "float32") -> lp.Schedule:
    x, dy = lp.placeholder((terms, rows), dtype, name="x"), lp.placeholder((terms, columns), dtype, name="dy")
    return schedules.inlined(lp.Schedule(x.T @ dy))


def fold(s: lp.Schedule) -> str:
    return next(x for x in s.stages if s.reduced(x))


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(2, 5), st.integers(2, 6))
def test_parts_add_up(rows: int, columns: int, parts: int, each: int) -> None:
    s = gradient(parts * each, rows, columns)
    assert_equivalent(s, in_parts(s, fold(s), parts))


def test_parts_that_do_not_divide_are_refused_in_words() -> None:
    s = gradient(64, 16, 16)
    with pytest.raises(lp.ScheduleError, match="no contraction over a loop that 7 parts of one length make up"):
        in_parts(s, fold(s), 7)


@pytest.mark.parametrize(("terms", "dtype"), [(100_000, "float32"), (65536, "bfloat16"), (100_000, "bfloat16")])
def test_auto_fills_the_gpu(dtype: str, terms: int) -> None:
    """One block for one tile of results would leave 131 of 132 processors idle."""
    s = gradient(terms, 64, 64, dtype)
    assert dtype == "float32" or parts_of(s, fold(s)) > 4  # float32 has parts of any length
    report = schedules.auto(s, "cuda", arch="sm_90a").report()
    assert max(k.work.blocks for k in report.kernels) >= 100


def test_square_products_are_left_whole() -> None:
    s = gradient(4096, 4096, 4096)
    assert parts_of(s, fold(s)) == 1


@pytest.mark.parametrize("twice", [False, True])
def test_parts_of_float32_fill_tiles_up(monkeypatch: pytest.MonkeyPatch, *, twice: bool) -> None:
    """A number of terms that no parts divide; and one array on both sides, of which no copy is left."""
    monkeypatch.setattr(deep_contraction, "SIMT_TILE", (64, 32))
    monkeypatch.setattr(deep_contraction, "SIMT_DEPTH", 4)
    x, y = lp.placeholder((11, 64), name="x"), lp.placeholder((11, 32), name="y")
    made = schedules.inlined(lp.Schedule(x.T @ (x[:, :32] if twice else y)))
    made = separate_operands(made, fold(made))
    s = in_parts(made, fold(made), 2)
    s = part_by_threads(s, next(z for z in s.stages if s.reduced(z)))
    (program,) = lp.lower(s, "cuda")
    given_x, given_y = (np.random.default_rng(0).integers(-9, 9, (11, n)).astype(np.float32) for n in (64, 32))
    got = lp.interpret(program, [given_x] if twice else [given_x, given_y])
    np.testing.assert_array_equal(got["matmul"], given_x.T @ (given_x[:, :32] if twice else given_y))


@pytest.mark.parametrize("terms", [100_003])
def test_one_array_on_both_sides_is_read_as_it_lies(terms: int) -> None:
    a = lp.placeholder((terms, 128), name="a")
    report = schedules.auto(lp.Schedule(a.T @ a), "cuda", arch="sm_90a").report()
    assert len(report.kernels) == 2
    assert report.seconds < 1.8 * (2 * terms * 128 * 128 / 50e12)  # an H200 takes 1.5 times as long
