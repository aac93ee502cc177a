"""Products whose last turn of tiles is dealt out in even parts: the product, and machine code that does it."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from schedules.common.fusion import inlined
from schedules.cuda.matmul_stream_k import matmul_stream

SMALL = {"block": (64, 8), "rest": (64, 8), "stages": 2, "roles": True, "whole_rows": False}


def product(m: int, n: int, k: int, **how: object) -> lp.Schedule:
    return matmul_stream(inlined(lp.Schedule(expression(m, n, k))), "matmul", **how)


def expression(m: int, n: int, k: int) -> lp.Tensor:
    a, b = lp.placeholder((m, k), "bfloat16", name="A"), lp.placeholder((n, k), "bfloat16", name="B")
    return lp.relu(a @ b.T).astype("bfloat16")


def right(s: lp.Schedule, m: int, n: int, k: int) -> bool:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (n, k))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(lp.lower(s, "cuda")[0], (a.astype(bf16), b.astype(bf16)))["out"]
    return np.array_equal(found.astype(np.float32), np.maximum(a @ b.T, 0).astype(bf16).astype(np.float32))


def test_a_whole_tile_and_pieces_of_others_are_the_product() -> None:
    """Two tiles of three steps are left for three blocks, of which the second one has a step of each tile."""
    s = product(192, 8, 192, rows=64, parts=3, **SMALL)
    assert lp.text(s.func).count("with role") == 2
    assert right(s, 192, 8, 192)


def test_it_is_chosen_where_a_last_turn_is_nearly_empty() -> None:
    a, b = lp.placeholder((2432, 8192), "bfloat16", name="A"), lp.placeholder((8192, 2048), "bfloat16", name="B")
    s = schedules.gpu(lp.Schedule(a @ b), arch="sm_90a")
    assert "matmul_1_sk" in s.stages
    made = lp.compile_source(s, "sm_90a")
    assert all(r.spill_stores == r.stack == 0 for r in made.resources.values())
    assert made.source.count("setmaxnreg.inc") == len(made.resources) == 2


def test_what_makes_an_operand_is_a_launch_before() -> None:
    x, y = (lp.placeholder((2432, 8192), "bfloat16", name=name) for name in "XY")
    b = lp.placeholder((8192, 2048), "bfloat16", name="B")
    s = schedules.gpu(lp.Schedule((lp.silu(x) * y) @ b), arch="sm_90a")
    assert "matmul_1_sk" in s.stages


def test_what_is_not_made_of_whole_tiles_is_refused() -> None:
    with pytest.raises(lp.ScheduleError, match="not made of whole tiles"):
        product(2304, 2049, 1024)
