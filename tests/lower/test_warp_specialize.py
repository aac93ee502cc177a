"""Copies by warps of their own: what they fill is right, and the interpreter tells of every wait that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from several_roles import LOOPS, SEQ, given, several, wanted as wanted_of

import loopir as lp
from loopir.errors import InterpretError, LowerError, TargetError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import (
    AsyncWait,
    Barrier,
    Body,
    ExpectTx,
    Func,
    If,
    InstrCall,
    Int,
    Loop,
    MBarrierInit,
    MBarrierWait,
    SetMaxRegs,
    Stmt,
    WarpSpecialized,
)
from loopir.ir.traverse.walk import rewrite, statements
from schedules.cuda.matmul_wgmma import matmul_wgmma

TILES = """
def f(n: "size", A: "float32[n, 16, 32]", B: "out float32[n, 128]"):
    for t in bind("blockIdx.x", 2):
        for u in range((n - t + 1) // 2):
            for o in range({turns}):
                with alloc("float32[4, 32]", scope="shared") as T:
                    for i in range(4):
                        for j in range(32):
                            T[i, j] = A[u * 2 + t, o + i, j]
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            for k in range(4):
                                B[u * 2 + t, w * 32 + l] = sum(T[k, l] * float32(w + 1), over=(o, k), init=0.0)
"""

SUMS = """
        for o in range(4):
            with alloc("float32[4, 32]", scope="shared") as T:
                for i in range(4):
                    for j in range(32):
                        T[i, j] = A[o * 4 + i, j]
                for w in bind("warp.x", 4):
                    for l in bind("lane", 32):
                        for k in range(4):
                            B[w * 32 + l] = sum(T[k, l], over=(o, k), init=0.0)
"""
TWO = f"""
def f(A: "float32[16, 32]", B: "out float32[128]", C: "out float32[128]"):
    for t in bind("blockIdx.x", 1):{SUMS}
    for t_1 in bind("blockIdx.x", 1):
        for o_1 in range(4):
            with alloc("float32[4, 32]", scope="shared") as T_1:
                for i_1 in range(4):
                    for j_1 in range(32):
                        T_1[i_1, j_1] = A[o_1 * 4 + i_1, j_1]
                for w_1 in bind("warp.x", 4):
                    for l_1 in bind("lane", 32):
                        for k_1 in range(4):
                            C[w_1 * 32 + l_1] = sum(T_1[k_1, l_1] * 2.0, over=(o_1, k_1), init=0.0)
"""


def tiles(stages: int = 3, turns: int = 5, **how: tuple[int, int]) -> lp.Schedule:
    s = lp.Schedule(lp.parse(TILES.format(turns=turns))).tensorize("i", "tma_load_4x32_f32")
    return s.specialize_warps("o", stages=stages, **how)


def array(n: int) -> np.ndarray:
    return np.arange(n * 16 * 32, dtype=np.float32).reshape(n, 16, 32) % 251


def wanted(a: np.ndarray, turns: int = 5) -> np.ndarray:
    sums = sum(a[:, o : o + 4].sum(1) for o in range(turns))
    return np.concatenate([sums * (w + 1) for w in range(4)], 1)


def run(func: Func, n: int = 3, seed: int = 0) -> np.ndarray:
    return interpret(func, (array(n),), seed=seed)["B"]


@pytest.mark.parametrize(("stages", "turns"), [(2, 5), (3, 1), (3, 3), (4, 5)])
def test_what_is_filled_ahead_is_there_when_it_is_read(stages: int, turns: int) -> None:
    (func,) = lp.lower(tiles(stages, turns), "cuda")
    for seed in range(2):
        assert np.array_equal(run(func, 3, seed), wanted(array(3), turns))


def test_each_side_has_its_loops_and_its_registers() -> None:
    (func,) = lp.lower(tiles(registers=(24, 240)), "cuda")
    (split,) = (s for s in statements(func.body) if isinstance(s, If) and s.orelse)
    using, filling = tuple(statements(split.then)), tuple(statements(split.orelse))
    assert using[0] == SetMaxRegs(240, more=True)
    assert filling[0] == SetMaxRegs(24, more=False)
    assert [s.extent for s in using if isinstance(s, Loop)][1] == Int(5)
    assert [s.extent for s in filling if isinstance(s, Loop)][1] == Int(5)
    assert not any(isinstance(s, InstrCall) for s in using)
    assert {s.arrivals for s in statements(func.body) if isinstance(s, MBarrierInit)} == {1, 128}


UNTOLD = "bytes are there has not been|nothing has written|no barrier between|once more than|passes ring|a deadlock"


def changed(func: Func, change: Callable[[Stmt], Stmt | Body | None]) -> Func:
    return replace(func, body=rewrite(func.body, change))


def early(s: Stmt) -> Stmt | None:
    """A buffer is said to be read when its wait is over."""
    if isinstance(s, Loop) and any(isinstance(x, ExpectTx) and not x.bytes for x in s.body):
        wait, *rest, done = s.body
        return replace(s, body=(wait, done, *rest))
    return None


def again(s: Stmt) -> Stmt | None:
    """A buffer is said to be read in another turn's place."""
    if isinstance(s, ExpectTx) and not s.bytes:
        return replace(s, slot=replace(s.slot, at=((s.slot.at[0] + 1) % 3,)))
    return None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: () if isinstance(s, MBarrierWait) and not s.turn else None, UNTOLD),
        (lambda s: () if isinstance(s, MBarrierWait) and s.turn else None, UNTOLD),
        (lambda s: replace(s, turn=0) if isinstance(s, MBarrierWait) and s.turn else None, "a deadlock"),
        (lambda s: replace(s, turn=1) if isinstance(s, MBarrierWait) and not s.turn else None, UNTOLD),
        (lambda s: () if isinstance(s, ExpectTx) and not s.bytes else None, "a deadlock"),
        (lambda s: () if isinstance(s, ExpectTx) and s.bytes else None, "a deadlock|passes ring"),
        (lambda s: replace(s, bytes=s.bytes + 16) if isinstance(s, ExpectTx) and s.bytes else None, "a deadlock"),
        (lambda s: replace(s, arrivals=s.arrivals + 1) if isinstance(s, MBarrierInit) else None, "a deadlock"),
        (
            lambda s: replace(s, arrivals=127) if isinstance(s, MBarrierInit) and s.arrivals > 1 else None,
            "once more|barrier",
        ),
        (lambda s: () if isinstance(s, Barrier) else None, "ring_full.*, which nothing has written"),
        (early, "no barrier between"),
        (again, UNTOLD),
    ],
)
def test_a_wrong_wait_is_told(change: Callable[[Stmt], Stmt | Body | None], told: str) -> None:
    (func,) = lp.lower(tiles(3), "cuda")
    with pytest.raises(InterpretError, match=told):
        run(changed(func, change))


def test_without_warps_of_its_own_a_role_is_what_it_does() -> None:
    s = tiles(3)
    assert any(isinstance(x, WarpSpecialized) for x in statements(s.func.body))
    assert np.array_equal(interpret(s.func, (array(3),))["B"], wanted(array(3)))
    assert not any(isinstance(x, WarpSpecialized) for f in lp.lower(s, "llvm") for x in statements(f.body))


def test_what_a_role_cannot_do_is_refused() -> None:
    plain = lp.Schedule(lp.parse(TILES.format(turns=5))).specialize_warps("o", stages=3)
    with pytest.raises(LowerError, match="is to be done ahead, and is no copy that counts its bytes"):
        lp.lower(plain, "cuda")
    wide = product(block=(128, 8), stages=1).specialize_warps("j_o", stages=2, registers=(40, 240))
    with pytest.raises(TargetError, match="128 threads with 40 registers and 256 with 240 take more than 64512"):
        lp.lower(wide, "cuda")


def product(block: tuple[int, int] = (64, 8), stages: int = 2) -> lp.Schedule:
    a, b = lp.placeholder((block[0], 192), "bfloat16", name="A"), lp.placeholder((8, 192), "bfloat16", name="B")
    s = lp.Schedule(lp.relu(a @ b.T))
    return matmul_wgmma(s, "matmul", block=block, stages=stages, roles=True, whole_rows=False)


def test_products_are_waited_for_an_iteration_later_and_then_said_to_be_read() -> None:
    func = lp.lower(product(), "cuda")[0]
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (64, 192)), rng.integers(0, 3, (8, 192))
    found = interpret(func, (a.astype(bf16), b.astype(bf16)))["out"]
    assert np.array_equal(found.astype(np.float32), (a @ b.T).astype(bf16).astype(np.float32))
    assert [s for s in statements(func.body) if isinstance(s, AsyncWait)] == [
        AsyncWait(1, "products"),
        AsyncWait(0, "products"),
    ]
    assert {s.arrivals for s in statements(func.body) if isinstance(s, MBarrierInit)} == {1, 4}

    def later(s: Stmt) -> Stmt | None:
        return replace(s, pending=s.pending + 1) if s == AsyncWait(1, "products") else None

    with pytest.raises(InterpretError, match="still read; they have not been waited for"):
        interpret(changed(func, later), (a.astype(bf16), b.astype(bf16)))


def test_ptxas_has_nothing_to_say() -> None:
    made = lp.compile_source(product(), "sm_90a")
    assert all(r.spill_loads == r.spill_stores == r.stack == 0 for r in made.resources.values())
    assert "setmaxnreg.inc" in made.source


def test_two_kernels_have_barriers_of_their_own() -> None:
    s = lp.Schedule(lp.parse(TWO)).tensorize("i", "tma_load_4x32_f32").tensorize("i_1", "tma_load_4x32_f32")
    s = s.specialize_warps("o", stages=2).specialize_warps("o_1", stages=2)
    (func,) = lp.lower(s, "cuda")
    a = array(1)[0]
    found = interpret(func, (a,))
    assert np.array_equal(found["B"], np.tile(a.sum(0), 4))
    assert np.array_equal(found["C"], np.tile(a.sum(0), 4) * 2)


@pytest.mark.parametrize("both", [True, False])
def test_blocks_that_go_two_ways_have_roles_of_their_own(both: bool) -> None:
    """Or none on one of the ways, where as many threads do it in order."""
    s = lp.Schedule(lp.parse(TWO)).tensorize("i", "tma_load_4x32_f32").specialize_warps("o", stages=2)
    if both:
        s = s.tensorize("i_1", "tma_load_4x32_f32").specialize_warps("o_1", stages=3, registers=(24, 240))
    (func,) = lp.lower(s.merge("t", "t_1", side_by_side=True, name="b"), "cuda")
    a = array(1)[0]
    found = interpret(func, (a,))
    assert np.array_equal(found["B"], np.tile(a.sum(0), 4))
    assert np.array_equal(found["C"], np.tile(a.sum(0), 4) * 2)
    assert sum(isinstance(s, SetMaxRegs) for s in statements(func.body)) == (4 if both else 2)


@pytest.mark.parametrize("name", LOOPS)
def test_several_roles_have_buffers_of_their_own(name: str) -> None:
    (func,) = lp.lower(several(name), "cuda")
    a, c = given()
    found = interpret(func, (a, c), seed=1)
    assert all(np.array_equal(found[x], want) for x, want in wanted_of(name, a, c).items())
    assert sum(isinstance(s, MBarrierInit) for s in statements(func.body)) == 4
    assert sum(isinstance(s, SetMaxRegs) for s in statements(func.body)) == 2


def of_ring(s: Stmt, ring: str) -> bool:
    return isinstance(s, MBarrierWait | ExpectTx) and s.slot.buffer.name == ring


ALL = ("ring_full", "ring_empty", "ring_full_1", "ring_empty_1")
NEEDED = [("in turn", x) for x in ALL] + [("nested", x) for x in ALL if x != "ring_empty"]
"""An inner loop that waits for its own buffers waits for those of the outer one, too: both are free by then."""


@pytest.mark.parametrize(("name", "ring"), NEEDED)
def test_a_wait_that_one_of_them_leaves_out_is_told(name: str, ring: str) -> None:
    (func,) = lp.lower(several(name), "cuda")
    with pytest.raises(InterpretError, match=UNTOLD):
        interpret(changed(func, lambda s: () if isinstance(s, MBarrierWait) and of_ring(s, ring) else None), given())
    with pytest.raises(InterpretError, match=r"a deadlock|passes ring"):
        interpret(changed(func, lambda s: () if isinstance(s, ExpectTx) and of_ring(s, ring) else None), given())


def test_their_threads_have_as_many_registers() -> None:
    s = lp.Schedule(lp.parse(SEQ)).tensorize("i", "tma_load_4x32_f32").tensorize("i_1", "tma_load_4x32_f32")
    s = s.specialize_warps("o", stages=2).specialize_warps("o_1", stages=2, registers=(24, 240))
    with pytest.raises(LowerError, match="threads have 40 registers by one and 24 by another"):
        lp.lower(s, "cuda")
