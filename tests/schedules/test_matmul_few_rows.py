"""Products of few rows with a large matrix along the reduced loop take rows as lanes, and are right."""

import numpy as np
import pytest

import loopir as lp
import schedules
from schedules.llvm.matmul_few_rows import MOST_VECTORS, matmul_few_rows


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lp, "caches", lambda: (1 << 10, 1 << 11, 1 << 12))


def product(rows: int, columns: int, depth: int, dtype: str = "float32") -> lp.Schedule:
    x, w = (lp.placeholder((n, depth), dtype, name=name) for name, n in (("x", rows), ("w", columns)))
    b = lp.placeholder((columns,), dtype, name="b")
    return lp.Schedule(lp.relu(x @ w.T + b).named("y"))


@pytest.mark.parametrize(("rows", "columns", "depth", "dtype"), [
    (6, 40, 33, "float32"), (16, 64, 40, "float32"), (29, 48, 39, "float32"), (7, 64, 40, "float64"),
])  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_few_rows_give_what_tiles_give(rows: int, columns: int, depth: int, dtype: str, threads: int) -> None:
    rows = min(rows, MOST_VECTORS * (lp.vector_unit()[0] // np.dtype(dtype).itemsize))
    s = product(rows, columns, depth, dtype)
    made = schedules.auto(s, "llvm")
    assert matmul_few_rows.__name__ in made.script()
    rng = np.random.default_rng(depth)
    x, w, b = (rng.integers(-9, 9, n).astype(dtype) for n in ((rows, depth), (columns, depth), (columns,)))
    np.testing.assert_array_equal(made.build("llvm", threads=threads)(x, w, b), np.maximum(x @ w.T + b, 0))


@pytest.mark.parametrize(("rows", "columns", "depth"), [(4, 64, 40), (100, 64, 40), (16, 63, 40)])
def test_other_shapes_go_another_way(rows: int, columns: int, depth: int) -> None:
    s = product(rows, columns, depth)
    assert matmul_few_rows.__name__ not in schedules.auto(s, "llvm").script()
    with pytest.raises(lp.ScheduleError, match="no product of few rows"):
        matmul_few_rows(s, s.stages[0])
