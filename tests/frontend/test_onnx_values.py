"""Known arrays as expressions: numbers, tensors of one number and sizes take no argument of the kernel."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp

onnx = pytest.importorskip("onnx")
from loopir.frontend.onnx.values import constant, objects, simplified_array, sizes_array  # noqa: E402


def refuse(x: object) -> lp.Tensor:
    raise AssertionError("stored")


@settings(deadline=None)
@given(value=st.integers(-9, 9), shape=st.lists(st.integers(0, 3), max_size=3), t=st.sampled_from(["int8", "float32"]))
def test_an_array_of_one_number_is_no_argument(value: int, shape: list[int], t: str) -> None:
    x = np.full(shape, value, t)
    made = constant(x, refuse)
    assert made.shape == x.shape
    assert made.dtype.numpy == x.dtype
    assert np.array_equal(lp.Schedule(made).build("interpret")(), x)


def test_sizes_become_values() -> None:
    n = lp.symbol("n")
    sizes = sizes_array([n, n * 2, 5])
    assert sizes.dtype == object
    x = lp.placeholder((n,), "float32", name="x")
    made = constant(sizes, refuse) + lp.cast(x.sum(), "int64")
    assert lp.Schedule(made).build("interpret")(np.zeros(3, np.float32)).tolist() == [3, 6, 5]


def test_objects_that_are_numbers_are_an_array_of_numbers() -> None:
    assert simplified_array(objects([1, 2], (2,))).dtype == np.int64
    assert simplified_array(objects([True], (1,))).dtype == np.bool_
