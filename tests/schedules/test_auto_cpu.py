"""CPU schedules: vectors of partial results, stores past the caches, stages placed where they are read."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from named_programs import PROGRAMS
from support.call_counts import calls

import loopir as lp
import schedules
from loopir.testing import assert_equivalent


def same_in_the_ring(s: lp.Schedule, t: lp.Schedule, arrays: dict[str, Any], sizes: dict[str, int]) -> None:
    want, got = (lp.interpret(x.func, arrays, sizes, domain="ring") for x in (s, t))
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)


def row_sums(m: Any) -> lp.Schedule:
    x = lp.placeholder((5, m), "float32", name="x")
    c = lp.reduce_axis(m, name="c")
    return lp.Schedule(lp.compute((5,), lambda i: lp.sum(x[i, c], axis=c), name="S"))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("length", [1, 3, 4, 7, 16, 33, 64])
def test_rows_of_any_length_are_folded_by_vectors(length: int, symbolic: bool) -> None:
    s = row_sums(lp.symbol("m") if symbolic else length)
    t = schedules.folded(s, "S", lanes=4)
    x = np.arange(5 * length, dtype=np.float32).reshape(5, length)
    same_in_the_ring(s, t, {"x": x}, {"m": length} if symbolic else {})
    np.testing.assert_array_equal(t.build("llvm")(x), x.sum(axis=1))


def test_a_fold_has_as_many_vectors_as_told_and_no_guard_where_they_fit() -> None:
    t = schedules.folded(row_sums(64), "S", lanes=4, vectors=2)
    assert "S_rf[c_i] = sum(x[i, c_o * 8 + c_i]" in lp.text(t.func)
    assert " if " not in lp.text(t.func)


def test_folds_take_vectors_that_machines_have_masks_for() -> None:
    """Three vectors would be masked, and folded at the end, element by element."""
    t = schedules.folded(row_sums(14), "S", lanes=4)
    assert 'alloc("float32[8]", scope="local") as S_rf' in lp.text(t.func)


@pytest.mark.parametrize("length", [7, 8, 21])
@pytest.mark.parametrize(("step", "lanes"), [(1, 8), (4, 8), (9, 4)])
def test_what_is_read_by_steps_has_as_many_partial_results_as_pay(step: int, lanes: int, length: int) -> None:
    x = lp.placeholder((5, length, step), "float32", name="x")
    c = lp.reduce_axis(length, name="c")
    s = lp.Schedule(lp.compute((5,), lambda i: lp.sum(x[i, c, 0], axis=c), name="S"))
    t = schedules.folded(s, "S", lanes=8)
    given = np.arange(5 * length * step, dtype=np.float32).reshape(5, length, step)
    same_in_the_ring(s, t, {"x": given}, {})
    np.testing.assert_array_equal(t.build("llvm")(given), given[:, :, 0].sum(axis=1))
    assert (t.func == s.func) == (length < lanes)


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


def doubled(n: int, dtype: str) -> lp.Schedule:
    x = lp.placeholder((n,), dtype, name="x")
    return lp.Schedule(lp.compute((n,), lambda i: x[i] + x[i], name="y"))


@pytest.mark.parametrize("dtype", ["float32", "uint16", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("first", [0, 1])
def test_stores_past_the_caches_at_any_address(dtype: str, first: int) -> None:
    s = doubled(256, dtype).split("i", 16)
    t = schedules.streamed(s, "y", "i_i")
    assert f"stream_16_{dtype}()" in lp.text(t.func)
    x = np.arange(256).astype(lp.placeholder((1,), dtype, name="p").dtype.numpy)
    same_in_the_ring(s, t, {"x": x}, {})
    kernel, whole = t.build("llvm"), np.empty(256 + first, x.dtype)
    kernel(x, out=(whole[first:],))
    assert (whole[first:] == x + x).all()
    assert "nontemporal" in kernel.source


def test_vectors_that_may_start_anywhere_are_stored_as_ever() -> None:
    x = lp.placeholder((8, 33), "float32", name="x")
    s = lp.Schedule(lp.compute((8, 33), lambda i, j: x[i, j] + 1.0, name="y")).split("j", 16, tail="peel")
    assert "stream" not in lp.text(schedules.streamed(s, "y", "j_i").func)


def test_only_what_does_not_stay_in_the_caches_goes_past_them() -> None:
    half = lp.caches()[2] // 16  # elements of an array of which two are half of the last cache
    small, large = (lp.text(schedules.cpu(doubled(n, "float32")).func) for n in (half // 2, 2 * half))
    assert "stream" not in small
    assert "stream" in large


def softmax(n: int, m: int) -> lp.Schedule:
    x = lp.placeholder((n, m), "float32", name="x")
    e = lp.exp(x - lp.max(x, axis=1)[:, None])
    return lp.Schedule(e / e.sum(axis=1)[:, None])


def blur(n: int, m: int) -> lp.Schedule:
    x = lp.placeholder((n + 2, m), "float32", name="x")
    h = lp.compute((n + 2, m), lambda i, j: x[i, j] + 1.0, name="h")
    return lp.Schedule(lp.compute((n, m), lambda i, j: h[i, j] + h[i + 1, j] + h[i + 2, j], name="y"))


@pytest.mark.parametrize(("program", "extra"), [(softmax, 0), (blur, 2)])
def test_rows_of_a_large_result_go_past_the_caches(program: Any, extra: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lp, "caches", lambda: (1 << 15, 1 << 19, 1 << 12))
    s = program(24, 128)
    t = schedules.auto(s, "llvm")
    assert "stream_" in lp.text(t.func)
    x = np.random.default_rng(0).integers(0, 9, (24 + extra, 128)).astype(np.float32)
    same_in_the_ring(s, t, {"x": x}, {})
    np.testing.assert_allclose(t.build("llvm")(x), s.build("interpret")(x), rtol=1e-5)


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


def test_a_schedule_predicted_to_be_slower_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what was made is predicted to take far longer than the program as written, that stays."""
    s = lp.Schedule(lp.placeholder((4096,), "float32", name="x") * 2.0)
    made = schedules.auto(s, "llvm")
    assert made.trace
    price = lp.predict

    def priced(t: lp.Schedule, *args: Any, **kwargs: Any) -> Any:
        found = price(t, *args, **kwargs)
        return replace(found, seconds=found.seconds * (100.0 if t.trace else 1.0))

    monkeypatch.setattr(lp, "predict", priced)
    assert schedules.auto(s, "llvm") is s
    every = lp.Schedule(lp.placeholder((lp.symbol("n"),), "float32", name="x") * 2.0)
    assert schedules.auto(every, "llvm").trace  # at 1024, which is taken where no size is given, it may be slower


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_auto_is_predicted_no_slower_than_as_written(name: str) -> None:
    s = PROGRAMS[name].schedule(*PROGRAMS[name].fits)
    written, made = (lp.predict(x, "llvm", threads=1).seconds for x in (s, schedules.auto(s, "llvm")))
    assert made <= 1.5 * written


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


def test_short_folds_of_varying_length_are_one_by_one() -> None:
    text = (
        'def f(L: "float64[3, {0}, {0}]", x: "inout float64[3, {0}]"):\n    for b in range(3):\n'
        "        for i in range({0}):\n            for j in range(i):\n"
        "                x[b, i] -= L[b, i, j] * x[b, j]\n"
    )
    for n, partial in ((16, False), (200, True)):
        t = schedules.auto(lp.Schedule(lp.parse(text.format(n))), "llvm")
        assert any("_rf" in x for x in t.buffers) == partial


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
