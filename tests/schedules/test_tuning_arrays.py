"""Inputs of measurements, and comparisons of their results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from loopir.schedules.tuning.arrays import difference, input_arrays, mostly_numbers, output_arrays, tolerance

import loopir as lp


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float8_e4m3fn", "int8", "uint16", "bool"])
def test_inputs_are_the_same_each_time_and_results_begin_as_none_ends(dtype: str) -> None:
    x = lp.placeholder((7, 5), dtype, name="x")
    s = lp.Schedule(lp.compute((5, 7), lambda i, j: x[j, i], name="y"))
    signature = s.build("interpret").signature
    (a,), (b,), (out,) = input_arrays(signature, ()), input_arrays(signature, ()), output_arrays(signature, ())
    assert (a == b).all()
    assert a.shape == (7, 5)
    assert out.shape == (5, 7)
    assert a.dtype == out.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype != "bool":
        assert not np.isin(out[0, 0].astype(np.float64), a.astype(np.float64))


def test_a_difference_is_found_and_said() -> None:
    wanted = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    assert difference([wanted + np.float32(1e-7)], [wanted], ["y"], 1e-5) == ""
    found = wanted.copy()
    found[2, 1] = 0.9
    assert "1 elements of y are wrong: at [2, 1] it gives 0.9" in difference([found], [wanted], ["y"], 1e-5)
    numbers = np.arange(4)
    assert "2 elements of n" in difference([numbers + (numbers > 1)], [numbers], ["n"], 1.0)
    odd = np.array([np.nan, np.inf, 1.0])
    assert difference([odd], [odd.copy()], ["y"], 0.0) == ""
    assert "[0]" in difference([np.array([0.0, np.inf, 1.0])], [odd], ["y"], 1e-3)
    assert mostly_numbers([odd, numbers]) is False
    assert mostly_numbers([wanted]) is True


def test_integers_are_exact_and_coarse_types_coarse() -> None:
    def of(dtype: str, terms: float) -> float:
        return tolerance(
            lp.Schedule(lp.placeholder((4,), dtype, name="x") + lp.placeholder((4,), dtype, name="z")), terms
        )

    assert of("int32", 1000.0) == 0.0
    assert of("float64", 1.0) < of("float32", 1.0) < of("float32", 10000.0) < 1e-3 < of("bfloat16", 1.0)
