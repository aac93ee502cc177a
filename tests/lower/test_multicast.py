"""Copies that the blocks of a cluster share: each fills the memory of all, and waits until all have read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
from loopir.errors import InterpretError, LowerError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Barrier, Body, ExpectTx, Func, InstrCall, Int, MBarrierInit, Stmt
from loopir.ir.traverse.walk import rewrite, statements
from schedules.cuda.matmul_wgmma import matmul_wgmma

SHARED = """
def f(n: "size", A: "float32[n, 16, 32]", B: "out float32[n, 2, 128]"):
    for t in bind("blockIdx.x", 2):
        for r in bind("cluster", 2):
            for u in range((n - t + 1) // 2):
                for o in range(5):
                    with alloc("float32[4, 32]", scope="shared") as T:
                        for p in range(2):
                            for i in range(2):
                                for j in range(32):
                                    T[p * 2 + i, j] = A[u * 2 + t, o + p * 2 + i, j]
                        for w in bind("warp.x", 4):
                            for l in bind("lane", 32):
                                B[u * 2 + t, r, w * 32 + l] = sum(T[r + 1, l] * float32(w + 1), over=o, init=0.0)
"""


def shared(stages: int = 2) -> lp.Schedule:
    s = lp.Schedule(lp.parse(SHARED)).multicast("p").tensorize("i", "tma_load_2x32_f32")
    return s.specialize_warps("o", stages=stages)


def array(n: int) -> np.ndarray:
    return np.arange(n * 16 * 32, dtype=np.float32).reshape(n, 16, 32) % 251


def wanted(a: np.ndarray) -> np.ndarray:
    sums = [sum(a[:, o + r + 1] for o in range(5)) for r in range(2)]
    return np.stack([np.concatenate([s * (w + 1) for w in range(4)], 1) for s in sums], 1)


def run(func: Func, n: int = 2, seed: int = 0) -> np.ndarray:
    return interpret(func, (array(n),), seed=seed)["B"]


@pytest.mark.parametrize("stages", [2, 3])
def test_each_block_fills_its_part_of_all(stages: int) -> None:
    (func,) = lp.lower(shared(stages), "cuda")
    assert np.array_equal(run(func, 3), wanted(array(3)))
    (copy,) = (s for s in statements(func.body) if isinstance(s, InstrCall))
    assert copy.blocks == 2
    assert {s.arrivals for s in statements(func.body) if isinstance(s, MBarrierInit)} == {1, 256}
    assert "tma_load_all" in lp.compile_source(shared(stages), "sm_90a").source


def changed(func: Func, change: Callable[[Stmt], Stmt | Body | None]) -> Func:
    return replace(func, body=rewrite(func.body, change))


def halved(s: Stmt) -> Stmt | None:
    return replace(s, arrivals=128) if isinstance(s, MBarrierInit) and s.arrivals > 1 else None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: replace(s, blocks=1) if isinstance(s, InstrCall) else None, "a deadlock"),
        (
            lambda s: replace(s, block=None) if isinstance(s, ExpectTx) and not s.bytes else None,
            "barrier|once|passes|dead|been",
        ),
        (
            lambda s: replace(s, block=Int(0)) if isinstance(s, ExpectTx) and not s.bytes else None,
            "once more|a deadlock",
        ),
        (
            lambda s: replace(s, bytes=s.bytes // 2) if isinstance(s, ExpectTx) and s.bytes else None,
            "deadlock|written|been",
        ),
        (halved, "no barrier between|once more|passes|a deadlock"),
    ],
)
def test_a_wrong_share_is_told(change: Callable[[Stmt], Stmt | Body | None], told: str) -> None:
    (func,) = lp.lower(shared(), "cuda")
    with pytest.raises(InterpretError, match=told):
        run(changed(func, change))


def test_blocks_of_a_cluster_meet_before_and_after() -> None:
    (func,) = lp.lower(shared(), "cuda")
    assert sum(isinstance(s, Barrier) and s.cluster for s in statements(func.body)) == 2

    def alone(s: Stmt) -> Stmt | Body | None:
        return Barrier() if isinstance(s, Barrier) and s.cluster else None

    with pytest.raises(InterpretError, match=r"nothing has written|no barrier between|speaks of ring"):
        run(changed(func, alone))


def test_without_roles_each_block_makes_all_of_it() -> None:
    s = lp.Schedule(lp.parse(SHARED)).multicast("p").tensorize("i", "tma_load_2x32_f32").pipeline("o", stages=2)
    (func,) = lp.lower(s, "cuda")
    assert all(x.blocks == 1 for x in statements(func.body) if isinstance(x, InstrCall))
    assert np.array_equal(run(func), wanted(array(2)))


def test_a_share_that_depends_on_the_block_is_refused() -> None:
    s = lp.Schedule(lp.parse(SHARED.replace("u * 2 + t, o + p", "u * 2 + t, r + o + p")))
    with pytest.raises(lp.ScheduleError, match="would not do the same in 'p': T speaks of r"):
        s.multicast("p")
    late = shared()
    wrong = lp.parse(str(late).replace("n - t + 1", "n - t + r"))
    with pytest.raises(LowerError, match="speaks of r"):
        lp.lower(lp.Schedule(wrong), "cuda")


def test_a_product_on_clusters() -> None:
    a, b = lp.placeholder((128, 128), "bfloat16", name="A"), lp.placeholder((16, 128), "bfloat16", name="B")
    s = lp.Schedule(lp.relu(a @ b.T))
    s = matmul_wgmma(s, "matmul", block=(64, 16), stages=2, roles=True, cluster=2, blocks=2, group=2)
    made = lp.compile_source(s, "sm_90a")
    assert all(r.spill_loads == r.spill_stores == r.stack == 0 for r in made.resources.values())
    assert re.search(r"lp_tma_load_all\(B_shared", made.source)
