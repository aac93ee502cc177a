"""Nests that shuffle rows of their own, a row in each lane: they mean the same, and are recognized."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.llvm.rows_in_lanes import rows_in_lanes

SHUFFLED = """
def shuffled(x: "int32[{rows}, {n}]", y: "out int32[{rows}, {n}]"):
    with alloc("int32[{rows}, 2, {n}]") as t:
        for r in range({rows}):
            for i in range({n}):
                t[r, 0, i] = x[r, i]
            for k in range({steps}):
                for i in range({half}):
                    t[r, (k + 1) % 2, i * 2] = minimum(t[r, k % 2, i], t[r, k % 2, i + {half}])
                    t[r, (k + 1) % 2, i * 2 + 1] = maximum(t[r, k % 2, i], t[r, k % 2, i + {half}])
            for i in range({n}):
                y[r, i] = t[r, {steps} % 2, i]
"""


def shuffled(rows: int, half: int, steps: int) -> lp.Schedule:
    return lp.Schedule(lp.parse(SHUFFLED.format(rows=rows, n=2 * half, half=half, steps=steps)))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 20), st.integers(1, 9), st.integers(1, 3), st.sampled_from((4, 8)))
def test_rows_in_lanes_mean_the_same(rows: int, half: int, steps: int, lanes: int) -> None:
    s = shuffled(rows, half, steps)
    made = rows_in_lanes(s, s.stages[0], lanes=lanes)
    assert any(x.kind == "vectorize" for x in map(made.loop, made.loops())) == (rows >= lanes)
    x = np.random.default_rng(rows).integers(-9, 9, (rows, 2 * half)).astype(np.int32)
    (want,) = lp.interpret(s.func, {"x": x}).values()
    (got,) = lp.interpret(made.func, {"x": x}).values()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(made.build("llvm")(x), want)


def test_what_lies_along_rows_is_turned_in_registers() -> None:
    made = schedules.cpu(shuffled(64, 16, 2), lanes=16)
    copies = [x for x in made.stages if made.loop(made.loops(x)[-1]).kind == "vectorize"]
    reads = {t.buffer: t.contiguous(made.loops(x)[-1]) for x in copies for t in made.accesses(x)}
    assert reads["x"]
    assert reads["y"]


@pytest.mark.parametrize("rows", [64, 61])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_sorted_in_lanes(rows: int, descending: bool) -> None:
    a = np.random.default_rng(rows).integers(-9, 9, (rows, 70)).astype(np.float32)
    a[a == 3], a[a == 5], a[a == 7] = np.nan, np.inf, -np.inf
    x = lp.placeholder(a.shape, "float32", name="x")
    made = schedules.cpu(lp.Schedule([lp.sort(x, descending=descending), lp.argsort(x, descending=descending)]))
    values, places = made.build("llvm")(a)
    ranks = np.stack([np.unique(row, return_inverse=True)[1] for row in a])  # NaN last, and equal to NaN
    order = np.argsort(-ranks if descending else ranks, axis=1, kind="stable")
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(a, order, 1))
    lanes = [made.loop(x) for x in made.loops() if made.loop(x).kind == "vectorize"]
    assert any(len(x.body) == 1 and getattr(x.body[0], "buffer", None) is not None for x in lanes)


OTHERS = {
    "rows that depend on one another": """
    for r in range(15):
        for i in range(4):
            t[r + 1, i] = t[r, 3 - i] + x[r, i]
        for i in range(4):
            y[r, i] = t[r + 1, i]""",
    "nothing is shuffled": """
    for r in range(16):
        for i in range(4):
            t[r, i] = x[r, i]
        for i in range(4):
            y[r, i] = t[r, i]""",
    "a statement alone": """
    for r in range(16):
        for i in range(4):
            y[r, i] = x[r, 3 - i]""",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_nests_are_left_as_they_are(name: str) -> None:
    text = f'def f(x: "int32[16, 4]", y: "inout int32[16, 4]"):\n  with alloc("int32[16, 4]") as t:{OTHERS[name]}'
    s = lp.Schedule(lp.parse(text.replace("\n    ", "\n      ")))
    made = rows_in_lanes(s, s.stages[-1])
    assert made.func == s.func
    assert_equivalent(s, schedules.cpu(s))
