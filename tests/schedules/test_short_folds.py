"""Folds of few elements in the registers of a thread: right at any size, one pass over what they read, no spills."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.cuda.short_folds import (
    TERMS_AT_ONCE,
    _by_threads,
    _lines_tile,
    _rows_by_several,
    folds_in_steps,
    short_fold,
    short_folds,
)


def pool(n: int, c: int, h: int, k: int, stride: int, dtype: str = "float32") -> lp.Schedule:
    x = lp.placeholder((n, c, h, h), dtype, name="x")
    u, v = lp.reduce_axis(k, name="u"), lp.reduce_axis(k, name="v")
    size = (h - k) // stride + 1
    terms = lambda b, z, i, j: lp.max(x[b, z, i * stride + u, j * stride + v], axis=(u, v))  # noqa: E731
    return lp.Schedule(lp.relu(lp.compute((n, c, size, size), terms, name="pool")))


def causal(n: int, d: int, taps: int, dtype: str = "float32") -> lp.Schedule:
    x, w = lp.placeholder((n, d), dtype, name="x"), lp.placeholder((d, taps), dtype, name="w")
    u = lp.reduce_axis(taps, name="u")
    padded = lp.pad(x, [(taps - 1, 0), (0, 0)])
    return lp.Schedule(lp.compute((n, d), lambda i, z: lp.sum(padded[i + u, z] * w[z, u], axis=u), name="y"))


def points(n: int, d: int) -> lp.Schedule:
    x, r = lp.placeholder((n, d), "float32", name="x"), lp.placeholder((d, d), "float32", name="r")
    return lp.Schedule(x @ r)


def folded(s: lp.Schedule, **options: int) -> lp.Schedule:
    s = schedules.inlined(s)
    (stage,) = (x for x in s.stages if s.reduced(x))
    assert short_fold(s, stage)
    return short_folds(s, stage, threads=8, **options)


def test_a_thread_makes_several_results_with_its_own_loads() -> None:
    s = folded(causal(16, 8, 4), results=4, rows=4)
    assert lp.text(s.func).count('bind("threadIdx.x"') == 1
    assert "float32[7, 4]" in lp.text(s.func)  # the window of four results: seven rows, not sixteen


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 2), st.integers(1, 3), st.integers(3, 12), st.integers(1, 3), st.integers(1, 3), st.data())
def test_pools_are_what_they_were(n: int, c: int, h: int, k: int, stride: int, data: st.DataObject) -> None:
    s = pool(n, c, h, k, stride)
    options = {"results": data.draw(st.integers(1, 8)), "rows": data.draw(st.integers(1, 4))}
    assert_equivalent(s.func, folded(s, **options).func)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.sampled_from([1, 3, 4, 8, 12]), st.integers(1, 4), st.integers(1, 8), st.integers(1, 4))
def test_windows_are_what_they_were(n: int, d: int, taps: int, results: int, rows: int) -> None:
    s = causal(n, d, taps)
    assert_equivalent(s.func, folded(s, results=results, rows=rows).func)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 40), st.integers(1, 4))
def test_points_are_what_they_were(n: int, d: int) -> None:
    assert_equivalent(points(n, d).func, folded(points(n, d)).func)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_auto_takes_them_and_moves_each_byte_once(dtype: str) -> None:
    """Causal convolution: what is read again lies in registers or caches, and the rest is input and output."""
    s = causal(2048, 4096, 4, dtype)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    report = made.report()
    compulsory = (2 * 2048 * 4096 + 4096 * 4) * (4 if dtype == "float32" else 2)
    assert len(report.kernels) == 1
    assert sum(k.moved for k in report.kernels) <= 1.1 * compulsory


def test_the_kernel_has_no_spills() -> None:
    pytest.importorskip("cuda.bindings")
    made = schedules.auto(pool(16, 64, 113, 3, 2), "cuda", arch="sm_90a")
    for resources in lp.compile_source(made, arch="sm_90a").resources.values():
        assert resources.spill_stores == resources.spill_loads == 0


def depthwise(shape: tuple[int, ...], r: int, last: bool, stored: bool, dtype: str = "float32") -> lp.Schedule:
    """Channels last or not; the padding stored, as `lp.conv2d` has it, or not."""
    channel = shape[-1] if last else shape[1]
    x, w = lp.placeholder(shape, dtype, name="x"), lp.placeholder((channel, r, r), dtype, name="w")
    u, v = lp.reduce_axis(r, name="u"), lp.reduce_axis(r, name="v")
    p = r // 2
    padded = lp.pad(x, [(0, 0), *([(p, p)] * 2 + [(0, 0)] if last else [(0, 0)] + [(p, p)] * 2)])
    padded = padded.named("padded") if stored else padded
    if last:
        element = lambda b, i, j, z: lp.sum(padded[b, i + u, j + v, z] * w[z, u, v], axis=(u, v))  # noqa: E731
    else:
        element = lambda b, z, i, j: lp.sum(padded[b, z, i + u, j + v] * w[z, u, v], axis=(u, v))  # noqa: E731
    return lp.Schedule(lp.relu(lp.compute(shape, element, name="conv")))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 4), st.integers(2, 9), st.sampled_from([2, 3, 5]), st.booleans(), st.booleans(), st.data())
def test_windows_line_by_line_are_what_they_were(
    c: int, h: int, r: int, last: bool, stored: bool, data: st.DataObject
) -> None:
    s = depthwise((1, h, h + 1, c) if last else (1, c, h, h + 1), r, last, stored)
    found = _lines_tile(s, "conv", s.stages[-1], s.loops(s.stages[-1]), data.draw(st.integers(2, 32)))
    if found is not None:
        tile, kept = found
        made = _by_threads(s, "conv", s.stages[-1], tile, 8, kept)
        assert kept == ("v",) if not last else len(kept) == 1
        assert_equivalent(s.func, made.func)


@pytest.mark.parametrize("last", [False, True])
def test_large_windows_go_through_registers_line_by_line_without_a_test_for_each_term(last: bool) -> None:
    pytest.importorskip("cuda.bindings")
    shape = (8, 64, 64, 128) if last else (8, 128, 64, 64)
    made = schedules.auto(depthwise(shape, 7, last, stored=True), "cuda", arch="sm_90a")
    compiled = lp.compile_source(made, arch="sm_90a")
    assert all(r.spill_stores == r.spill_loads == 0 for r in compiled.resources.values())
    assert lp.text(made.func).count("select(") == 1  # where borders are filled up
    assert len(made.report().kernels) == 1 + last  # a copy of the weights


def test_what_is_gathered_is_not_moved_as_a_whole() -> None:
    x, ids = lp.placeholder((1000, 8), name="x"), lp.placeholder((64, 4), "int64", name="ids")
    k = lp.reduce_axis(4, name="k")
    bags = lp.compute((64, 8), lambda i, j: lp.sum(x[ids[i, k], j], axis=k), name="bags")
    assert "float32[1000]" not in str(folded(lp.Schedule(bags)))


def test_a_product_of_two_long_operands_is_none() -> None:
    a, b = lp.placeholder((64, 8), "float32", name="a"), lp.placeholder((8, 64), "float32", name="b")
    s = lp.Schedule(a @ b)
    (stage,) = s.stages
    assert not short_fold(s, stage)


def test_a_fold_of_everything_is_none() -> None:
    s = lp.Schedule(lp.placeholder((8,), "float32", name="x").sum())
    assert not short_fold(s, s.stages[0])


def test_a_long_fold_is_refused_in_words() -> None:
    x = lp.placeholder((64, 4096), "float32", name="x")
    s = lp.Schedule(x.sum(axis=1))
    (stage,) = s.stages
    with pytest.raises(lp.ScheduleError, match="does not fold a known, small number"):
        short_folds(s, stage)


def test_compiled_code_for_a_cpu_is_the_same_program() -> None:
    s = causal(33, 8, 4)
    x, w = np.arange(33 * 8, dtype=np.float32).reshape(33, 8) % 7, np.arange(32, dtype=np.float32).reshape(8, 4) % 5
    assert np.array_equal(folded(s).build("interpret")(x, w), s.build("llvm")(x, w))


def test_a_fold_of_what_a_product_made_alone() -> None:
    """One element a row, of no argument."""
    a, b = lp.placeholder((33, 17), "bfloat16", name="a"), lp.placeholder((17, 1), "bfloat16", name="b")
    y = (a @ b).astype("float32")
    s = lp.Schedule((y * lp.rsqrt(lp.mean(y * y, axis=1, keepdims=True) + 1.0)).astype("bfloat16"))
    assert lp.lower(schedules.auto(s, "cuda", arch="sm_90a"), "cuda")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("length", "together"), [(64, True), (8, False)])
def test_rows_of_more_than_a_sector_are_folded_by_threads_together(length: int, together: bool, after: bool) -> None:
    """Each thread of a warp would read sectors of its own, 4 bytes at a time."""
    x = lp.placeholder((64000, length), "float32", name="x")
    y = lp.sum(x + 1.0, axis=1)
    made = schedules.auto(lp.Schedule(lp.relu(y) if after else y), "cuda", arch="sm_90a")
    fold = next(x for x in made.stages if made.reduced(x))
    assert any(made.loop(x).kind == "threadIdx.x" for x in made.reduced(fold)) == together
    assert lp.predict(made, "cuda", arch="sm_90a").kernels == 1


@pytest.mark.parametrize("after", [False, True])
def test_rows_folded_by_threads_together_are_right(after: bool) -> None:
    x = lp.placeholder((33, 19), "float32", name="x")
    y = lp.sum(x, axis=1)
    s = lp.Schedule(lp.relu(y) if after else y)
    with lp.scheduling_for(lp.machine("sm_90a")):
        made = _rows_by_several(s, s.stages[0], s.stages[-1])
    assert_equivalent(s, made)


def picked(rows: int, terms: int, columns: int, dtype: str, last: bool) -> lp.Schedule:
    """A vector by a matrix that is picked for each."""
    x = lp.placeholder((rows, terms), dtype, name="x")
    w = lp.placeholder((3, terms, columns), dtype, name="w")
    ids = lp.placeholder((rows,), "int64", name="ids")
    k = lp.reduce_axis(terms, name="k")
    y = lp.compute((rows, columns), lambda i, j: lp.sum(x[i, k] * w[ids[i], k, j], axis=k), name="y")
    return lp.Schedule(lp.maximum(y, 0.0) if last else y)


@settings(max_examples=10, deadline=None)
@given(
    st.integers(1, 5), st.integers(2, 24), st.integers(2, 24), st.sampled_from(["float32", "float64"]), st.booleans()
)
def test_folds_in_steps_are_what_they_were(rows: int, terms: int, columns: int, dtype: str, last: bool) -> None:
    s = picked(rows, terms, columns, dtype, last)
    vectors = any(columns % n == 0 for n in range(2, 16 // (8 if dtype == "float64" else 4) + 1))
    if vectors and any(terms % n == 0 for n in range(2, TERMS_AT_ONCE + 1)):
        assert_equivalent(s.func, folds_in_steps(s, s.stages[0], threads=8).func)
    else:
        with pytest.raises(lp.ScheduleError, match="neither whole vectors of results nor several elements"):
            folds_in_steps(s, s.stages[0])


@pytest.mark.parametrize("terms", [64, 128])
def test_matrices_that_are_picked_are_read_as_vectors(terms: int) -> None:
    s = picked(4096, terms, 512, "float32", last=False)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert "folds_in_steps" in made.script()
    assert lp.predict(made, "cuda", arch="sm_90a").kernels == 1
