"""Attention by products of one warp: one kernel on any GPU of sm_80 on, checked in the interpreter and by ptxas."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_gpu_product_chains import CAUSAL, Score, data, naive, off, wanted

import loopir as lp
import schedules
from loopir.errors import InterpretError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Func, Kernel, Stmt
from loopir.ir.traverse.walk import replace, rewrite, statements
from schedules.cuda.product_chains_mma import product_chain_mma


def by_warps(s: lp.Schedule, warps: int = 1, keys: int = 16) -> Func:
    with lp.scheduling_for(lp.machine("sm_80")):
        return lp.lower(product_chain_mma(s, warps=warps, keys=keys), "cuda")[0]


@pytest.mark.parametrize(("rows", "keys", "depth", "score"), [(20, 35, 24, None), (32, 32, 16, CAUSAL)])
def test_the_lowered_nest_is_right(rows: int, keys: int, depth: int, score: tuple[Score, Score] | None) -> None:
    """Rows, keys and columns that are no whole blocks; blocks that a mask leaves out."""
    ours, numpys = score or (None, None)
    func = by_warps(naive((1,), rows, keys, depth, ours))
    assert off(func, data((1,), rows, keys, depth), numpys) < 0.03


def test_any_length_at_run_time() -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    q, k, v = (lp.placeholder((x, 16), "bfloat16", name=y) for x, y in ((n, "Q"), (m, "K"), (m, "V")))
    func = by_warps(lp.Schedule(lp.softmax((q @ k.T) * 0.25) @ v))
    for rows, keys in ((1, 1), (17, 17)):
        some = [x.astype(ml_dtypes.bfloat16) for x in data((), rows, keys, 16)]
        got = interpret(func, some)["out"].astype(np.float64)
        assert float(np.abs(got - wanted(*some)).max()) < 0.03


def test_copies_that_are_not_waited_for_are_found() -> None:
    def edit(s: Stmt) -> Stmt | None:
        return replace(s, pending=s.pending + 1) if isinstance(s, AsyncWait) else None

    func = by_warps(naive((1,), 16, 48, 16))
    assert sum(isinstance(s, AsyncWait) for s in statements(func.body)) == 3  # before the loop, in it and after it
    with pytest.raises(InterpretError):
        off(replace(func, body=rewrite(func.body, edit)), data((1,), 16, 48, 16))


def test_auto_makes_one_kernel_without_spills() -> None:
    s = schedules.auto(naive((2, 2), 500, 500, 128), "cuda", arch="sm_80")
    assert len([x for x in statements(lp.lower(s, "cuda")[0].body) if isinstance(x, Kernel)]) == 1
    (used,) = lp.compile_source(s, "sm_80").resources.values()
    assert (used.spill_stores, used.spill_loads) == (0, 0)
