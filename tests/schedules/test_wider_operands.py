"""Attention of 8-bit floats: converted to 16 bits, it is the chain of any such, and right."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from schedules.cuda.product_chains import product_chain
from schedules.cuda.wider_operands import chain_of_wider_operands


def attention(rows: int, keys: int, depth: int, stored: str) -> lp.Schedule:
    q, k, v = (lp.placeholder((n, depth), stored, name=x) for x, n in zip("QKV", (rows, keys, keys), strict=True))
    scale = lp.placeholder((1, 1), "float32", name="scale")
    s = (q.astype("float32") @ k.astype("float32").T) * scale
    o = lp.softmax(s).astype("bfloat16") @ v.astype("bfloat16")
    return lp.Schedule((o.astype("float32") * scale).astype("bfloat16"))


def scheduled(s: lp.Schedule) -> lp.Schedule:
    with lp.scheduling_for(lp.machine("sm_90a")):
        return chain_of_wider_operands(s, partial(product_chain, keys=32), schedules.gpu)


def test_stored_in_16_bits_it_is_one_loop() -> None:
    s = scheduled(attention(64, 64, 64, "float8_e4m3fn"))
    assert "rolling_update" in s.script()
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((64, 64)).astype(ml_dtypes.float8_e4m3fn) for _ in "QKV")
    got = interpret(lp.lower(s, "cuda")[0], [q, k, v, np.full((1, 1), 0.25, np.float32)])["out"].astype(float)
    p = np.exp(q.astype(float) @ k.astype(float).T * 0.25)
    assert np.abs(got - p / p.sum(-1, keepdims=True) @ v.astype(float) * 0.25).max() < 0.02


def test_others_are_left() -> None:
    with pytest.raises(lp.ScheduleError, match="no two operands are of fewer than 16 bits"):
        scheduled(attention(64, 64, 64, "bfloat16"))
    x = [lp.placeholder((64, 64), "float8_e4m3fn", name=n).astype("float32") for n in "AB"]
    with pytest.raises(lp.ScheduleError, match="the chain is none"):
        scheduled(lp.Schedule(x[0] @ x[1]))
