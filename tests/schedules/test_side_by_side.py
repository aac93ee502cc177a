"""Products that share an operand in one launch: `merge` of their grids, on warps and on warpgroups."""

import numpy as np
import pytest
from side_by_side import side_by_side

import loopir as lp
from loopir import schedules
from loopir.interp.interpret import interpret
from schedules.cuda.matmul_mma import matmul_mma
from schedules.cuda.matmul_wgmma import matmul_wgmma


def test_two_products_are_one_launch_and_both_right() -> None:
    s = side_by_side(matmul_mma, 64, 32, 64, 32, block=(32, 32), warps=(1, 1), depth=16, group=2)
    (func,) = lp.lower(s, "cuda")
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-2, 3, x) for x in ((64, 32), (32, 32), (32, 64)))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(func, [x.astype(bf16) for x in (a, b, c)])
    one, other = (found[x.buffer.name].astype(np.float32) for x in func.args if x.access == "out")
    assert np.array_equal(one, np.maximum(a @ b, 0))
    assert np.array_equal(other, a @ c)
    assert len(lp.compile_source(s, "sm_80").resources) == 1


@pytest.mark.parametrize("stages", [1, 4])
def test_warpgroups_of_two_products_share_a_grid(stages: int) -> None:
    s = side_by_side(matmul_wgmma, 256, 256, 384, 256, block=(128, 128), group=2, stages=stages, roles=False)
    (used,) = lp.compile_source(s, "sm_90a").resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0


def test_three_products_share_a_grid_and_its_blocks_have_the_memory_of_one() -> None:
    s = side_by_side(matmul_wgmma, 256, 128, 128, 128, 256, block=(128, 64), stages=4, roles=True)
    alone = lp.placeholder((256, 256), "bfloat16", name="a") @ lp.placeholder((256, 128), "bfloat16", name="b")
    one = matmul_wgmma(lp.Schedule(alone), "matmul", block=(128, 64), stages=4, roles=True)
    (whole,), (part,) = (x.report("sm_90a").kernels for x in (s, one))
    assert whole.work.blocks == 3 * part.work.blocks
    assert part.work.shared_bytes <= whole.work.shared_bytes <= part.work.shared_bytes + 1024
    assert whole.resident == part.resident


def test_three_projections_are_one_launch() -> None:
    x = lp.placeholder((2048, 1024), "bfloat16", name="x")
    s = lp.Schedule([x @ lp.placeholder((1024, 1024), "bfloat16", name=name) for name in "qkv"])
    p = schedules.plan(s, "cuda", arch="sm_90a")
    assert [(g.how, g.kernels) for g in p.groups] == [("side by side", 1)]


@pytest.mark.parametrize(("rows", "columns"), [(256, 512), (64, 256)], ids=["one axis", "two axes, and in parts"])
def test_small_products_of_one_array_are_blocks_of_one_launch(rows: int, columns: int) -> None:
    """As Q, K and V of a few rows are: three launches take longer than what they multiply. By itself each has a grid of
    one axis, or of two, or is several kernels."""
    x = lp.placeholder((rows, 512), "bfloat16", name="x")
    s = lp.Schedule([x @ lp.placeholder((512, columns), "bfloat16", name=name) for name in "qk"])
    p = schedules.plan(s, "cuda", arch="sm_90a")
    assert p.kernels == 1
    assert p.groups[0].how == "side by side"
    made = p.apply()
    assert made.loop(made.loops(made.stages[0])[0]).kind == "blockIdx.x"
