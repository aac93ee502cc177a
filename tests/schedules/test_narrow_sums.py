"""Sums of small integers: in int32, and products of bytes by what multiplies bytes."""

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.common.narrow_sums import narrow_sums


@pytest.mark.parametrize("result", [False, True])
def test_products_of_bytes_are_as_those_in_int32(result: bool) -> None:
    x, w = lp.placeholder((32, 64), "int8", name="x"), lp.placeholder((64, 64), "int8", name="w")
    sums = lp.sum(x.astype("int32")[:, :, None] * w.astype("int32")[None], axis=1)
    s = lp.Schedule(sums if result else lp.relu(sums * 2))
    t = schedules.cpu(s)
    assert any(step.name.startswith("matmul_") for step in t.trace)
    assert any(t.buffer(x).dtype.name == "int32" for x in t.buffers)
    rng = np.random.default_rng(0)
    a, b = (np.where(rng.random(n) < 0.5, -128, 127).astype("int8") for n in ((32, 64), (64, 64)))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(t.build("llvm")(a, b), exact if result else np.maximum(exact * 2, 0))


def test_sums_that_may_not_fit_stay_as_they_are() -> None:
    x = lp.placeholder((3, 70000), "int16", name="x")
    s = lp.Schedule(lp.sum(x, axis=1) + 1)
    assert narrow_sums(s).func == s.func
    t = narrow_sums(lp.Schedule(lp.sum(x[:, :40], axis=1) + 1))
    assert "int32[3]" in lp.text(t.func)
    assert_equivalent(lp.Schedule(lp.sum(x[:, :40], axis=1) + 1), t)


def test_a_product_of_bytes_is_on_tensor_cores_of_a_gpu() -> None:
    """As NumPy has it, the sum is of int64, which no instruction takes."""
    a, b = (lp.placeholder((256, 256), "int8", name=x) for x in "ab")
    s = lp.Schedule(lp.sum(lp.cast(a, "int32")[:, :, None] * lp.cast(b, "int32")[None, :, :], axis=1))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert made.instructions
    plain = lp.Schedule(lp.sum(lp.placeholder((256, 256), "float32", name="x"), axis=1))
    assert narrow_sums(plain) is plain
