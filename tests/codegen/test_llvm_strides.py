"""Lanes that read elements at a distance: whole vectors are loaded, and nothing beside the first and the last."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.codegen.llvm.emit import emit

Array = np.ndarray[Any, Any]


def picked(stride: int, lanes: int, dtype: str, count: int = 3) -> tuple[lp.Schedule, Array, Array]:
    """Every so manieth element, the first or the last of which is the array's last one, in vectors."""
    n = count * lanes
    size = abs(stride) * (n - 1) + 1
    first = 0 if stride > 0 else size - 1
    x = lp.placeholder((size,), dtype, name="x")
    s = lp.Schedule(lp.compute((n,), lambda i: x[i * stride + first], name="y"))
    given = np.random.default_rng(0).integers(0, 100, size).astype(lp.placeholder((1,), dtype, name="p").dtype.numpy)
    return s.split("i", lanes).vectorize("i_i"), given, given[first::stride] if stride > 0 else given[::stride]


@pytest.mark.parametrize("stride", [-4, -3, -2, -1, 2, 3, 4, 5, -7])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "bfloat16"])
def test_elements_at_a_distance(stride: int, lanes: int, dtype: str) -> None:
    s, given, expected = picked(stride, lanes, dtype)
    np.testing.assert_array_equal(s.build("llvm")(given), expected)


@pytest.mark.parametrize("stride", [-4, -3, -2, -1, 2, 3, 4])
def test_loads_are_of_vectors_between_the_first_and_the_last(stride: int) -> None:
    s, _, _ = picked(stride, 8, "float32", count=1)
    (program,) = lp.lower(s, "llvm")
    source = emit(program).source
    assert source.count("load <8 x float>") == abs(stride)
    assert "load float" not in source


@pytest.mark.parametrize("index", ["(i + 1) // 2", "7 - i // 3", "i % 4", "min(i, 3)", "max(2, i) * 1"])
def test_a_pattern_of_lanes_is_picked_from_one_vector(index: str) -> None:
    """What lies where a number of the lane says is loaded with all between, and nothing outside."""
    s = lp.Schedule(lp.parse(
        f'def f(x: "float32[3, 8]", y: "out float32[3, 8]"):\n    for j in range(3):\n        for i in range(8):\n'
        f"            y[j, i] = x[j, {index}]\n"
    )).vectorize("i")  # fmt: skip
    given = np.arange(24, dtype=np.float32).reshape(3, 8)
    at = [eval(index, {"i": i, "min": min, "max": max}) for i in range(8)]
    np.testing.assert_array_equal(s.build("llvm")(given), given[:, at])
    (program,) = lp.lower(s, "llvm")
    assert "load float" not in emit(program).source


def test_a_guard_is_one_mask_where_rows_are_no_whole_vectors() -> None:
    x = lp.placeholder((5, 43), "float32", name="x")
    s = schedules.cpu(lp.Schedule(lp.compute((5, 43), lambda i, j: x[i, 42 - j], name="y")), lanes=8)
    assert lp.text(s.func).count(" if ") == 1
    assert "for j_o in range(5):" in lp.text(s.func)
    given = np.arange(215, dtype=np.float32).reshape(5, 43)
    np.testing.assert_array_equal(s.build("llvm")(given), given[:, ::-1])
