"""split_views: what is read by quotient and remainder has a loop for each, and means the same."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.common.nest_queries import extent
from schedules.common.view_loops import (
    fuse_contiguous,
    fuse_viewed_dims,
    is_viewed,
    join_view,
    join_views,
    over_folds,
    split_rows,
    split_views,
)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([1, 2, 3]), st.integers(1, 3), st.integers(1, 4), st.permutations([0, 1, 2]), st.data())
def test_a_split_view_means_the_same(heads: int, rows: int, width: int, order: list[int], data: st.DataObject) -> None:
    shape = (heads, rows, width)
    x = lp.placeholder(shape, "float32", name="x")
    y = (x * 2.0).named("y").transpose(tuple(order))
    turned = y.shape
    merged = data.draw(st.sampled_from([(turned[0] * turned[1], turned[2]), (turned[0], turned[1] * turned[2])]))
    s = lp.Schedule(y.reshape(merged).named("z"))
    given = {"x": np.arange(heads * rows * width, dtype="float32").reshape(shape)}
    want, got = (lp.interpret(f.func, dict(given), {}, domain="ring") for f in (s, split_views(s)))
    np.testing.assert_array_equal(got["z"], want["z"])


def test_merged_heads_run_in_the_order_of_what_they_are_made_of() -> None:
    x = lp.placeholder((4, 8, 16), "float32", name="x")
    s = lp.Schedule((x + 1.0).named("y").transpose((1, 0, 2)).reshape((8, 64)).named("z"))
    made = split_views(s)
    assert [extent(made, x) for x in made.loops("z")] == [4, 8, 16]
    plain = lp.Schedule((x + 1.0).named("y"))
    assert split_views(plain).func == plain.func


def test_two_merged_pairs_of_dimensions_are_split_at_once() -> None:
    x = lp.placeholder((2, 3, 4, 5), "float32", name="x")
    s = lp.Schedule((x + 1.0).named("y").transpose((0, 2, 1, 3)).reshape((8, 15)).named("z"))
    made = split_views(s)
    assert [extent(made, x) for x in made.loops("z")] == [2, 3, 4, 5]
    given = {"x": np.arange(120, dtype="float32").reshape(2, 3, 4, 5)}
    want, got = (lp.interpret(f.func, dict(given), {}, domain="ring") for f in (s, made))
    np.testing.assert_array_equal(got["z"], want["z"])


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(0, 3))
def test_a_flat_result_of_what_was_folded_means_the_same(shape: list[int], axis: int) -> None:
    x = lp.placeholder(tuple(shape), "float32", name="x")
    y = x - lp.sum(x, axis=axis % len(shape), keepdims=True)
    s = lp.Schedule(y.reshape((prod(shape),)).named("z"))
    given = {"x": np.arange(prod(shape), dtype="float32").reshape(shape)}
    want, got = (lp.interpret(f.func, dict(given), {}, domain="ring") for f in (s, over_folds(s)))
    np.testing.assert_array_equal(got["z"], want["z"])


def test_a_flat_result_runs_in_the_order_in_which_it_was_folded() -> None:
    x = lp.placeholder((32, 64, 256), "float32", name="x")
    y = x - lp.sum(x, axis=(0, 2), keepdims=True)
    flat = lp.Schedule(y.reshape((32 * 64 * 256,)).named("z"))
    assert [extent(over_folds(flat), loop) for loop in over_folds(flat).loops("z")] == [32, 64, 256]
    seconds = [
        lp.predict(schedules.auto(s, "cuda", arch="sm_90a"), "cuda", arch="sm_90a").seconds
        for s in (flat, lp.Schedule(y))
    ]
    assert seconds[0] < 1.1 * seconds[1]


def attention(split: bool, merged: bool) -> lp.Schedule:
    n, h, e = 1024, 8, 64
    if split:
        q, k, v = (
            lp.placeholder((n, h * e), "bfloat16", name=x).reshape((n, h, e)).transpose((1, 0, 2)) for x in "qkv"
        )
    else:
        q, k, v = (lp.placeholder((h, n, e), "bfloat16", name=x) for x in "qkv")
    y: Any = lp.softmax((q @ k.transpose((0, 2, 1))).astype("float32") * 0.125).astype("bfloat16") @ v
    return lp.Schedule(y.transpose((1, 0, 2)).reshape((n, h * e)) if merged else y)


@pytest.mark.parametrize("split", [False, True])
def test_attention_of_heads_that_are_merged_costs_what_it_costs_of_heads(split: bool) -> None:
    plain, merged = (
        lp.predict(schedules.auto(attention(split, x), "cuda", arch="sm_90a"), "cuda", arch="sm_90a")
        for x in (False, True)
    )
    assert merged.kernels == plain.kernels == 1
    assert merged.seconds <= 1.1 * plain.seconds


def test_on_a_cpu_they_are_one_loop_over_blocks_too() -> None:
    n, h, e = 512, 2, 64
    q, k, v = (lp.placeholder((h, n, e), "float32", name=x) for x in "qkv")
    y: Any = lp.softmax(q @ k.transpose((0, 2, 1))) @ v
    merged = lp.Schedule(y.transpose((1, 0, 2)).reshape((n, h * e)).named("merged"))
    plain, made = (schedules.auto(s, "llvm") for s in (lp.Schedule(y), merged))
    assert len(lp.nests(made.func)) == len(lp.nests(plain.func)) < len(lp.nests(merged.func)) - 1
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(h, n, e)).astype("float32") for _ in range(3)]
    want = plain.build("llvm")(*given).transpose(1, 0, 2).reshape(n, h * e)
    np.testing.assert_allclose(made.build("llvm")(*given), want, rtol=1e-4, atol=1e-6)


def test_rows_of_a_batch_become_rows_of_a_matrix() -> None:
    x, w = lp.placeholder((2, 3, 4), "float32", name="x"), lp.placeholder((5, 4), "float32", name="w")
    s = lp.Schedule(((x + 1.0).named("t").reshape((6, 4)) @ w.T).named("y"))
    (stage,) = (x for x in s.stages if s.reduced(x))
    made = fuse_viewed_dims(s, stage)
    assert [lp.text(d) for d in made.buffer("t").shape] == ["6", "4"]
    assert any(is_viewed(s, t) for t in s.accesses(stage))
    assert not any(is_viewed(made, t) for t in made.accesses(stage))
    assert_equivalent(s, made)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_product_over_merged_heads_has_tiles_of_registers(batch: int) -> None:
    """So has the output projection of attention, for which heads are merged, and one over rows of a batch."""
    x = lp.placeholder((batch, 4, 32, 16), "float32", name="x")
    merged: Any = (x * 2.0).named("t").transpose((0, 2, 1, 3)).reshape((batch * 32, 64))
    made = schedules.auto(lp.Schedule(merged @ lp.placeholder((48, 64), "float32", name="w").T), "llvm")
    assert any("matmul_cpu" in str(step) for step in made.trace)
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-4, 5, shape).astype("float32") for shape in ((batch, 4, 32, 16), (48, 64)))
    want = (2 * a).transpose(0, 2, 1, 3).reshape(batch * 32, 64) @ w.T
    np.testing.assert_array_equal(made.build("llvm")(a, w), want)


def test_loops_that_one_array_is_read_by_as_one_and_another_goes_on_along_become_one() -> None:
    x, r = lp.placeholder((24,), "float32", name="x"), lp.placeholder((2, 3, 4), "float32", name="r")
    k = lp.reduce_axis(3, name="k")
    sums = lp.compute((24,), lambda i: lp.sum(x[i] * (k + 1), axis=k), name="sums")
    s = lp.Schedule((sums.reshape((2, 3, 4)) + r).named("y"))
    made = join_views(s)
    assert len(made.loops("y")) == 1
    assert_equivalent(s, made)


@settings(max_examples=15, deadline=None)
@given(st.permutations([0, 1, 2, 3]), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_joined_view_means_the_same(order: list[int], sizes: list[int]) -> None:
    a, b, c, d = sizes
    x = lp.placeholder((a * b, c * d), "float32", name="x")
    y = (x * 2.0).named("y")
    s = lp.Schedule(y.reshape((a, b, c, d)).transpose(tuple(order)).named("z"))
    made = join_view(s, "z", "y")
    assert len(made.loops("z")) == 2 or 1 in sizes or order[-1] != 3
    given = {"x": np.arange(a * b * c * d, dtype="float32").reshape(a * b, c * d)}
    want, got = (lp.interpret(f.func, dict(given), {}, domain="ring") for f in (s, made))
    np.testing.assert_array_equal(got["z"], want["z"])


def test_what_is_counted_otherwise_is_left_as_it_is() -> None:
    x = lp.placeholder((6, 8), "float32", name="x")
    y = (x * 2.0).named("y")
    for z in (
        y.T,
        y.reshape((2, 3, 8)).transpose((2, 0, 1)),
        y[:, ::2],
        y[:4].reshape((2, 2, 8))[:, :1],
        lp.stack([y, y]),
    ):
        s = lp.Schedule((z + 0.0).named("z"))
        made = join_view(s, "z", "y")
        assert made.func == s.func or len(made.loops("z")) == 2


@pytest.mark.parametrize("shape", [(-1,), (64, 16, 8, 64), (1024, 512, 1)], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_is_stored_in_any_shape_by_its_own_kernel(shape: tuple[int, ...], turned: bool) -> None:
    a, b = lp.placeholder((1024, 256), "bfloat16", name="a"), lp.placeholder((256, 512), "bfloat16", name="b")
    out = (a @ b).reshape(shape)
    out = out.transpose((0, 2, 1, 3)) if turned and len(shape) == 4 else out
    plain, viewed = (schedules.auto(lp.Schedule(x), "cuda", arch="sm_90a").report(arch="sm_90a") for x in (a @ b, out))
    assert len(viewed.kernels) == 1
    assert viewed.seconds <= 1.05 * plain.seconds


@pytest.mark.parametrize(("columns", "fused"), [(200, False), (3, True)])
def test_rows_with_a_mask_of_their_indices_stay_rows(columns: int, fused: bool) -> None:
    x = lp.placeholder((70, columns), "float32", name="x")
    s = lp.Schedule(lp.tril(x).named("y"))
    made = fuse_contiguous(s, "y")
    assert (len(made.loops("y")) == 1) == fused  # short rows are no vectors
    assert_equivalent(s, schedules.cpu(s))
    counted = (x + lp.arange(70 * columns, dtype="float32").reshape((70, columns))).named("y")
    plain = lp.Schedule(counted)
    assert len(fuse_contiguous(plain, "y").loops("y")) == 1  # counted along both loops, nothing is divided


def test_rows_with_a_mask_that_divides_indices_stay_rows() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(x: "int16[12, 200]", y: "out int16[12, 200]"):
    for i in range(12):
        for j in range(200):
            y[i, j] = x[i, j] if (i + j) % 2 == 0 else int16(0)
""")
    )
    assert len(fuse_contiguous(s, "y").loops("y")) == 2
    assert_equivalent(s, schedules.cpu(s))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 2), st.integers(2, 3), st.integers(2, 4), st.integers(2, 3), st.booleans())
def test_rows_of_a_product_counted_with_a_batch_are_rows_of_a_batch_again(
    batch: int, heads: int, rows: int, width: int, rounded: bool
) -> None:
    x = lp.placeholder((batch, heads, rows, width), "float32", name="x")
    w = lp.placeholder((batch, width, width + 1), "float32", name="w")
    p = (x.reshape((batch, heads * rows, width)) @ w).named("p").reshape((batch, heads, rows, width + 1))
    p = (p * 2.0).named("scaled") if rounded else p
    s = lp.Schedule(lp.sum(p, axis=3).named("folded"))
    made = split_rows(s)
    assert not any(d.divides for stage in made.stages for t in made.accesses(stage) for d in t.subscripts)
    given = {
        "x": np.arange(batch * heads * rows * width, dtype="float32").reshape(batch, heads, rows, width),
        "w": np.arange(batch * width * (width + 1), dtype="float32").reshape(batch, width, width + 1),
    }
    want, got = (lp.interpret(f.func, dict(given), {}, domain="ring") for f in (s, made))
    np.testing.assert_array_equal(got["folded"], want["folded"])


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.filterwarnings("error")
def test_folds_of_values_and_their_indices_stay(target: str) -> None:
    x = lp.placeholder((64, 64), "float32", name="x")
    for value in (lp.argmax(x, axis=1), lp.logsumexp(x, axis=1)):
        s = lp.Schedule(value.named("y"))
        assert split_rows(s).func == s.func
        assert schedules.auto(s, target).trace
