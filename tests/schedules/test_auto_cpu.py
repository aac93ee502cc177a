"""CPU schedules: vectors of partial results, stores past the caches, stages placed where they are read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from meaning import same_in_the_ring
from row_programs import blur, softmax
from support.call_counts import calls

import loopir as lp
import schedules
from loopir.testing import assert_equivalent


@pytest.mark.parametrize("gathered", [False, True])
def test_folds_that_do_not_run_along_memory_have_lanes(gathered: bool) -> None:
    x, y = lp.placeholder((30, 30), "float32", name="x"), lp.placeholder((30, 30), "float32", name="y")
    at = lp.placeholder((30, 30), "int32", name="at")
    s = lp.Schedule(lp.sum(x * y[at, 0], axis=1) if gathered else lp.sum(x * y.T))
    t = schedules.cpu(s, lanes=8)
    assert any(t.loop(x).kind == "vectorize" for x in t.loops(t.stages[0]))
    same_in_the_ring(s, t, {"x": np.ones((30, 30), "f"), "y": np.ones((30, 30), "f"), "at": np.eye(30, dtype="i")}
                     if gathered else {"x": np.ones((30, 30), "f"), "y": np.ones((30, 30), "f")}, {})  # fmt: skip


def test_windows_of_rows_with_borders_are_computed_where_they_are_read() -> None:
    """They need rows around, so that their loops over rows stay several."""
    x, w = lp.placeholder((1, 9, 70, 70), "float32", name="x"), lp.placeholder((9, 1, 3, 3), "float32", name="w")
    t = schedules.cpu(lp.Schedule(lp.relu(lp.conv2d(x, w, padding=1, groups=9))))
    outer = t.loops(t.stages[-1])[0]
    assert t.loop(outer).kind == "parallel"
    assert all(outer in t.loops(x) for x in t.stages)


@pytest.mark.parametrize(("program", "extra"), [(softmax, 0), (blur, 2)])
def test_auto_places_stages_where_they_are_read(program: Any, extra: int) -> None:
    s = program(24, 40)
    t = schedules.auto(s, "llvm")
    outer = t.loops(t.stages[-1])[0]
    assert t.loop(outer).kind == "parallel"
    assert all(outer in t.loops(x) for x in t.stages)
    x = np.random.default_rng(0).integers(0, 9, (24 + extra, 40)).astype(np.float32)
    same_in_the_ring(s, t, {"x": x}, {})
    (want,) = lp.interpret(s.func, {"x": x}).values()
    np.testing.assert_allclose(t.build("llvm")(x), want, rtol=1e-5)


def test_stages_that_a_step_shows_never_to_run_are_left_alone() -> None:
    x = lp.placeholder((9, 9), "int32", name="x")
    corner = lp.pad(x[:0], [(1, 2), (1, 2)]).named("p")[:3:2, 20:1].named("none")
    for made in (corner.T, lp.stack([x @ x, x @ x])[5:10, 20:3]):
        kernel = schedules.auto(lp.Schedule(made), "llvm").build("llvm")
        assert kernel(np.ones((9, 9), np.int32)).size == 0


def test_a_program_that_never_runs_is_left_without_stages() -> None:
    guarded = "for i in range(1):\n        if i < 1 - 1:\n            S[i] = A[i]"
    s = schedules.cpu(lp.Schedule(lp.parse(f'def f(A: "float32[4]", S: "inout float32[4]"):\n    {guarded}')), lanes=4)
    assert s.stages == ()


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_joined_and_turned_round_is_no_tile_of_one(axis: int) -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    kernel = schedules.auto(lp.Schedule(lp.concatenate([x, x, x], axis=axis).T), "llvm").build("llvm", threads=2)
    a = np.arange(17 * 33, dtype=np.float32).reshape(17, 33)
    assert np.array_equal(kernel(a), np.concatenate([a, a, a], axis=axis).T)


IN_NO_LOOP = """
def f(n: "size", A: "float32[n]", Y: "out float32[2, n + 1]"):
    with alloc("float32[]") as T:
        T[()] = select(0 < n, A[0], 1.0)
        for k in range(3):
            T[()]: "S" = T[()] + 1.0
        for i in range(2):
            for j in range(n + 1):
                Y[i, j] = maximum(T[()], 1.5)
"""
NEVER_RUN = """
def f(A: "float32[6]", Y: "out float32[8, 6]"):
    with alloc("float32[6]") as T:
        for x in range(6):
            if x < 0:
                T[x]: "never" = A[x]
        for x_1 in range(6):
            T[x_1] = A[x_1] + 1.0
        for i in range(8):
            for j in range(6):
                Y[i, j] = T[5 - j]
"""


@pytest.mark.parametrize("source", [IN_NO_LOOP, NEVER_RUN])
@pytest.mark.parametrize("how", [schedules.cpu, schedules.windows, schedules.rows])
def test_statements_in_no_loop_and_such_as_never_run(source: str, how: Callable[..., lp.Schedule]) -> None:
    s = lp.Schedule(lp.parse(source))
    assert_equivalent(s, how(s, lanes=4))


def test_a_product_with_a_vector_takes_rows_of_the_transposed_matrix_as_they_lie() -> None:
    """Its unit loop is dropped first, so that it is the fold across rows that `lp.sum(x * v, 0)` is."""
    x, v = lp.placeholder((20, 64), "float32", name="x"), lp.placeholder((20,), "float32", name="v")
    s = lp.Schedule(x.T @ v)
    t = schedules.cpu(s, lanes=4)
    lane = t.loops(t.stages[0])[-1]
    assert t.loop(lane).kind == "vectorize"
    assert t.reduced(t.stages[0])
    assert all(a.contiguous(lane) for a in t.accesses(t.stages[0]) if a.buffer == "x")
    assert_equivalent(s, t)


def vector_lanes(result: Any) -> list[int]:
    s = schedules.auto(lp.Schedule(result), "llvm")
    return [s.loop(x).extent.value for x in s.loops() if s.loop(x).kind == "vectorize"]


def test_functions_of_several_vectors_are_evaluated_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few of them run past the end of a row; arithmetic alone gains nothing by it."""
    monkeypatch.setattr(lp, "vector_unit", lambda: (64, 32))
    x, y = (lp.placeholder((40, m), "float32", name="x") for m in (512, 88))
    row = lp.placeholder((512,), "float32", name="row")
    assert vector_lanes(lp.exp(x - row)) == [64]
    assert vector_lanes((x - row) * 2.0) == [16]
    assert vector_lanes(lp.exp(y)[:, 1:] + 1.0)[0] == 32  # 87 elements: six vectors, three times two
    assert vector_lanes(lp.exp(row)) == [64]


@pytest.mark.parametrize("size", [20000, None])
def test_what_is_left_of_a_line_evaluates_functions_by_vectors(size: int | None) -> None:
    x = lp.placeholder((size or lp.symbol("n"),), "float32", name="x")
    made = schedules.cpu(lp.Schedule(lp.sin(x).named("y")))
    assert len(made.stages) > 1
    for stage in made.stages:
        assert made.loop(made.loops(stage)[-1]).kind == "vectorize"
    a = np.linspace(-9, 9, 20000, dtype=np.float32)
    np.testing.assert_allclose(made.build("llvm")(a), np.sin(a), rtol=0, atol=1e-6)


def test_twice_the_products_take_about_twice_the_work() -> None:
    """Alike nests are scheduled once, and no step looks at the others."""

    def work(products: int) -> int:
        x = lp.placeholder((64, 64), "float32", name="x")
        for n in range(products):
            x = lp.relu(x @ lp.placeholder((64, 64), "float32", name=f"w{n}")) + 1.0
        s = lp.Schedule(x)
        return calls(lambda: schedules.auto(s, "llvm"))

    work(8)
    assert work(32) < 2.6 * work(16)


def test_a_nest_without_a_statement_is_left_as_it_is() -> None:
    s = lp.Schedule(lp.parse('''
def f(B: "float32[1]", X: "inout float32[8]"):
    for i in range(8):
        with alloc("float32[1]") as T:
            pass
    for j in range(8):
        X[j] = X[j] + B[0]
'''))  # fmt: skip
    assert_equivalent(schedules.cpu(s).func, s.func)
    assert schedules.auto(s, "cuda", arch="sm_90a").trace


@pytest.mark.parametrize("columns", ["20", "m"])
def test_sums_of_rows_that_memory_names_stay_in_registers(columns: str) -> None:
    s = lp.Schedule(
        lp.parse(f"""
def f({'m: "size", ' if columns == "m" else ""}t: "float32[9, {columns}]", p: "int32[5, 6]",
      o: "out float32[5, {columns}]"):
    for b in range(5):
        for c in range({columns}):
            o[b, c] = 0.0
            for k in range(6):
                o[b, c] += t[p[b, k], c] if 0 <= p[b, k] and p[b, k] < 9 else 0.0
""")
    )
    t = schedules.cpu(s, lanes=4)
    assert "cache_write" in str(t.trace)
    assert_equivalent(s, t)


def test_a_stage_of_which_the_tail_of_a_loop_is_left_has_another_name() -> None:
    s = lp.Schedule(lp.parse('''
def f(n: "size", X: "inout float32[]"):
    for i in range(n):
        X[()] = X[()]
    with alloc("float32[n, n]") as T:
        for i in range(n):
            for j in range(n):
                T[i, j] = X[()]
        for i in range(n):
            for j in range(n):
                if j < j:
                    X[()] = X[()]
'''))  # fmt: skip
    assert_equivalent(schedules.cpu(s, lanes=4).func, s.func)


def test_results_go_side_by_side_where_terms_do_not_lie_along_the_fold() -> None:
    """Points in boxes: what a fold reads is every fourth number, and a lane for each point reads but one of a box."""
    p, b = lp.placeholder((203, 2), "float32", name="p"), lp.placeholder((50, 4), "float32", name="b")
    inside = (p[:, None, 0] >= b[:, 0]) & (p[:, None, 0] < b[:, 2])
    s = lp.Schedule(lp.sum(inside.astype("int32"), axis=1))
    made = schedules.cpu(s, 8)
    assert all(made.loop(made.loops(x)[-1]).kind == "vectorize" for x in made.stages[:1])
    assert made.loops(made.stages[0])[-1] not in made.reduced(made.stages[0])
    rng = np.random.default_rng(0)
    points, boxes = rng.normal(size=(203, 2)).astype("f4"), rng.normal(size=(50, 4)).astype("f4")
    expected = ((points[:, None, 0] >= boxes[:, 0]) & (points[:, None, 0] < boxes[:, 2])).sum(axis=1)
    np.testing.assert_array_equal(made.build("llvm")(points, boxes), expected)
