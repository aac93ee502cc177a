"""Which products are worth tiles, and which row of the table multiplies them."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.common.contraction import contraction
from schedules.cuda.matmul_simt import matmul_simt
from schedules.cuda.tiled_products import PRODUCTS, _converted_product, is_product, is_tiled

RNG = np.random.default_rng(0)


def matmul(m: int, n: int, k: int, dtype: str) -> lp.Schedule:
    a, b = lp.placeholder((m, k), dtype, name="A"), lp.placeholder((k, n), dtype, name="B")
    c = lp.reduce_axis(k, name="k")
    wide = "int32" if dtype == "int8" else "float32"
    f = lambda i, j: lp.sum(lp.cast(a[i, c], wide) * lp.cast(b[c, j], wide), axis=c)  # noqa: E731
    return lp.Schedule(lp.compute((m, n), f, name="C"))


@pytest.mark.parametrize(
    ("sizes", "dtype", "row"),
    [
        ((128, 128, 128), "bfloat16", "16 bits on tensor cores"),
        ((2048, 2048, 64), "float32", "whole tiles of float32"),
        ((1000, 1000, 100), "float32", "float32 in the cheapest tiles"),
        ((40, 40, 40), "float32", "float32 in the cheapest tiles"),
    ],
)
def test_a_product_is_for_the_first_unit_that_takes_it(sizes: tuple[int, int, int], dtype: str, row: str) -> None:
    s = matmul(*sizes, dtype)
    with lp.scheduling_for(lp.machine("sm_90a")):
        assert is_tiled(s, "C")
        assert next(r.name for r in PRODUCTS if r.matches(s, "C")) == row


def test_a_product_of_few_rows_is_not_worth_tiles() -> None:
    s = matmul(8, 128, 128, "float32")
    assert contraction(s, "C") is not None
    assert not is_product(s, "C")


def test_rows_of_a_reshaped_array_are_multiplied_on_tensor_cores() -> None:
    """Tiles of rows that cross from one image of 20 rows to the next are no boxes; a copy has them side by side."""
    x, w = (lp.placeholder(shape, "bfloat16", name=n) for n, shape in (("x", (2, 20, 16)), ("w", (16, 16))))
    s = lp.Schedule((x.reshape((40, 16)) @ w).reshape((2, 20, 16)))
    made = schedules.gpu(s, arch="sm_90a")
    assert any(k.work.tensor for k in made.report(arch="sm_90a").kernels)
    a, b = (RNG.integers(-3, 4, t.shape).astype(t.dtype.numpy) for t in (x, w))
    (program,) = lp.lower(made, "cuda")
    got = lp.interpret(program, [a, b], seed=1)
    np.testing.assert_array_equal(
        got[made.func.args[-1].buffer.name], lp.interpret(s.func, [a, b])[s.func.args[-1].buffer.name]
    )


@pytest.mark.parametrize("form", ["flat left", "flat right", "merged heads"])
def test_elements_of_a_view_are_found_where_tiles_are_copied(form: str) -> None:
    a = lp.placeholder(((64 * 64,) if form == "flat left" else (64, 64)), "bfloat16", name="a")
    w = lp.placeholder(((64 * 64,) if form == "flat right" else (64, 64)), "bfloat16", name="w")
    if form == "merged heads":
        a = lp.placeholder((2, 2, 32, 32), "bfloat16", name="a")
        left = a.transpose((0, 2, 1, 3)).reshape((64, 64))
    else:
        left = a.reshape((64, 64))
    s = lp.Schedule((left @ w.reshape((64, 64))).named("y"))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    found = made.report(arch="sm_90a").kernels
    assert len(found) == 1
    assert found[0].work.tensor
    arrays = {str(t.name): RNG.integers(-3, 4, t.shape).astype(t.dtype.numpy) for t in (a, w)}
    (program,) = lp.lower(made, "cuda")
    np.testing.assert_array_equal(lp.interpret(program, arrays, seed=1)["y"], lp.interpret(s.func, arrays)["y"])


def test_few_long_sums_are_tiles_in_parts() -> None:
    """A thread for each sum would leave a GPU idle, and add its terms one after the other."""
    x, y = (lp.placeholder((2051, n), "float32", name=name) for name, n in (("x", 3), ("y", 40)))
    first, *_ = schedules.auto(lp.Schedule(x.T @ y), "cuda", arch="sm_90a").report(arch="sm_90a").kernels
    assert first.work.blocks >= 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_steps_of_many_rows_and_columns_are_folded_in_tiles(dtype: str) -> None:
    """Of any function of two operands: how often each is used does not depend on how many steps there are."""
    x, y = lp.placeholder((1024, 16), dtype, name="x"), lp.placeholder((512, 16), dtype, name="y")
    s = lp.Schedule(lp.sum(lp.abs(x[:, None] - y[None]), axis=2))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert sum(made.buffer(b).scope == "shared" for b in made.buffers) == 2
    assert lp.predict(made, "cuda", arch="sm_90a").seconds < 1e-5


@pytest.mark.parametrize("steps", [2, 5])
def test_tiles_of_few_steps_are_right(steps: int) -> None:
    x, y = lp.placeholder((70, steps), "float32", name="x"), lp.placeholder((33, steps), "float32", name="y")
    s = lp.Schedule(lp.sum(lp.abs(x[:, None] - y[None]), axis=2))
    with lp.scheduling_for(lp.machine("sm_90a")):
        assert_equivalent(s, matmul_simt(s, "sum", block=(32, 32), part=(4, 4)))


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_operands_of_other_types_are_converted_to_float32_for_its_tiles(dtype: str) -> None:
    """Tiles of any type are not cut in parts, and a block of threads waits for each copy."""
    x, w = lp.placeholder((64, 1024), "float32", name="x"), lp.placeholder((1024, 512), dtype, name="w")
    s = lp.Schedule(x @ w.astype("float32"))
    with lp.scheduling_for(lp.machine("sm_90a")):
        made = _converted_product(s, "matmul")
    assert lp.predict(made, "cuda", arch="sm_90a").seconds < 2e-5


def test_products_of_converted_operands_are_right() -> None:
    x, w = lp.placeholder((33, 40), "float32", name="x"), lp.placeholder((36, 40), "int8", name="w")
    s = lp.Schedule(x @ w.astype("float32").T)
    with lp.scheduling_for(lp.machine("sm_90a")):
        assert_equivalent(s, _converted_product(s, "matmul"))


@pytest.mark.parametrize(
    ("shape", "dtype", "arch", "first"),
    [
        ((96, 32), "float32", "sm_90a", True),
        ((65, 20), "float32", "sm_90a", True),
        ((128, 64), "bfloat16", "sm_90a", True),
        ((64, 128), "bfloat16", "sm_90a", False),
        ((70, 33), "float16", "sm_80", True),
        ((3, 27, 40), "bfloat16", "sm_90a", True),
    ],
)
def test_an_array_that_is_both_operands_is_copied_to_tiles_alone(
    shape: tuple[int, ...], dtype: str, arch: str, first: bool
) -> None:
    x = lp.placeholder(shape, dtype, name="x")
    turned = lp.swapaxes(x, -1, -2)
    s = lp.Schedule(x @ turned if first else turned @ x)
    made = schedules.auto(s, "cuda", arch=arch)
    assert lp.predict(made, "cuda", arch=arch).kernels == 1
    with lp.scheduling_for(lp.machine(arch)):
        (lowered,) = lp.lower(made, "cuda")
    given = np.random.default_rng(shape[0]).integers(1, 9, shape).astype(x.dtype.numpy)  # no term is 0
    (got,), (want,) = (lp.interpret(f, [given]).values() for f in (lowered, s.func))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("parts", "axis", "left"), [((48, 80), 1, True), ((48, 80), 0, True), ((64, 64), 0, False), ((35, 93), 1, False)]
)
def test_parts_of_an_operand_are_copied_to_tiles_from_where_they_are(
    parts: tuple[int, int], axis: int, left: bool, arch: str
) -> None:
    """A concatenation, along rows or columns of either operand, is no launch of its own."""
    shapes = [(n, 128) if axis == 0 else (128, n) for n in parts]
    shapes.append((128, 64) if left else (64, 128))
    a, b, c = (lp.placeholder(x, "bfloat16", name=n) for n, x in zip("abc", shapes, strict=True))
    whole = lp.concatenate([a, b], axis=axis)
    s = lp.Schedule(whole @ c if left else c @ whole)
    made = schedules.auto(s, "cuda", arch=arch)
    assert lp.predict(made, "cuda", arch=arch).kernels == 1
    with lp.scheduling_for(lp.machine(arch)):
        (lowered,) = lp.lower(made, "cuda")
    rng = np.random.default_rng(0)
    args = {x.buffer.name: rng.integers(-3, 4, [d.value for d in x.buffer.shape]) for x in s.func.args[:3]}
    (found,), (want,) = (lp.interpret(f, args, domain="ring").values() for f in (lowered, s.func))
    np.testing.assert_array_equal(found, want)
