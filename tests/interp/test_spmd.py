"""Exchanges between the lanes of a warp, interpreted: all of the warp come by, and the right lane's value goes."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
from loopir.ir.grammar import Barrier, Func, Stmt
from loopir.ir.traverse.walk import rewrite
from loopir.ir.verify.verify import verify
from loopir.lower.pipeline import lower

EXCHANGE = """
def f(A: "float32[{y}, {x}]", B: "out float32[{y}, {x}]"):
    with kernel("f_kernel"):
        for j in bind("threadIdx.y", {y}):
            for i in bind("threadIdx.x", {x}):
                with alloc("float32[]", scope="local") as t:
                    t[()] = A[j, i]
                    {before}t[()]: "given" = {op}(t[()])
                    B[j, i] = t[()]
"""


def exchange(x: int, y: int, op: str = "lane_xor_4", before: str = "") -> Func:
    return lp.parse(EXCHANGE.format(x=x, y=y, op=op, before=before))


@pytest.mark.parametrize(("x", "y"), [(32, 1), (64, 2), (16, 3), (8, 8)])
@pytest.mark.parametrize("bit", [1, 2, 4])
def test_lanes_count_along_x_then_y(x: int, y: int, bit: int) -> None:
    func = exchange(x, y, f"lane_xor_{bit}")
    verify(func, "lowered")
    a = np.arange(x * y, dtype=np.float32)
    want = a[np.arange(x * y) ^ bit].reshape(y, x)
    for seed in range(3):
        np.testing.assert_array_equal(lp.interpret(func, [a.reshape(y, x)], seed=seed)["B"], want)


def test_a_thread_that_does_not_come_by_is_told() -> None:
    with pytest.raises(lp.InterpretError, match=r"waits in thread .* at lane_xor_4 for thread .* of its warp"):
        lp.interpret(exchange(32, 1, before="if i < 16:\n                        "), [np.ones((1, 32), np.float32)])


def test_other_warps_need_not_come_by() -> None:
    func = exchange(32, 2, before="if j < 1:\n                        ")
    a = np.arange(64, dtype=np.float32)
    want = np.where(np.arange(64) < 32, a[np.arange(64) ^ 4], a)
    np.testing.assert_array_equal(lp.interpret(func, [a.reshape(2, 32)])["B"].ravel(), want)


def test_a_lane_that_there_is_not_is_told() -> None:
    with pytest.raises(lp.InterpretError, match=r"takes lane_xor_4 of lane 4 in thread .*, and its warp has 4 lanes"):
        lp.interpret(exchange(4, 1), [np.ones((1, 4), np.float32)])


def test_an_exchange_stands_alone_in_a_store_of_a_kernel() -> None:
    with pytest.raises(lp.VerifyError, match="lane_xor_1, between the lanes of a warp, stands alone in a store"):
        exchange(32, 1, "1.0 + lane_xor_1")
    with pytest.raises(lp.VerifyError, match="stands alone in a store, in a kernel"):
        lp.parse("""
def f(A: "float32[4]", B: "out float32[4]"):
    for i in range(4):
        B[i] = lane_xor_1(A[i])
""")


def test_the_barrier_between_warps_is_missed() -> None:
    nest = lp.parse("""
def f(A: "float32[64]", S: "out float32[1]"):
    for k in bind("threadIdx.x", 64):
        S[0] = sum(A[k], over=k, init=0.0)
""")
    lowered = lower(nest, "cuda")

    def without(s: Stmt) -> tuple[Stmt, ...] | None:
        return () if isinstance(s, Barrier) else None

    faulty = Func(lowered.name, lowered.params, lowered.assumes, rewrite(lowered.body, without))
    assert lp.interpret(lowered, [np.ones(64, np.float32)])["S"] == [64]
    with pytest.raises(lp.InterpretError, match=r"nothing has written|a race"):
        lp.interpret(faulty, [np.ones(64, np.float32)])
