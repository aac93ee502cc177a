"""Sweeps that carry dependences along both loops run by diagonals of a few rows where chains are long, and right."""

import numpy as np
import pytest

import loopir as lp
import schedules
from schedules.llvm.diagonals import diagonals

PROGRAMS = {
    "Gauss-Seidel": ("float64", """
def f(A: "inout float64[{rows} + 2, 66]"):
    for i in range({rows}):
        for j in range(64):
            A[i + 1, j + 1] = 0.25 * (A[i, j + 1] + A[i + 1, j] + A[i + 1, j + 2] + A[i + 2, j + 1])
"""),
    "neighbours at corners, in time": ("float64", """
def f(A: "inout float64[{rows} + 2, 66]"):
    for t in range(3):
        for i in range({rows}):
            for j in range(64):
                A[i + 1, j + 1] = (A[i, j] + A[i, j + 1] + A[i, j + 2] + A[i + 1, j] + A[i + 2, j + 2]) / 5.0
"""),
    "sums of rectangles": ("float32", """
def f(A: "inout float32[{rows} + 1, 65]"):
    for i in range({rows}):
        for j in range(64):
            A[i + 1, j + 1] = A[i + 1, j + 1] + A[i, j + 1] + A[i + 1, j] - A[i, j]
"""),
}  # fmt: skip


@pytest.mark.parametrize("rows", [32, 37])
@pytest.mark.parametrize("name", PROGRAMS)
def test_diagonals_give_what_the_sweep_gives(name: str, rows: int) -> None:
    dtype, text = PROGRAMS[name]
    s = lp.Schedule(lp.parse(text.replace("{rows} + 1", str(rows + 1)).replace("{rows} + 2", str(rows + 2))
                             .replace("{rows}", str(rows))))  # fmt: skip
    made = schedules.auto(s, "llvm")
    assert "wavefront" in made.script()
    x = np.random.default_rng(rows).integers(0, 9, (rows + 1 + (dtype == "float64"), 65 + (dtype == "float64")))
    found, wanted = x.astype(dtype), x.astype(dtype)
    made.build("llvm")(found)
    s.build("llvm")(wanted)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("text", [
    "for i in range(32):\n        for j in range(64):\n            A[i + 1, j] = A[i, j] + 1.0",  # rows alone
    "for i in range(32):\n        for j in range(64):\n            A[i, j + 1] = A[i, j] + 1.0",  # columns alone
    "for i in range(4):\n        for j in range(64):\n            A[i + 1, j + 1] = A[i, j + 1] + A[i + 1, j]",  # few
])  # fmt: skip
def test_other_sweeps_are_left_as_they_are(text: str) -> None:
    s = lp.Schedule(lp.parse(f'def f(A: "inout float64[33, 66]"):\n    {text}\n'))
    assert diagonals(s, s.stages[0]).func == s.func


def test_chains_of_one_cycle_are_left_as_they_are() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(x: "int32[64]", y: "int32[64]", A: "inout int32[65, 65]"):
    for i in range(64):
        for j in range(64):
            A[i + 1, j + 1] = select(x[i] == y[j], A[i, j] + 1, maximum(A[i, j + 1], A[i + 1, j]))
""")
    )
    assert diagonals(s, s.stages[0]).func == s.func
