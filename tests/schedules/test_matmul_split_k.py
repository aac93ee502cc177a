"""Products whose reduced loop is cut in parts, of any length: exact, and predicted faster where there are few tiles."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
from loopir.interp.interpret import interpret
from schedules.common.contraction import separate_operands
from schedules.common.fusion import inlined
from schedules.common.operands import alone
from schedules.cuda.matmul_split_k import matmul_simt_split, matmul_split


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


@pytest.mark.parametrize(("columns", "copies"), [(18, "cp_async_bf16x2"), (20, "cp_async_bf16x4")])
def test_rows_that_are_no_whole_vectors_are_copied_by_shorter_ones(columns: int, copies: str) -> None:
    """One array on both sides, of which no copy is left; many parts, which a second launch folds."""
    a = lp.placeholder((286, columns), "bfloat16", name="a")
    s = separate_operands(lp.Schedule(a.T @ a), "matmul")
    s, stage = alone(s, "matmul")
    made = matmul_split(
        s, stage, parts=9, block=(32, 32), warps=(1, 2), depth=16, stages=2, warpgroups=False, within=("a_at",)
    )
    assert len(lp.nests(made.func)) == 2
    assert copies in str(made)
    x = np.random.default_rng(0).integers(-3, 4, (286, columns)).astype(ml_dtypes.bfloat16)
    got = lp.interpret(lp.lower(made, "cuda")[0], [x])["out"]
    np.testing.assert_array_equal(got, (x.T.astype(np.float32) @ x.astype(np.float32)).astype(ml_dtypes.bfloat16))
