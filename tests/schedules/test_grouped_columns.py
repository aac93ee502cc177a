"""schedules.grouped: columns of rows that are no whole vectors, folded by vectors of several rows together, exactly."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from schedules.common.fusion import inlined

grouped = importlib.import_module("schedules.cuda.grouped_columns")
RNG = np.random.default_rng(0)


def sums(dtype: str, rows: int, columns: int, fold: str) -> lp.Schedule:
    x = lp.placeholder((rows, columns), dtype, name="x").astype("float32")
    return inlined(lp.Schedule((getattr(x, fold)(axis=0) * 2.0).astype(dtype)))


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "fold"),
    [("float32", 64, 13, "sum"), ("float32", 79, 13, "sum"), ("bfloat16", 143, 9, "sum"), ("bfloat16", 149, 7, "max")],
)
def test_every_row_is_folded_once(dtype: str, rows: int, columns: int, fold: str) -> None:
    s = sums(dtype, rows, columns, fold)
    (column,) = (x for x in s.loops(s.stages[0]) if x not in s.reduced(s.stages[0]))
    with lp.scheduling_for(replace(lp.machine(), processors=3)):
        made = grouped.grouped(s, s.stages[0], column, s.reduced(s.stages[0]), side=4, threads=8)
    assert made is not None
    (program,) = lp.lower(made, "cuda")
    assert lp.text(program).count("with kernel(") == 2
    given = {"x": RNG.integers(-9, 9, (rows, columns)).astype(s.func.args[0].buffer.dtype.numpy)}
    want, got = (interpret(f, given, domain="ring") for f in (s.func, program))
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)


def test_rows_are_read_by_vectors() -> None:
    for dtype in ("float32", "bfloat16"):
        s = schedules.reduction(sums(dtype, 8191, 5003, "sum"), "sum")
        kernel = lp.compile_source(s).source.partition("__global__")[2]
        assert "const lp_u4*>(x + " in " ".join(kernel.split())


@pytest.mark.parametrize("shape", [(8191, 5000), (100, 5003), (8191, 35), (1 << 20, 400001)])
def test_it_is_for_many_such_rows_alone(shape: tuple[int, int]) -> None:
    s = sums("float32", *shape, "sum")
    assert "sum_1" not in schedules.reduction(s, "sum").stages


@pytest.mark.parametrize(("dtype", "rows", "columns"), [("float32", 39, 7), ("float32", 32, 3), ("bfloat16", 71, 5)])
@pytest.mark.parametrize("known", [False, True])
def test_sizes_that_are_not_known(
    dtype: str, rows: int, columns: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouped, "VECTORS_IN_FLIGHT", 2)
    monkeypatch.setattr(grouped, "ROUNDS_PER_THREAD", 1)
    monkeypatch.setattr(grouped, "LEAST", 1)
    monkeypatch.setattr(grouped, "SIDE", 4)
    monkeypatch.setattr(grouped, "COLUMN_THREADS", 8)
    monkeypatch.setitem(grouped.grouped.__kwdefaults__, "side", 4)
    monkeypatch.setitem(grouped.grouped.__kwdefaults__, "threads", 8)
    x = lp.placeholder((lp.symbol("n"), columns if known else lp.symbol("m")), dtype, name="x")
    s = inlined(lp.Schedule((x.astype("float32").sum(axis=0) * 2.0).astype(dtype)))
    s = schedules.reduction(s, s.stages[0], threads=64)
    least = 4 * 16 // s.func.args[0].buffer.dtype.bytes
    assert f"{least} <= n" in lp.text(s.func)
    code = lp.compile_source(s).source
    assert "const lp_u4*>(x + " in " ".join(code.split())
    assert "checks" not in code, "every vector is proved to be inside"
    (program,) = lp.lower(s, "cuda")
    for n in (rows, 3):
        given = {"x": RNG.integers(-9, 9, (n, columns)).astype(s.func.args[0].buffer.dtype.numpy)}
        want, got = (interpret(f, given, domain="ring") for f in (s.func, program))
        for name, out in want.items():
            np.testing.assert_array_equal(got[name], out)
