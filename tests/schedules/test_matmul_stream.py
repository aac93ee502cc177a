"""Products whose tiles are dealt out in even parts of their steps: the product, and machine code that does it."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
from loopir.ir.interpret import interpret
from schedules.fusion import inlined
from schedules.matmul_stream import matmul_stream


def product(m: int, n: int, k: int, **how: object) -> lp.Schedule:
    a, b = lp.placeholder((m, k), "bfloat16", name="A"), lp.placeholder((n, k), "bfloat16", name="B")
    return matmul_stream(inlined(lp.Schedule(lp.relu(a @ b.T).astype("bfloat16"))), "matmul", **how)


def test_pieces_of_tiles_are_the_product() -> None:
    """Two tiles of three steps for three blocks, of which the second one has a step of each tile."""
    s = product(64, 16, 192, block=(64, 8), parts=4, stages=2)
    assert "with role" in str(s)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (64, 192)), rng.integers(-2, 3, (16, 192))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(lp.lower(s, "cuda")[0], (a.astype(bf16), b.astype(bf16)))["out"]
    assert np.array_equal(found.astype(np.float32), np.maximum(a @ b.T, 0).astype(bf16).astype(np.float32))


def test_it_compiles_as_whole_tiles_do() -> None:
    made = lp.compile_source(product(2304, 2048, 1024), "sm_90a")
    assert all(r.spill_stores == r.stack == 0 for r in made.resources.values())
    assert "setmaxnreg.inc" in made.source


def test_what_is_not_made_of_whole_tiles_is_refused() -> None:
    with pytest.raises(lp.ScheduleError, match="not made of whole tiles"):
        product(2304, 2049, 1024)
