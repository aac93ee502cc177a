"""Products of operands that are computed, weighted, or counted by several loops, as products of two matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.common.contraction import contraction
from schedules.common.nest_queries import extent
from schedules.common.operands import fuse_product_loops, is_strided, materialized, summed_along_one, two_matrices
from schedules.cuda.auto_gpu import gpu
from schedules.cuda.tiled_products import is_tiled, stored_operands
from schedules.normal_form import normal_form

RNG = np.random.default_rng(5)
BF = "bfloat16"
WEIGHTED = {
    "rows of the right one": lambda x, y, v: x.transpose(1, 0) @ (v[:, None] * y),
    "columns of the left one": lambda x, y, v: (x * v[:, None]).transpose(1, 0) @ y,
    "of one array": lambda x, y, v: x.transpose(1, 0) @ (v[:, None] * x) + y[:1, :1],
    "three factors": lambda x, y, v: lp.einsum("ki,k,kj->ij", x, v, y),
}


def placeholders(dtype: str, **shapes: tuple[int, ...]) -> list[Any]:
    return [lp.placeholder(shape, dtype, name=name) for name, shape in shapes.items()]


@pytest.mark.parametrize("form", WEIGHTED)
@pytest.mark.parametrize("dtype", ["float32", BF])
def test_weights_of_what_is_summed_go_to_one_operand(form: str, dtype: str) -> None:
    x, y, v = placeholders(dtype, x=(6, 6), y=(6, 6), v=(6,))
    s = lp.Schedule(WEIGHTED[form](x, y, v))
    stage = next(x for x in s.stages if s.reduced(x))
    made = two_matrices(s, stage)
    assert made is not None
    assert contraction(made, stage) is not None
    assert_equivalent(s, made)


def test_no_operand_is_stored_that_is_a_matrix_already() -> None:
    x, y = placeholders("float32", x=(6, 6), y=(6, 6))
    s = lp.Schedule(x @ y)
    assert two_matrices(s, s.stages[0]) is None
    assert materialized(s, s.stages[0]) is s


SEVERAL = {
    "bqm,hdm->bqhd": ((2, 8, 4), (2, 4, 4)),
    "bsm,bsn->mn": ((2, 4, 3), (2, 4, 5)),
    "nchw,oc->nohw": ((2, 3, 4, 8), (5, 3)),
    "bqhd,hdm->bqm": ((2, 3, 2, 4), (2, 4, 3)),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_loops_that_count_one_dimension_become_one(form: str) -> None:
    one, other = SEVERAL[form]
    s = lp.Schedule(lp.einsum(form, *placeholders("float32", x=one, y=other)) * 2.0)
    (stage,) = (x for x in s.stages if s.reduced(x))
    made = fuse_product_loops(s, stage)
    assert len(made.loops(stage)) < len(s.loops(stage))
    assert_equivalent(s, made)


def test_a_batch_stays_apart() -> None:
    s = lp.Schedule(lp.einsum("bhqd,bhkd->bhqk", *placeholders("float32", x=(2, 2, 4, 4), y=(2, 2, 4, 4))))
    assert fuse_product_loops(s, s.stages[0]) is s


@pytest.mark.parametrize(
    ("form", "shapes"),
    [("bqm,hdm->bqhd", ((2, 64, 32), (4, 32, 32))), ("bqm,hmd->hbqd", ((2, 16, 32), (2, 32, 32)))],
)
def test_rows_and_columns_of_several_loops_are_multiplied_on_tensor_cores(form: str, shapes: Any) -> None:
    x, w = placeholders(BF, x=shapes[0], w=shapes[1])
    s = lp.Schedule(lp.einsum(form, x, w))
    made = gpu(normal_form(s), arch="sm_90a")
    assert any(k.work.tensor for k in made.report(arch="sm_90a").kernels)
    (program,) = lp.lower(made, "cuda")
    a, b = (RNG.integers(-3, 4, t.shape).astype(t.dtype.numpy) for t in (x, w))
    out = s.func.args[-1].buffer.name
    np.testing.assert_array_equal(lp.interpret(program, [a, b], seed=1)[out], lp.interpret(s.func, [a, b])[out])


def test_whole_tiles_of_a_batch_keep_the_copies_of_a_plain_product() -> None:
    """Rows of a batch, as one, are a view, of which tiles are copied without warps of their own: predicted slower."""
    a, b = (lp.placeholder(x, "bfloat16", name=n) for n, x in (("a", (16, 1024, 512)), ("b", (512, 1024))))
    assert "specialize_warps" in schedules.auto(lp.Schedule(a @ b), "cuda", arch="sm_90a").script()


def test_heads_of_a_product_are_tiles_that_several_of_them_fill() -> None:
    """Columns of a tile are those of several heads, of which the weights have a dimension."""
    x, w = placeholders(BF, x=(64, 32), w=(8, 16, 32))
    s = lp.Schedule((x @ w.reshape(128, 32).transpose(1, 0)).reshape(64, 8, 16))
    made = gpu(normal_form(s), arch="sm_90a")
    assert len(made.report(arch="sm_90a").kernels) == 1
    assert any(k.work.tensor for k in made.report(arch="sm_90a").kernels)
    (program,) = lp.lower(made, "cuda")
    a, b = (RNG.integers(-3, 4, t.shape).astype(t.dtype.numpy) for t in (x, w))
    got = lp.interpret(program, [b, a] if made.func.args[0].buffer.name == "w" else [a, b], seed=1)["out"]
    want = a.astype(np.float32) @ b.reshape(128, 32).T.astype(np.float32)
    np.testing.assert_array_equal(got.astype(np.float32), want.reshape(64, 8, 16))


def test_loops_have_the_extents_of_what_they_count() -> None:
    s = lp.Schedule(lp.einsum("bqm,mn->bqn", *placeholders("float32", x=(3, 4, 5), y=(5, 6))))
    made = fuse_product_loops(s, s.stages[0])
    assert [extent(made, x) for x in made.loops(made.stages[0])] == [12, 6, 5]


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 5), st.integers(2, 6), st.integers(2, 5), st.integers(2, 3), st.data())
def test_one_number_of_each_pair_is_stored_as_a_matrix(
    rows: int, depth: int, columns: int, several: int, data: st.DataObject
) -> None:
    a = lp.placeholder((rows, depth, several), name="a")
    b = lp.placeholder((depth, columns, several), name="b")
    x, y = (data.draw(st.integers(0, several - 1)) for _ in range(2))
    s = lp.Schedule(a[..., x] @ b[..., y])
    (stage,) = s.stages
    made = two_matrices(s, stage)
    assert made is not None
    assert not any(is_strided(made, stage, t) for t in made.accesses(stage))
    assert_equivalent(s.func, made.func)


def test_products_of_pairs_of_numbers_are_tiles() -> None:
    """Four products of 512 x 512 x 512 in float32: without copies, a sector is read for each number."""
    a, b = (lp.placeholder((512, 512, 2), name=x) for x in "ab")
    (c, d), (e, f) = ((x[..., 0], x[..., 1]) for x in (a, b))
    s = lp.Schedule(lp.stack([c @ e - d @ f, c @ f + d @ e], axis=-1))
    assert lp.predict(schedules.auto(s, "cuda", arch="sm_90a"), "cuda", arch="sm_90a").seconds < 1.0e-4


@given(st.sampled_from(["float32", "bfloat16"]), st.integers(1, 4), st.integers(1, 9), st.booleans())
@settings(max_examples=4, deadline=None)
def test_sums_over_blocks_with_scales_are_sums_over_one_loop(dtype: str, blocks: int, length: int, both: bool) -> None:
    a, b = (lp.placeholder((rows, blocks * length), dtype, name=x) for x, rows in (("a", 6), ("b", 5)))
    scale, other = (lp.placeholder((rows, blocks), "float32", name=x) for x, rows in (("sa", 6), ("sb", 5)))
    left = lp.reshape(a, (6, blocks, length)) * scale[:, :, None]
    right = lp.reshape(b, (5, blocks, length)).astype("float32")
    s = lp.Schedule(lp.einsum("mgk,ngk->mn", left, right * other[:, :, None] if both else right))
    (stage,) = s.stages
    made = summed_along_one(s, stage)
    assert len(made.reduced(stage)) == 1
    assert_equivalent(s, made)


def test_sums_over_blocks_with_scales_are_stored_for_tiles() -> None:
    a, b = (lp.placeholder((256, 512), "float32", name=x) for x in "ab")
    scale = lp.placeholder((256, 4), "float32", name="s")
    factors = [lp.reshape(x, (256, 4, 128)) * scale[:, :, None] for x in (a, b)]
    s = lp.Schedule(lp.einsum("mgk,ngk->mn", *factors))
    made = stored_operands(s, "einsum")
    assert len(made.stages) == 3
    assert is_tiled(made, "einsum")


def test_windows_of_computed_elements_stay_sums_over_several_loops() -> None:
    x, w = lp.placeholder((2, 66, 66), "float32", name="x"), lp.placeholder((8, 2, 3, 3), "float32", name="w")
    scale = lp.placeholder((2,), "float32", name="s")
    c, i, j = (lp.reduce_axis(n, name=v) for n, v in ((2, "c"), (3, "i"), (3, "j")))
    y = lp.compute(
        (8, 64, 64), lambda k, p, q: lp.sum(scale[c] * x[c, p + i, q + j] * w[k, c, i, j], axis=(c, i, j)), name="y"
    )
    s = lp.Schedule(y)
    assert summed_along_one(s, "y") is s
