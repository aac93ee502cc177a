"""Shared and local memory of a kernel: barriers where they are needed, parts for threads, by the interpreter."""

import numpy as np
import pytest

import loopir as lp
from loopir.errors import LowerError, TargetError
from loopir.ir.grammar import Alloc, Barrier, Int
from loopir.ir.traverse.walk import statements
from loopir.lower.pipeline import lower


def run(source: str, *arrays: np.ndarray, seeds: int = 3) -> lp.Func:
    """The nest lowered: as threads, it computes what it does in order, and no two of them race."""
    func = lp.parse(source)
    lowered = lower(func, "cuda")
    want = lp.interpret(func, arrays)
    for seed in range(seeds):
        for name, x in lp.interpret(lowered, arrays, seed=seed).items():
            assert np.array_equal(x, want[name])
    return lowered


def count(func: lp.Func, kind: type) -> int:
    return sum(isinstance(s, kind) for s in statements(func.body))


ROUNDS = """
def f(A: "float32[4, 8]", B: "out float32[4, 8]"):
    for b in bind("blockIdx.x", 1):
        for k in range(4):
            with alloc("float32[8]", scope="shared") as T:
                for t in bind("threadIdx.x", 8):
                    T[(t + k) % 8] = A[k, t]
                for u in bind("threadIdx.x", 8):
                    B[k, u] = T[(u + k) % 8] + 1.0
"""


def test_shared_memory_is_one_for_all_rounds_of_a_serial_loop() -> None:
    """In each round a thread reads what it wrote; in the next, another thread writes there."""
    assert count(run(ROUNDS, np.arange(32, dtype=np.float32).reshape(4, 8)), Barrier) >= 1


ACCUMULATORS = """
def f(A: "float32[8, 5, 4]", S: "out float32[8, 4]"):
    for b in bind("blockIdx.x", 2):
        with alloc("float32[4, 4]", scope="local") as acc:
            for t in bind("threadIdx.x", 2):
                for i in range(2):
                    for j in range(4):
                        acc[t * 2 + i, j] = 0.0
            for k in range(5):
                for t_1 in bind("threadIdx.x", 2):
                    for i_1 in range(2):
                        for j_1 in range(4):
                            acc[t_1 * 2 + i_1, j_1] = sum(A[b * 4 + t_1 * 2 + i_1, k, j_1], over=k)
            for t_2 in bind("threadIdx.x", 2):
                for i_2 in range(2):
                    for j_2 in range(4):
                        S[b * 4 + t_2 * 2 + i_2, j_2] = acc[t_2 * 2 + i_2, j_2]
"""
RAGGED = np.random.default_rng(0).integers(0, 9, (8, 5, 4)).astype(np.float32)


def test_each_thread_keeps_its_part_of_local_memory() -> None:
    lowered = run(ACCUMULATORS, RAGGED)
    (part,) = (s.buffer for s in statements(lowered.body) if isinstance(s, Alloc))
    assert part.shape == (Int(2), Int(4))
    assert count(lowered, Barrier) == 0


def test_threads_may_take_turns_through_local_memory() -> None:
    strided = ACCUMULATORS.replace("t * 2 + i,", "i * 2 + t,").replace("t_1 * 2 + i_1", "i_1 * 2 + t_1")
    run(strided.replace("t_2 * 2 + i_2", "i_2 * 2 + t_2"), RAGGED)


def test_local_memory_that_another_thread_reads_is_refused() -> None:
    crossed = ACCUMULATORS.replace("acc[t_2 * 2 + i_2, j_2]", "acc[(1 - t_2) * 2 + i_2, j_2]")
    with pytest.raises(LowerError, match=r"acc is local memory, and acc .* in another thread; give it scope .shared."):
        lower(lp.parse(crossed), "cuda")


def test_local_memory_that_one_thread_writes_for_all_is_refused() -> None:
    alone = ACCUMULATORS.replace('for t_2 in bind("threadIdx.x", 2)', "for t_2 in range(2)")
    with pytest.raises(LowerError, match="in another thread"):
        lower(lp.parse(alone), "cuda")


def test_too_much_shared_memory_names_the_buffers() -> None:
    source = """
def f(A: "float32[300, 300]", B: "out float32[300, 300]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[300, 300]", scope="shared") as T:
            for t in bind("threadIdx.x", 300):
                for i in range(300):
                    T[t, i] = A[t, i]
            for u in bind("threadIdx.x", 300):
                for j in range(300):
                    B[u, j] = T[j, u]
"""
    with pytest.raises(TargetError, match=r"360000 bytes of shared memory \(T 360000\), and there are 232448"):
        lp.compile_source(lp.Schedule(lp.parse(source)))


TILES = """
def f(A: "float32[6, 8]", S: "out float32[8]"):
    for b in bind("blockIdx.x", 1):
        for k in range(6):
            with alloc("float32[8]", scope="shared") as T:
                for t in bind("threadIdx.x", 8):
                    T[t] = A[k, t]
                for u in bind("threadIdx.x", 8):
                    S[u] = sum(T[7 - u], over=k, init=0.0)
"""


def test_two_halves_need_one_barrier_an_iteration() -> None:
    arrays = np.arange(48, dtype=np.float32).reshape(6, 8)
    assert count(run(TILES, arrays), Barrier) == 2
    twice = lp.Schedule(lp.parse(TILES)).double_buffer("T", "k")
    assert count(run(str(twice), arrays), Barrier) == 2  # one of them before the loop
