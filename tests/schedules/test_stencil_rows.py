"""schedules.neighbours: stencils on threads mean what they say at any size, and are chosen for what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

RNG = np.random.default_rng(0)


def jacobi(shape: Any, dtype: str = "float32") -> lp.Schedule:
    u = lp.placeholder(shape, dtype, name="u")
    sums = u[..., 1:-1, 1:-1] + u[..., :-2, 1:-1] + u[..., 2:, 1:-1] + u[..., 1:-1, :-2] + u[..., 1:-1, 2:]
    return lp.Schedule((sums * 2.0).named("y"))


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((lp.symbol("n", min=2), lp.symbol("m", min=2)), (9, 71)),
        ((lp.symbol("n", min=2), lp.symbol("m", min=2)), (2, 2)),
        ((lp.symbol("n", min=2), lp.symbol("m", min=2)), (10, 70)),
        ((14, 130), (14, 130)),
        ((3, 7, 37), (3, 7, 37)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_any_shape(shape: Any, sizes: Any, dtype: str) -> None:
    base = jacobi(shape, dtype)
    s = schedules.neighbours(base, "y", threads=32)
    array = RNG.integers(0, 9, sizes).astype(base.func.args[0].buffer.dtype.numpy)
    want = lp.interpret(base.func, [array], domain="ring")["y"]
    (program,) = lp.lower(s, "cuda")
    np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring")["y"], want)


def test_a_gpu_takes_them_so_and_a_row_is_loaded_once_for_all_that_read_it() -> None:
    s = schedules.gpu(jacobi((8194, 8194)))
    assert "unroll(4)" in lp.text(s.func)
    made = lp.compile_source(s)
    assert [k.spill_stores for k in made.resources.values()] == [0]
    x = lp.placeholder((64, 64), "float32", name="x")
    assert "unroll" not in str(schedules.gpu(lp.Schedule(x * x + x)))


@pytest.mark.parametrize(("columns", "threads"), [(64, 32), (128, 64), (130, 96), (600, 160), (1024, 256), (8192, 256)])
def test_blocks_share_a_row_evenly(columns: int, threads: int) -> None:
    s = schedules.gpu(jacobi((66, columns + 2)))
    bound = {x.extent.value for x in (s.loop(y) for y in s.loops()) if x.kind == "threadIdx.x"}
    assert bound == {threads}
