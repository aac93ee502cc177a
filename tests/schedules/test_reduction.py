"""schedules.reduction: every axis, type and size, exactly, on threads as the interpreter runs them; and it compiles."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules

RNG = np.random.default_rng(0)
AXES = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


def scheduled(t: lp.Tensor, **options: Any) -> lp.Schedule:
    s = lp.Schedule(t)
    for stage in s.stages:
        s = schedules.reduction(s, stage, **options)
    return s


def check(t: lp.Tensor, s: lp.Schedule, *arrays: Any, seed: int = 0) -> None:
    """The threads give what the expression says, without a race."""
    want = lp.interpret(lp.Schedule(t).func, arrays, domain="ring")
    (program,) = lp.lower(s, "cuda")
    got = lp.interpret(program, arrays, domain="ring", seed=seed)
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(AXES),
    st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 40)),
    st.sampled_from(["sum", "max", "prod"]),
    st.booleans(),
    st.sampled_from([32, 64]),
    st.sampled_from([None, 64]),
)
def test_any_axes_of_any_size(
    axes: tuple[int, ...], sizes: tuple[int, int, int], fold: str, symbolic: bool, threads: int, chunk: int | None
) -> None:
    shape = tuple(lp.symbol(v, min=0) for v in "nmk") if symbolic else tuple(max(1, x) for x in sizes)
    t = getattr(lp.placeholder(shape, "float32", name="x"), fold)(axis=axes)
    real = sizes if symbolic else tuple(max(1, x) for x in sizes)
    check(t, scheduled(t, threads=threads, chunk=chunk), RNG.integers(0, 5, real).astype(np.float32))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_tuples_and_small_types(axis: int | None) -> None:
    for dtype, fold in (("float32", "argmax"), ("int8", "argmin"), ("bool", "any"), ("int16", "sum")):
        t = getattr(lp.placeholder((23, 41), dtype, name="x"), fold)(axis=axis)
        a = RNG.integers(0, 2 if dtype == "bool" else 9, (23, 41)).astype(dtype)
        check(t, scheduled(t, threads=32, chunk=256), a)


def test_few_results_are_cut_and_many_are_not() -> None:
    def kernels(shape: tuple[int, ...], axis: int | None) -> int:
        s = scheduled(lp.placeholder(shape, "float32", name="x").sum(axis=axis))
        (program,) = lp.lower(s, "cuda")
        return lp.text(program).count("with kernel(")

    assert kernels((1 << 20,), None) == 2
    assert kernels((4, 1 << 20), 1) == 2
    assert kernels((1 << 20, 64), 0) == 2
    assert kernels((4096, 4096), 1) == 1
    assert kernels((4096, 1 << 15), 0) == 1
    assert kernels((500,), None) == 1


def test_what_is_made_of_the_results_is_in_the_same_kernel() -> None:
    for axis, count in ((0, 2), (None, 2), (1, 1)):
        t = (lp.placeholder((2048, 512), "bfloat16", name="x").astype("float32").sum(axis=axis) * 2.0).astype(
            "bfloat16"
        )
        s = schedules.auto(lp.Schedule(t), "cuda")
        (program,) = lp.lower(s, "cuda")
        assert lp.text(program).count("with kernel(") == count
    small = (lp.placeholder((64, 40), "bfloat16", name="x").astype("float32").sum() * 2.0).astype("bfloat16")
    check(
        small,
        schedules.reduction(lp.Schedule(small), lp.Schedule(small).stages[0], chunk=256),
        RNG.integers(0, 5, (64, 40)).astype(small.dtype.numpy),
    )


def test_a_sum_over_everything_moves_whole_vectors_whatever_its_rows() -> None:
    t = lp.placeholder((1023, 501), "bfloat16", name="x").astype("float32").sum()
    s = schedules.auto(lp.Schedule(t), "cuda")
    assert "lp_u4*" in lp.compile_source(s).source


@pytest.mark.parametrize("n", [2052, 3000, 4096])
def test_a_thread_reads_one_vector_at_a_time_of_the_only_row(n: int) -> None:
    """Where a thread takes several vectors that lie apart, it does not read what is between them."""
    t = lp.placeholder((n,), "float32", name="x").sum()
    s = scheduled(t)
    assert all(lp.text(b.shape[0]) == "4" for b in map(s.buffer, s.buffers) if b.scope == "local" and b.shape)
    assert s.report().seconds < 5e-6
    check(t, s, RNG.integers(0, 5, n).astype(np.float32))


def test_short_rows_share_a_block() -> None:
    s = scheduled(lp.placeholder((lp.symbol("n"), 8), "float32", name="x").sum(axis=1))
    assert {s.loop(x).kind: lp.text(s.loop(x).extent) for x in s.loops() if "Idx" in s.loop(x).kind} == {
        "blockIdx.x": "(n + 127) // 128",
        "threadIdx.y": "128",
        "threadIdx.x": "2",
    }


def test_it_compiles_for_a_gpu() -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    for axis in (None, 0, 1):
        for dtype in ("float32", "bfloat16"):
            source = lp.compile_source(scheduled(lp.placeholder((n, m), dtype, name="x").max(axis=axis)))
            assert source.cubin


def test_what_is_no_reduction_is_left_alone() -> None:
    s = lp.Schedule(lp.placeholder((4, 5), "float32", name="x") + 1.0)
    assert schedules.reduction(s, s.stages[0]).func == s.func


@pytest.mark.parametrize("axis", [1, None])
@pytest.mark.parametrize("fold", ["sum", "max", "argmax"])
def test_on_a_cpu_rows_run_on_threads_and_sums_in_vectors(axis: int | None, fold: str) -> None:
    x = lp.placeholder((lp.symbol("n", min=0), lp.symbol("m", min=0)), "float32", name="x")
    t = getattr(x, fold)(axis=axis)
    s = schedules.cpu(lp.Schedule(t), lanes=8)
    kinds = {s.loop(v).kind for v in s.loops()}
    assert "parallel" in kinds
    kernel, plain = s.build("llvm", threads=3), lp.Schedule(t).build("interpret")
    for size in ((1, 1), (3, 0), (0, 3), (5, 37), (40, 21)):
        if fold == "argmax" and 0 in size:
            continue
        a = RNG.integers(-9, 9, size).astype(np.float32)
        np.testing.assert_array_equal(kernel(a), plain(a))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_columns_of_unknown_number_have_versions(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["schedules.cuda.reduction"]
    monkeypatch.setattr(module, "FEW_BLOCKS", 1)
    monkeypatch.setattr(module, "SHORT_ROW", 32)
    monkeypatch.setattr(module, "LONG", 32)
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), dtype, name="x")
    t = lp.cast(x, "float32").sum(axis=0).astype(dtype)
    s = schedules.inlined(lp.Schedule(t))
    s = schedules.reduction(s, s.stages[0], threads=64)
    for size in ((70, 64), (9, 128), (70, 24), (70, 13)):
        check(t, s, RNG.integers(0, 5, size).astype(s.func.args[0].buffer.dtype.numpy))
    if dtype == "float32":
        text = lp.text(s.func)
        assert text.count("m % 64 == 0") == 2, "whole blocks, enough for a GPU or not"
        assert text.count("m % 4 == 0") == 1, "whole vectors; and all others"
        assert text.count("2048 <= n") == 1, "groups of rows, or few rows"
        assert lp.compile_source(s).source.count("__global__") == 9


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_everything_of_unknown_number_is_taken_in_turns(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["schedules.cuda.reduction"]
    monkeypatch.setattr(module, "BLOCK_ROUNDS", 3)
    monkeypatch.setattr(module, "MANY_ELEMENTS", 10000)
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), dtype, name="x")
    t = lp.cast(x, "float32").sum().astype(dtype)
    s = schedules.inlined(lp.Schedule(t))
    s = schedules.reduction(s, s.stages[0], threads=32)
    for size in ((5, 8), (32, 316), (103, 99), (1, 3000)):
        check(t, s, RNG.integers(0, 5, size).astype(s.func.args[0].buffer.dtype.numpy))
    assert lp.compile_source(s).source.count("__global__") == 4, "what is made of the sum is made where it is"


@pytest.mark.parametrize("n", [1, 5])
def test_several_results_of_one_tensor(n: int) -> None:
    """Rows, columns and all of it, sums and places, in one program: what one nest moves past is many statements."""
    x = lp.placeholder((lp.symbol("n"), 7), "int32", name="x")
    results = [x.sum(axis=1), x.max(axis=0), x.argmax(axis=1), x.min(), x.any(axis=1), x.prod(axis=1)]
    s = schedules.gpu(lp.Schedule([r.named(f"o{k}") for k, r in enumerate(results)]))
    a = np.random.default_rng(n).integers(-3, 4, (n, 7), dtype=np.int32)
    sums, most, where, least, some, product = s.build("interpret")(a)
    assert np.array_equal(sums, a.sum(1, dtype=np.int32))
    assert np.array_equal(most, a.max(0))
    assert np.array_equal(where, a.argmax(1))
    assert least == a.min()
    assert np.array_equal(some, a.any(1))
    assert np.array_equal(product, a.prod(1, dtype=np.int32))


def test_vectors_of_a_matrix_come_before_what_they_are_multiplied_by() -> None:
    """What is read between their loads, and again by others, would keep them from being in flight together."""
    x, w = lp.placeholder((128,), "float32", name="x"), lp.placeholder((128, 64), "float32", name="w")
    k = lp.reduce_axis(128, name="k")
    t = lp.compute((64,), lambda j: lp.sum(x[k] * w[k, j], axis=k), name="y")
    s = scheduled(t, threads=64, chunk=64)
    assert 'alloc("float32[8, 4]", scope="local") as w_local' in lp.text(
        s.func
    )  # four rows of a thread, and of two of them
    check(t, s, RNG.integers(0, 5, 128).astype(np.float32), RNG.integers(0, 5, (128, 64)).astype(np.float32))


@pytest.mark.parametrize("shape", [(64, 200_000), (8, 1 << 20), (33, 131_072)])
def test_long_rows_are_finished_by_many_processors(shape: tuple[int, int]) -> None:
    """What folds the parts of rows has one block: it is not to make what follows, which took 70 times as long."""
    x = lp.placeholder(shape, "float32", name="x")
    s = schedules.auto(lp.Schedule(lp.softmax(x, axis=1)), "cuda", arch="sm_90a")
    moved = 2 * 4 * shape[0] * shape[1]
    assert s.report().seconds <= 5 * moved / lp.machine("sm_90a").copy_bandwidth


@pytest.mark.parametrize("columns", [16, 64])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parts_of_few_columns_are_folded_in_few_turns(columns: int, dtype: str) -> None:
    """Threads wait once for each turn, and blocks of fewer columns have fewer turns."""
    x = lp.placeholder((65536, columns), dtype, name="x")
    made = schedules.auto(lp.Schedule(x.astype("float32").sum(axis=0)), "cuda", arch="sm_90a")
    first, last = made.report(arch="sm_90a").kernels
    assert last.work.blocks * 8 >= columns  # of vectors of two sectors each, at most
    assert first.work.blocks >= 2 * lp.machine("sm_90a").processors


def test_a_fold_that_never_runs_is_scheduled() -> None:
    """Its results are no fold in registers: with a copy of them, the guard is seen to be false."""
    s = lp.Schedule(
        lp.parse("""
def f(B: "float32[4, 40]", Y: "inout float32[4]"):
    for i in range(4):
        for j in range(40):
            if not i < 4:
                Y[i] = sum(B[i, j], over=j)
""")
    )
    made = schedules.reduction(s, "Y")
    y = np.arange(4, dtype=np.float32)
    got = lp.interpret(lp.lower(made, "cuda")[0], [np.ones((4, 40), np.float32), y.copy()])
    np.testing.assert_array_equal(got["Y"], y)


@pytest.mark.parametrize("n", [33, 130])
@pytest.mark.parametrize("form", range(4))
def test_rows_that_read_two_elements_of_one_array_copy_no_more_than_a_vector(n: int, form: int) -> None:
    """`x[i] + x[j]`, as of distances: between both there is a run of any length, which no thread holds."""
    x, m = lp.placeholder((n,), "float32", name="x"), lp.placeholder((n, n), "float32", name="m")
    y, r = lp.placeholder((n, 4), "float32", name="y"), lp.reduce_axis(n, name="r")
    t = [
        lambda: lp.sum(x[:, None] + x[None] - m, axis=1),
        lambda: lp.sum(x[:, None] * x[None] * m, axis=0),
        lambda: lp.max(x[None] - x[:, None] + m, axis=1),
        lambda: lp.compute((n, 4), lambda i, j: lp.sum(y[i, j] + y[r, j], axis=r), name="t"),
    ][form]()
    s = scheduled(t)
    near = [b for b in map(s.buffer, s.buffers) if b.scope == "local"]
    assert all(int(lp.text(size)) < n for b in near for size in b.shape)
    shapes = [(n,), (n, n)] if form < 3 else [(n, 4)]
    check(t, s, *(RNG.integers(-3, 4, shape).astype(np.float32) for shape in shapes))


def test_what_is_made_of_several_results_of_few_long_rows_is_made_in_their_block() -> None:
    """All of these lie in memory that the block shares: with one alone, the rows were left to a thread each."""
    x = lp.placeholder((4, 1200), "float32", name="x")
    s = lp.Schedule(lp.logsumexp(x, axis=1))
    made = schedules.reduction(s, s.stages[0], threads=64, chunk=300)
    a = RNG.standard_normal((4, 1200)).astype(np.float32)
    (lowered,) = lp.lower(made, "cuda")
    got = lp.interpret(lowered, (a,))["out"]
    np.testing.assert_allclose(got, np.log(np.exp(a).sum(1)), rtol=1e-5)
    x = lp.placeholder((64, 32000), "float32", name="x")
    assert schedules.auto(lp.Schedule(lp.logsumexp(x, axis=1)), "cuda").report().seconds < 2e-5
