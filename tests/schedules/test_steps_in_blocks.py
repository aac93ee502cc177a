"""Nests in steps, a block an iteration of the outermost loop: they mean the same, without races, and are recognized."""

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import loopir as lp
import schedules
from loopir.lower.pipeline import lower
from schedules.cuda.steps_in_blocks import in_steps, own_intermediates, steps_in_blocks

SMOOTHED = """
def smoothed(rows: "size", x: "inout int32[rows, {n}]", y: "inout int32[rows, {n}]"):
    for r in range(rows):
        for t in range({steps}):
            for i in range({n} - 2):
                y[r, i + 1] = x[r, i] + x[r, i + 1] + x[r, i + 2]
            for j in range({n} - 2):
                x[r, j + 1] = y[r, j + 1] - x[r, j + 1]
"""


def smoothed(n: int, steps: int) -> lp.Schedule:
    return lp.Schedule(lp.parse(SMOOTHED.format(n=n, steps=steps)))


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 3), st.integers(3, 80), st.integers(1, 3), st.sampled_from((32, 64)))
@example(rows=1, n=4, steps=1, threads=64)  # steps of one iteration, which is free
def test_steps_of_rows_mean_the_same_without_races(rows: int, n: int, steps: int, threads: int) -> None:
    s = smoothed(n, steps)
    made = lower(steps_in_blocks(s, s.stages[0], threads=threads).func, "cuda")
    x = np.arange(rows * n, dtype=np.int32).reshape(rows, n) % 7
    want, got = (lp.interpret(f, {"x": x, "y": x * 0}, {"rows": rows}) for f in (s.func, made))
    assert all(np.array_equal(want[name], got[name]) for name in want)


TWICE = """
def twice(x: "int32[{rows}, {n}]", out: "out int32[{rows}, {n}]"):
    with alloc("int32[{rows}, 2, {n}]") as t:
        for r in range({rows}):
            for i in range({n}):
                t[r, 0, i] = x[r, i]
            for k in range(3):
                for i in range({n} - 1):
                    t[r, (k + 1) % 2, i] = t[r, k % 2, i + 1] + 1
                for i in range(1):
                    t[r, (k + 1) % 2, {n} - 1] = t[r, k % 2, 0]
            for i in range({n}):
                out[r, i] = t[r, 1, i]
"""


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 3), st.integers(2, 70), st.sampled_from((32, 64)))
def test_intermediates_of_a_row_lie_in_shared_memory(rows: int, n: int, threads: int) -> None:
    s = lp.Schedule(lp.parse(TWICE.format(rows=rows, n=n)))
    made = steps_in_blocks(own_intermediates(s, s.stages[0]), s.stages[0], threads=threads)
    assert made.buffer("t").scope == "shared"
    x = np.arange(rows * n, dtype=np.int32).reshape(rows, n)
    want, got = (lp.interpret(f, {"x": x})["out"] for f in (s.func, lower(made.func, "cuda")))
    assert np.array_equal(want, got)


def test_rows_that_shared_memory_does_not_hold_stay_in_global_memory() -> None:
    s = lp.Schedule(lp.parse(TWICE.format(rows=2, n=1 << 15)))
    with pytest.raises(lp.ScheduleError, match="take more than"):
        own_intermediates(s, s.stages[0])
    made = schedules.gpu(s)
    assert made.buffer("t").scope == "global"
    assert made.loop("r").kind == "blockIdx.x"


def test_auto_takes_a_block_for_each_row() -> None:
    s = schedules.gpu(smoothed(300, 4))
    loops = {x.var: x.kind for x in (s.loop(y) for y in s.loops())}
    assert loops["r"] == "blockIdx.x"
    assert list(loops.values()).count("threadIdx.x") >= 2


def test_a_sort_is_one_kernel_for_all_its_rounds() -> None:
    x = lp.placeholder((3, 64), "float32", name="x")
    made = schedules.gpu(lp.Schedule(lp.sort(x)), arch="sm_90a")
    assert len(lp.nests(made.func)) <= 2
    a = np.array([[7, np.nan, *range(62)]] * 3, np.float32)
    (got,) = lp.interpret(lower(made.func, "cuda"), {"x": a}).values()
    assert np.array_equal(got, np.sort(a, axis=-1), equal_nan=True)


OTHERS = {
    "a statement alone": """
    for i in range(8):
        x[i] = x[i] + 1""",
    "no loops": """
    x[0] = 1
    y[0] = x[0]""",
    "no loop for threads": """
    for i in range(8):
        for t in range(3):
            x[i] = x[i] + t
            y[i] = x[i] * y[i]""",
    "rows that depend on one another": """
    for i in range(7):
        for t in range(3):
            for j in range(4):
                x[i] = x[i + 1] + j
            for k in range(4):
                y[k] = x[i] * y[k]""",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_nests_are_left_to_others(name: str) -> None:
    s = lp.Schedule(lp.parse(f'def f(x: "inout int32[8]", y: "inout int32[8]"):{OTHERS[name]}'))
    assert not any(in_steps(s, x) for x in s.stages)


def test_steps_of_rows_of_an_unknown_number_are_scheduled_beside_others() -> None:
    given = lp.placeholder((lp.symbol("rows"), 32), "int32", name="given")
    x, _ = lp.call(lp.parse(SMOOTHED.format(n=32, steps=2)), given, given + 1)
    s = schedules.auto(lp.Schedule([x, lp.sum(given, axis=1)]), "cuda", arch="sm_90a")
    assert any(s.loop(v).kind.startswith("threadIdx") for v in s.loops())


ELIMINATED = """
def eliminated(A: "inout int32[{b}, {n}, {n}]"):
    for i in range({b}):
        for j in range({n}):
            A[i, j, j] = A[i, j, j] * 3 + 1
            for r in range({n} - 1 - j):
                A[i, j + 1 + r, j] = A[i, j + 1 + r, j] * A[i, j, j]
            for r in range({n} - 1 - j):
                for c in range({n} - 1 - j):
                    A[i, j + 1 + r, j + 1 + c] = A[i, j + 1 + r, j + 1 + c] - A[i, j + 1 + r, j] * A[i, j + 1 + c, j]
"""


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 2), st.integers(2, 12), st.sampled_from((32, 64, 128)), st.booleans())
def test_a_matrix_is_eliminated_by_a_block(b: int, n: int, threads: int, keep: bool) -> None:
    """Also what one thread does, a pivot, and loops that get shorter, in two directions."""
    s = lp.Schedule(lp.parse(ELIMINATED.format(b=b, n=n)))
    assert in_steps(s, s.stages[0])
    made = steps_in_blocks(s, s.stages[0], threads=threads, keep=keep)
    given = np.arange(b * n * n, dtype=np.int32).reshape(b, n, n) % 5 - 2
    want, got = (lp.interpret(f, {"A": given.copy()})["A"] for f in (s.func, lower(made.func, "cuda")))
    np.testing.assert_array_equal(want, got)


def test_auto_keeps_a_matrix_in_shared_memory() -> None:
    s = lp.Schedule(lp.parse(ELIMINATED.format(b=256, n=64)))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert made.buffer("A_shared").scope == "shared"
    assert made.report(arch="sm_90a").seconds < 1e-4


def test_a_matrix_that_shared_memory_does_not_hold_is_updated_in_place() -> None:
    s = lp.Schedule(lp.parse(ELIMINATED.format(b=4, n=500)))
    with pytest.raises(lp.ScheduleError, match="no array that shared memory holds"):
        steps_in_blocks(s, s.stages[0], keep=True)


FOLDED = """
def folded(rows: "size", x: "int32[rows, {n}]", best: "inout int32[rows, {lanes}]", last: "out int32[rows, 4]"):
    for r in range(rows):
        for i in range(1):
            last[r, i] = 0
        for t in range(3):
            for i in range({lanes}):
                with alloc("int32[]", scope="local") as mine:
                    for j in range({each}):
                        if j * {lanes} + i < {n}:
                            mine[()] = max(x[r, j * {lanes} + i] ^ last[r, t], over=j, init=-100)
                    best[r, i] = mine[()] + best[r, i]
            for i in range(1):
                last[r, t + 1] = best[r, t]
"""


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 3), st.integers(8, 80), st.sampled_from((8, 64)))
def test_what_a_thread_folds_in_a_step_is_its_own(rows: int, n: int, lanes: int) -> None:
    n = max(n, lanes)
    s = lp.Schedule(lp.parse(FOLDED.format(n=n, lanes=lanes, each=-(-n // lanes))))
    stage = s.stages[0]
    assert in_steps(s, stage)
    made = steps_in_blocks(s, stage, threads=32)
    folds = next(x for x in made.stages if made.reduced(x))
    assert [made.loop(x).kind for x in made.loops(folds)][-1] == "serial"
    assert "threadIdx.x" in [made.loop(x).kind for x in made.loops(folds)]
    x = (np.arange(rows * n, dtype=np.int32).reshape(rows, n) * 7) % 19
    given = {"x": x, "best": np.zeros((rows, lanes), np.int32)}
    want, got = (lp.interpret(f, given, {"rows": rows}) for f in (s.func, lower(made.func, "cuda")))
    assert all(np.array_equal(want[name], got[name]) for name in want)
