"""Stages of a graph: what is written twice is one stage, and others stay apart."""

from typing import Any

import numpy as np

import loopir as lp


def test_what_is_written_twice_is_one_stage() -> None:
    x, y = lp.placeholder((4, 6), "float32", name="x"), lp.placeholder((6, 4), "float32", name="y")

    def rows() -> Any:
        return (x - x.mean(axis=1, keepdims=True)) @ y

    s = lp.Schedule(rows() * lp.sigmoid(rows()))
    assert [x for x in s.stages if s.reduced(x)] == ["sum", "matmul"]
    a, b = (np.random.default_rng(0).standard_normal(t.shape).astype(np.float32) for t in (x, y))
    z = (a - a.mean(axis=1, keepdims=True)) @ b
    np.testing.assert_allclose(s.build("interpret")(a, b), z / (1.0 + np.exp(-z)), rtol=1e-5, atol=1e-6)


def test_stages_of_other_names_types_or_operands_stay_apart() -> None:
    x, y = lp.placeholder((4, 4), "float32", name="x"), lp.placeholder((4, 4), "float32", name="y")
    assert len(lp.Schedule(x @ y + (x @ y).named("again")).stages) == 3
    assert len(lp.Schedule(x @ y + y @ x).stages) == 3
    assert len(lp.Schedule([x @ y, x @ y]).stages) == 2, "each output has memory of its own"
