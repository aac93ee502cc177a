"""Warpgroups that have tiles in turn, with copies by warps of their own for one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
from loopir.errors import InterpretError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Body, ExpectTx, Func, If, Loop, MBarrierInit, MBarrierWait, Stmt
from loopir.ir.traverse.walk import rewrite, statements
from schedules.cuda.matmul_wgmma import matmul_wgmma

IN_TURN = """
def f(n: "size", A: "float32[n, 16, 32]", B: "out float32[n, 2, 128]"):
    for t in bind("blockIdx.x", 2):
        for u in range((n - t + 1) // 2):
            for g in bind("warpgroup", 2):
                {guard}
                    for o in range({turns}):
                        with alloc("float32[4, 32]", scope="shared") as T:
                            for i in range(4):
                                for j in range(32):
                                    T[i, j] = A[u * 2 + t, o + g + i, j]
                            for w in bind("warp.x", 4):
                                for l in bind("lane", 32):
                                    B[u * 2 + t, g, w * 32 + l] = sum(T[1, l] * float32(w + 1), over=o, init=0.0)
"""


def in_turn(turns: int = 5, stages: int = 3, guard: str = "if n > 0:") -> lp.Schedule:
    text = IN_TURN.format(turns=turns, guard=guard)
    s = lp.Schedule(lp.parse(text.replace('bind("warpgroup", 2)', "range(2)")))
    s = s.tensorize("i", "tma_load_4x32_f32").specialize_warps("o", stages=stages)
    return s.bind("g", "warpgroup")


def array(n: int) -> np.ndarray:
    return np.arange(n * 16 * 32, dtype=np.float32).reshape(n, 16, 32) % 251


def wanted(a: np.ndarray, turns: int) -> np.ndarray:
    sums = [sum(a[:, o + g + 1] for o in range(turns)) for g in range(2)]
    return np.stack([np.concatenate([s * (w + 1) for w in range(4)], 1) for s in sums], 1)


@pytest.mark.parametrize(("turns", "stages"), [(5, 3), (4, 2), (1, 3)])
def test_each_has_its_own_turns(turns: int, stages: int) -> None:
    (func,) = lp.lower(in_turn(turns, stages), "cuda")
    for seed in range(2):
        assert np.array_equal(interpret(func, (array(3),), seed=seed)["B"], wanted(array(3), turns))
    assert {s.arrivals for s in statements(func.body) if isinstance(s, MBarrierInit)} == {1, 128, 4}
    assert any(isinstance(s, MBarrierWait) and s.skip for s in statements(func.body))


def test_who_has_no_turns_lets_the_next_one_have_its() -> None:
    s = in_turn(guard="if g + u != 1:")
    (func,) = lp.lower(lp.Schedule(lp.parse(str(s).replace("out float32", "inout float32"))), "cuda")
    found = interpret(func, (array(5), np.full((5, 2, 128), -1, np.float32)))["B"]
    want = wanted(array(5), 5)
    want[0:2, 1] = want[2:4, 0] = -1
    assert np.array_equal(found, want)


def changed(func: Func, change: Callable[[Stmt], Stmt | Body | None]) -> Func:
    return replace(func, body=rewrite(func.body, change))


def is_order(s: Stmt) -> bool:
    return isinstance(s, MBarrierWait | ExpectTx) and s.slot.buffer.name == "ring_order"


def released_for_both(s: Stmt) -> Stmt | None:
    return replace(s, arrivals=256) if isinstance(s, MBarrierInit) and s.arrivals == 128 else None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda s: () if isinstance(s, MBarrierWait) and is_order(s) else None,
            "passes ring_full|bytes are there has not",
        ),
        (lambda s: () if isinstance(s, ExpectTx) and is_order(s) else None, "a deadlock"),
        (
            lambda s: () if isinstance(s, MBarrierWait) and s.skip else None,
            "passes ring|a deadlock|bytes are there|written",
        ),
        (
            lambda s: replace(s, skip=False) if isinstance(s, MBarrierWait) and s.skip else None,
            "passes ring|a deadlock",
        ),
        (released_for_both, "a deadlock"),
    ],
)
def test_a_wrong_turn_is_told(change: Callable[[Stmt], Stmt | Body | None], told: str) -> None:
    (func,) = lp.lower(in_turn(), "cuda")
    with pytest.raises(InterpretError, match=told):
        interpret(changed(func, change), (array(5),))


def test_turns_that_are_the_same_for_both_are_taken_together() -> None:
    both = IN_TURN.format(turns=5, guard="if n > 0:").replace("o + g + i", "o + i")
    s = lp.Schedule(lp.parse(both.replace('bind("warpgroup", 2)', "range(2)")))
    s = s.tensorize("i", "tma_load_4x32_f32").specialize_warps("o", stages=3)
    (func,) = lp.lower(s.bind("g", "warpgroup"), "cuda")
    want = np.stack([wanted(array(3), 5)[:, 0]] * 2, 1)
    assert np.array_equal(interpret(func, (array(3),))["B"], want)
    assert {s.arrivals for s in statements(func.body) if isinstance(s, MBarrierInit)} == {1, 256}


def test_a_product_whose_tiles_warpgroups_have_in_turn() -> None:
    a, b = lp.placeholder((128, 128), "bfloat16", name="A"), lp.placeholder((16, 128), "bfloat16", name="B")
    s = lp.Schedule(lp.relu(a @ b.T))
    s = matmul_wgmma(s, "matmul", block=(64, 8), stages=2, roles=True, blocks=1, alternate=True, group=1)
    made = lp.compile_source(s, "sm_90a")
    assert all(r.spill_loads == r.spill_stores == r.stack == 0 for r in made.resources.values())
    (func,) = lp.lower(s, "cuda")
    assert sum(isinstance(x, If) and isinstance(x.then[0], ExpectTx) for x in statements(func.body)) > 1
    assert sum(isinstance(x, Loop) and x.kind == "threadIdx.z" for x in statements(func.body)) == 1
