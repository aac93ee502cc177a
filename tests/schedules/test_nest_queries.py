"""Questions about nests: a length that is read from memory is no constant."""

import warnings

import numpy as np
import pytest

import loopir as lp
import schedules
from schedules.common.nest_queries import extent

RAGGED = """
def f(n: "size", m: "size", x: "float32[n, m]", length: "int32[n]", y: "out float32[n]"):
    for i in range(n):
        y[i] = 0.0
        for j in range(length[i]):
            y[i] += x[i, j]
"""


def test_the_length_of_a_loop_is_known_where_it_is_a_constant() -> None:
    s = lp.Schedule(lp.fix_sizes(lp.parse(RAGGED), {"n": 3}))
    assert [extent(s, x) for x in s.loops()] == [3, None]


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_no_recipe_fails_where_memory_decides_how_long_a_loop_is(target: str) -> None:
    s = lp.Schedule(lp.parse(RAGGED))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        (made,) = lp.lower(schedules.auto(s, target, arch="sm_90a"), target)
    x, length = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([4, 0, 2], np.int32)
    found = lp.interpret(made, {"x": x, "length": length}, {"n": 3, "m": 4})
    np.testing.assert_array_equal(found["y"], [6, 0, 17])
