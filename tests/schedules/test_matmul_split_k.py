"""Products whose reduced loop is cut in parts, of any length: exact, and predicted faster where there are few tiles."""

from __future__ import annotations

import numpy as np

import loopir as lp
from loopir.interp.interpret import interpret
from schedules.common.fusion import inlined
from schedules.cuda.matmul_split_k import matmul_simt_split


def test_parts_of_float32_whose_last_is_shorter_add_up() -> None:
    a, b = lp.placeholder((100, 24), name="a"), lp.placeholder((100, 19), name="b")
    s = inlined(lp.Schedule(lp.relu(a.T @ b).named("y")))
    stage = next(x for x in s.stages if s.reduced(x))
    with lp.scheduling_for(lp.machine("sm_86")):
        s = matmul_simt_split(s, stage, block=(32, 32), part=(4, 4), parts=3, depth=16)
        (lowered,) = lp.lower(s, "cuda")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((100, 24), (100, 19)))
    np.testing.assert_array_equal(interpret(lowered, {"a": x, "b": y})["y"], np.maximum(x.T @ y, 0))
