"""Warpgroups that take turns: in order, never in a deadlock, and faults in their turns are found."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
from loopir.errors import InterpretError, LowerError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Func, Int, Stmt, Turn, Var
from loopir.ir.traverse.walk import rewrite, statements

BOUND = """
def f(n: "size", A: "float32[n, 2, 128]", B: "out float32[n, 2, 128]"):
    for b in bind("blockIdx.x", 1):
        for t in range({trips}):
            with alloc("float32[2, 128]", scope="shared") as T:
                for g in bind("warpgroup", 2):
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            T[g, w * 32 + l] = A[t, g, w * 32 + l] * 2.0
                for h in bind("warpgroup", 2):
                    for x in bind("warp.x", 4):
                        for m in bind("lane", 32):
                            B[t, h, x * 32 + m] = T[{read}, 127 - x * 32 - m] + 1.0
"""


G = Var("g")


def bound(trips: str = "n", read: str = "h") -> lp.Schedule:
    return lp.Schedule(lp.parse(BOUND.format(trips=trips, read=read)))


def array(n: int) -> np.ndarray:
    return np.arange(n * 256, dtype=np.float32).reshape(n, 2, 128) % 251


def right(func: Func, n: int, seed: int = 0) -> bool:
    return np.array_equal(interpret(func, (array(n),), seed=seed)["B"], array(n)[:, :, ::-1] * 2 + 1)


@pytest.mark.parametrize("named", [("g",), ("g", "h")])
def test_turns_are_taken_and_given(named: tuple[str, ...]) -> None:
    (func,) = lp.lower(bound().alternate(*named), "cuda")
    assert [s for s in statements(func.body) if isinstance(s, Turn)] == [
        Turn(Int(0), 2, wait=False),
        Turn(G, 2, wait=True),
        Turn((G + 1) % 2, 2, wait=False),
        Turn(Int(0), 2, wait=True),
    ]
    for n in (0, 3):
        assert right(func, n, seed=n)


def test_of_three_warpgroups_each_gives_the_next_one_its_turn() -> None:
    s = lp.Schedule(lp.parse(BOUND.format(trips="n", read="h").replace("2, 128", "3, 128").replace('p", 2', 'p", 3')))
    a = np.arange(768, dtype=np.float32).reshape(2, 3, 128)
    (func,) = lp.lower(s.alternate("h"), "cuda")
    assert np.array_equal(interpret(func, (a,))["B"], a[:, :, ::-1] * 2 + 1)
    source = lp.compile_source(s.alternate("h"), "sm_90a").source
    assert all(f"bar.{how} {n}, 256;" in source for how in ("sync", "arrive") for n in (13, 14, 15))


IN_ORDER = """
def f(A: "inout float32[4]"):
    with kernel("f_kernel"):
        for l in bind("threadIdx.x", 32):
            for w in bind("threadIdx.y", 4):
                for g in bind("threadIdx.z", 2):
                    if g == 1:
                        give_turn(0, 2)
                    for t in range(3):
                        take_turn(g, 2)
                        if l == 0 and w == 0:
                            A[0] = A[0] * 2.0 + float32(g)
                        give_turn((g + 1) % 2, 2)
                    if g == 0:
                        take_turn(0, 2)
"""


def test_one_turn_is_after_the_other() -> None:
    assert lp.parse(lp.text(lp.parse(IN_ORDER))) == lp.parse(IN_ORDER)
    for seed in range(3):
        assert interpret(lp.parse(IN_ORDER), (np.zeros(4, np.float32),), seed=seed)["A"][0] == 0b010101
    with pytest.raises(InterpretError, match="race"):
        interpret(lp.parse(re.sub("(take|give)_turn.*", "pass", IN_ORDER)), (np.zeros(4, np.float32),))


# ---------------------------------------------------------------- seeded faults


def without(func: Func, nth: int) -> Func:
    turns = [s for s in statements(func.body) if isinstance(s, Turn)]
    gone = turns[nth]
    return replace(func, body=rewrite(func.body, lambda s: () if s is gone else None))


@pytest.mark.parametrize(
    ("nth", "said"),
    [
        (0, "hardware barrier 14, for which nobody goes on"),  # nobody gives the first turn
        (1, "where nobody waits for it any more|for which nobody goes on"),
        (2, "for which nobody goes on"),  # and nobody any other one
        (3, "hardware barrier 14, where nobody waits for it any more"),  # one is left over
    ],
)
def test_a_turn_too_few_is_found(nth: int, said: str) -> None:
    (func,) = lp.lower(bound().alternate("g"), "cuda")
    with pytest.raises(InterpretError, match=said):
        right(without(func, nth), 3)


def test_a_turn_of_the_wrong_warpgroup_is_found() -> None:
    (func,) = lp.lower(bound().alternate("g"), "cuda")

    def again(s: Stmt) -> Stmt | None:
        return Turn(G, 2, wait=False) if s == Turn((G + 1) % 2, 2, wait=False) else None

    with pytest.raises(InterpretError, match="a deadlock"):
        right(replace(func, body=rewrite(func.body, again)), 3)


# ---------------------------------------------------------------- refusals


def test_warpgroups_that_meet_in_their_turns_are_refused() -> None:
    crossed = bound(read="1 - h")
    lp.lower(crossed.alternate("g"), "cuda")
    with pytest.raises(LowerError, match="meet at a barrier in their turns"):
        lp.lower(crossed.alternate("g", "h"), "cuda")


def test_turns_that_not_all_threads_take_are_refused() -> None:
    text = """
def f(A: "float32[2, 4, 16]", B: "out float32[2, 4, 16]"):
    for l in bind("lane", 16):
        with turns():
            for g in bind("warpgroup", 2):
                for w in bind("warp.x", 4):
                    B[g, w, l] = A[g, w, l]
"""
    with pytest.raises(LowerError, match="how many turns a warpgroup of f_kernel takes depends on the thread"):
        lp.lower(lp.Schedule(lp.parse(text)), "cuda")
    func = lp.parse(IN_ORDER.replace("take_turn(g, 2)\n", "if w < 2:\n                            take_turn(g, 2)\n"))
    with pytest.raises(InterpretError, match=r"a deadlock|nobody waits|race"):
        interpret(func, (np.zeros(4, np.float32),))


def test_more_barriers_than_a_block_has_are_refused() -> None:
    many = BOUND.replace("2, 128", "8, 128").replace('p", 2', 'p", 8').format(trips="n", read="h")
    with pytest.raises(LowerError, match="need 17 hardware barriers, and a block has 16"):
        lp.lower(lp.Schedule(lp.parse(many)).alternate("g"), "cuda")


ROLES = """
def f(A: "float32[{turns}, 4, 16]", B: "inout float32[2, 4, 32]"):
    for b in bind("blockIdx.x", 1):
        for o in range({turns}):
            with alloc("float32[2, 16]", scope="shared") as T:
                for i in range(2):
                    for j in range(16):
                        T[i, j] = A[o, i, j]
                for g in bind("warpgroup", 2):
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            B[g, w, l] = sum(T[1, l % 16], over=o)
"""


def roles(turns: int) -> lp.Schedule:
    s = lp.Schedule(lp.parse(ROLES.format(turns=turns))).tensorize("i", "tma_load_2x16_f32")
    return s.specialize_warps("o", stages=2).alternate("g")


def test_copies_by_warps_of_their_own_are_waited_for_before_turns() -> None:
    a = np.arange(5 * 64, dtype=np.float32).reshape(5, 4, 16)
    (func,) = lp.lower(roles(5), "cuda")
    found = interpret(func, (a, np.zeros((2, 4, 32), np.float32)))["B"]
    assert np.array_equal(found, np.broadcast_to(np.tile(a[:, 1].sum(0), 2), (2, 4, 32)))


def test_on_a_cpu_loops_run_in_order() -> None:
    (func,) = lp.lower(bound().alternate("g"), "llvm")
    assert "turn" not in lp.text(func)
    assert right(func, 2)
