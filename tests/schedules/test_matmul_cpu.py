"""Contractions in tiles, on either target: at any size, either operand turned around, batched, by any monoid."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from contractions import program

import loopir as lp
import schedules
from loopir.lower.pipeline import lower

SHAPES = [(12, 32, 8), (20, 35, 9), (1, 3, 2), (7, 16, 3), (5, 50, 3), (9, 33, 41)]


def inputs(s: lp.Schedule, **sizes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = (
        [getattr(d, "value", None) or sizes[d.name] for d in a.buffer.shape] for a in s.func.args if a.access == "in"
    )
    return [rng.integers(0, 9, shape).astype(np.float32) for shape in shapes]


def check(s: lp.Schedule, **sizes: int) -> None:
    """Exact, as the values are small integers: scheduled for both targets, in order, as threads, and on the CPU."""
    arrays = inputs(s, **sizes)
    want = lp.interpret(s.func, arrays)["C"]
    for tiles in (2, None):  # in panels, and as the sizes would have it
        on_cpu = schedules.matmul_cpu(s, "C", lanes=4, tiles=tiles)
        assert np.array_equal(lp.interpret(on_cpu.func, arrays)["C"], want)
        assert np.array_equal(on_cpu.build("llvm")(*arrays), want)
    on_gpu = schedules.matmul_gpu(s, "C", block=8, depth=4, part=2, vector=2)
    assert np.array_equal(lp.interpret(lower(on_gpu.func, "cuda"), arrays, seed=2)["C"], want)


@pytest.mark.parametrize("shape", SHAPES)
def test_at_any_size(shape: tuple[int, int, int]) -> None:
    check(program(*shape))


@pytest.mark.parametrize("turned", ["A", "B", "AB"])
def test_with_transposed_operands(turned: str) -> None:
    check(program(20, 35, 9, turned=turned))


def test_small_ones_are_taken_as_they_lie_by_whole_tiles_alone() -> None:
    text = lp.text(schedules.matmul_cpu(program(31, 33, 31), "C").func)
    assert "_global" not in text
    assert " if " not in text


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("shape", [(31, 40, 40), (20, 34, 37)])
def test_narrow_ones_are_taken_as_they_lie(
    shape: tuple[int, int, int], threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", threads)
    monkeypatch.setattr(lp, "caches", lambda: (1 << 12, 9 << 10, 1 << 20))  # B is not near as a whole
    monkeypatch.setattr(import_module("schedules.llvm.matmul_cpu"), "SHARED_CACHE", 1)
    s = program(*shape)
    t = schedules.matmul_cpu(s, "C", lanes=8, registers=16)
    assert "_global" not in lp.text(t.func)
    assert any(t.loop(x).kind == "parallel" for x in t.loops()) == (threads == "2")
    arrays = inputs(s)
    assert np.array_equal(t.build("llvm")(*arrays), lp.interpret(s.func, arrays)["C"])


def test_long_reductions_are_taken_in_parts() -> None:
    s = program(4, 16, 1300)
    t = schedules.matmul_cpu(s, "C", lanes=4, tiles=2)
    assert f"range({650 // 4})" in lp.text(t.func)
    arrays = inputs(s)
    assert np.array_equal(t.build("llvm")(*arrays), lp.interpret(s.func, arrays)["C"])


def test_blocks_are_of_columns_where_these_are_many_more() -> None:
    t = schedules.matmul_cpu(program(12, 600, 8), "C", tiles=2)
    block = next(x for x in t.loops("C") if t.loop(x).kind == "parallel")
    assert block.startswith("j")


def test_a_column_left_over_is_folded_by_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "1")
    check(program(9, 33, 41))
    text = lp.text(schedules.matmul_cpu(program(9, 33, 41), "C", lanes=4, registers=16).func)
    assert "C_rf" in text
    assert "C_rf" in lp.text(schedules.matmul_cpu(program(9, 33, 8), "C", lanes=4, registers=16).func)
    assert "C_rf" not in lp.text(schedules.matmul_cpu(program(9, 33, 7), "C", lanes=4, registers=16).func)
    assert " if " not in text.partition("C_rf")[0]


@pytest.mark.parametrize(("depth", "chunk"), [(24, 8), (28, 4), (30, 1)])
def test_steps_of_the_left_operand_lie_together(depth: int, chunk: int) -> None:
    s = program(20, 40, depth)
    t = schedules.matmul_cpu(s, "C", lanes=4, tiles=2)
    assert (f"k // {chunk}" in lp.text(t.func)) == (chunk > 1)
    arrays = inputs(s)
    assert np.array_equal(t.build("llvm")(*arrays), lp.interpret(s.func, arrays)["C"])


def test_in_batches() -> None:
    check(program(9, 17, 5, batch=3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "float64"])
@pytest.mark.parametrize("tiles", [2, None])
def test_by_other_numbers_on_a_cpu(dtype: str, tiles: int | None) -> None:
    """16-bit floats are added up in float32, int8 in int32."""
    A, B = lp.placeholder((23, 41), dtype, name="A"), lp.placeholder((41, 35), dtype, name="B")
    k = lp.reduce_axis(41, name="k")
    wide: Callable[[Any], Any] = (lambda v: v.astype("int32")) if dtype == "int8" else (lambda v: v)
    C = lp.compute((23, 35), lambda i, j: lp.sum(wide(A[i, k]) * wide(B[k, j]), axis=k), name="C")
    s = lp.Schedule(C)
    stage = next(x for x in s.stages if s.reduced(x))
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(A.dtype.numpy) for shape in ((23, 41), (41, 35)))
    got = schedules.matmul_cpu(s, stage, tiles=tiles).build("llvm")(a, b)
    assert np.array_equal(got.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def test_elements_are_converted_once_into_panels() -> None:
    a, b = (lp.placeholder((23, 23), dtype, name=x) for x, dtype in (("A", "float16"), ("B", "bfloat16")))
    t = schedules.matmul_cpu(lp.Schedule(a.astype("float32") @ b.astype("float32")), "matmul", tiles=2)
    panels = [x.dtype.name for p in t.stages if p.endswith("_global") for x in t.accesses(p) if x.write]
    assert panels == ["float32", "float32"]
    assert "select(" in lp.text(t.func)  # and are padded, as of any type
    given = [np.arange(-264, 265).reshape(23, 23).astype(x.dtype.numpy) for x in (a, b)]
    assert np.array_equal(t.build("llvm")(*given), given[0].astype(np.float32) @ given[1].astype(np.float32))


def test_by_another_monoid() -> None:
    check(program(9, 17, 5, fold="min"))


def test_at_symbolic_sizes() -> None:
    n, m, depth = (lp.symbol(x) for x in ("n", "m", "d"))
    s = program(n, m, depth)
    check(s, n=12, m=16, d=8)
    check(s, n=5, m=9, d=3)


def test_auto_tiles_what_is_large_enough() -> None:
    tiled = schedules.auto(program(64, 64, 64), "cuda")
    assert "shared" in str(tiled)
    assert "shared" not in str(schedules.auto(program(64, 64, 4), "cuda"))
    assert 'scope="local"' in str(schedules.auto(program(64, 64, 64), "llvm"))


@pytest.mark.parametrize("target", ["cuda", "llvm"])
@pytest.mark.parametrize("rows", [64, 83, "n"])
def test_what_follows_a_product_is_in_its_store(rows: object, target: str) -> None:
    m = lp.symbol(rows) if isinstance(rows, str) else rows
    A, B = lp.placeholder((m, 70), "float32", name="A"), lp.placeholder((70, 100), "float32", name="B")
    bias = lp.placeholder((100,), "float32", name="bias")
    naive = lp.Schedule(lp.maximum(A @ B + bias, 0.0) * 2.0)
    s = schedules.auto(naive, target)
    assert s.func.body[0] != naive.func.body[0]
    assert not any(t.buffer in ("matmul", "add") for x in s.stages for t in s.accesses(x))
    rng = np.random.default_rng(3)
    shapes = ((83 if isinstance(rows, str) else rows, 70), (70, 100), (100,))
    given = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    want = np.maximum(given[0] @ given[1] + given[2], 0) * 2
    if target == "llvm":
        assert (s.build("llvm")(*given) == want).all()
    else:
        assert lp.compile_source(s).source.count("__global__") == 1


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize(
    ("how", "dtype"),
    [
        *((how, "float32") for how in ("rows", "columns", "itself", "batches", "symbols")),
        *((how, "bfloat16") for how in ("rows", "symbols")),
    ],
)
def test_a_product_of_a_matrix_with_itself_is_tiled(how: str, dtype: str, target: str) -> None:
    """What brings operands near knows them by their buffers, of which there is one."""
    shape = {"itself": (48, 48), "batches": (2, 40, 33), "symbols": (lp.symbol("n"), lp.symbol("m"))}.get(how, (40, 33))
    x = lp.placeholder(shape, dtype, name="x")
    made = {
        "columns": lambda: x.T @ x,
        "itself": lambda: x @ x,
        "batches": lambda: x @ x.transpose(0, 2, 1),
    }.get(how, lambda: x @ x.T)()
    s = lp.Schedule(made)
    t = schedules.auto(s, target)
    assert len(t.stages) > len(s.stages)
    at = (40, 33) if how == "symbols" else shape
    a = np.random.default_rng(0).integers(-1, 2, at).astype(x.dtype.numpy)
    if target == "llvm":
        (want,) = lp.interpret(s.func, {"x": a}).values()
        assert np.array_equal(t.build("llvm", threads=2)(a), want)
    else:
        assert lp.compile_source(t).source


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sizes_may_be_called_like_the_dimensions_of_a_layout(dtype: str, target: str) -> None:
    x, k, y = (lp.symbol(name) for name in "xky")
    s = lp.Schedule(lp.placeholder((x, k), dtype, name="A") @ lp.placeholder((k, y), dtype, name="B"))
    t = schedules.cpu(s) if target == "llvm" else schedules.gpu(s, arch="sm_90a")
    assert "layout=" in lp.text(t.func)
    if target == "llvm":
        a, b = (np.random.default_rng(0).integers(-5, 5, n).astype(dtype) for n in ((70, 40), (40, 50)))
        np.testing.assert_array_equal(t.build("llvm")(a, b), a @ b)


def test_tiles_are_asked_for_where_what_takes_the_sums_stores_them() -> None:
    a, b = lp.placeholder((256, 256), "float32", name="a"), lp.placeholder((256, 1024), "float32", name="b")
    s = schedules.auto(lp.Schedule(lp.relu(a @ b).named("y")), "llvm")
    assert "prefetch(y[" in lp.text(s.func)
