"""Loops that carry dependences: scattered folds, sweeps in time, recurrences; exact on threads and as C++ on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import cuda_on_cpu
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.cuda.batched_scan import is_recurrence, recurrence
from schedules.cuda.carried_loops import carried_loops, carrier, is_scatter

RNG = np.random.default_rng(0)
GRADIENT = """
def gradient(x: "{t}[{n}, {m}]", ids: "int64[{n}]", w: "inout {t}[{rows}, {m}]"):
    for i in range({n}):
        for j in range({m}):
            w[ids[i], j] += x[i, j]
"""
SWEPT = """
def swept(a: "inout int32[{n}, {m}]", b: "inout int32[{n}, {m}]"):
    for t in range({times}):
        for i in range({inner_n}):
            for j in range({inner_m}):
                b[i + 1, j + 1] = a[i, j + 1] + a[i + 2, j + 1] - a[i + 1, j] + 3 * a[i + 1, j + 2]
        for i in range({inner_n}):
            for j in range({inner_m}):
                a[i + 1, j + 1] = b[i, j + 1] - b[i + 2, j + 1] + b[i + 1, j] + b[i + 1, j + 2]
"""
RECURRENCE = """
def recurrence(x: "int32[{b}, {n}, {m}]", z: "int32[{b}, {n}, {m}]", y: "out int32[{b}, {n}, {m}]"):
    for i in range({b}):
        for t in range({n}):
            for j in range({m}):
                y[i, t, j] = select(1 <= t, y[i, t - 1, j], 0) * x[i, t, j] + z[i, t, j]
"""


def parsed(text: str, **sizes: int | str) -> lp.Schedule:
    inner = {f"inner_{x}": n - 2 for x, n in sizes.items() if isinstance(n, int)}
    return lp.Schedule(lp.parse(text.format(**sizes, **inner)))


def numbers(*shape: int, high: int = 5) -> np.ndarray:
    return RNG.integers(-high, high, shape).astype(np.int32)


def swept_by_numpy(a: np.ndarray, b: np.ndarray, times: int) -> None:
    near = (slice(None, -2), slice(1, -1)), (slice(2, None), slice(1, -1)), (slice(1, -1), slice(None, -2))
    inner, right = (slice(1, -1), slice(1, -1)), (slice(1, -1), slice(2, None))
    for _ in range(times):
        b[inner] = a[near[0]] + a[near[1]] - a[near[2]] + 3 * a[right]
        a[inner] = b[near[0]] - b[near[1]] + b[near[2]] + b[right]


def chained(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    y = z.copy()
    for t in range(1, x.shape[1]):
        y[:, t] += y[:, t - 1] * x[:, t]
    return y


def all_stages(s: lp.Schedule, recipe: Callable[..., lp.Schedule], **options: int) -> lp.Schedule:
    for stage in s.stages:
        s = recipe(s, stage, **options)
    return s


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 7), st.sampled_from(["int32", "float32"]))
def test_scattered_folds_are_what_they_were(n: int, m: int, rows: int, t: str) -> None:
    s = parsed(GRADIENT, n=n, m=m, rows=rows, t=t)
    assert is_scatter(s, "w")
    x, ids, w = numbers(n, m).astype(t), RNG.integers(0, rows, n), numbers(rows, m).astype(t)
    want = w.copy()
    np.add.at(want, ids, x)
    (program,) = lp.lower(carried_loops(s, "w", threads=32), "cuda")
    np.testing.assert_array_equal(lp.interpret(program, [x, ids, w])["w"], want)


@settings(max_examples=5, deadline=None)
@given(st.integers(8, 14), st.integers(8, 70), st.integers(2, 3))
def test_sweeps_are_what_they_were(n: int, m: int, times: int) -> None:
    """On interpreted threads, which tell races; a launch for each sweep."""
    made = all_stages(parsed(SWEPT, n=n, m=m, times=times), carried_loops, threads=32)
    a, b = numbers(n, m), numbers(n, m)
    want = a.copy(), b.copy()
    swept_by_numpy(*want, times)
    (program,) = lp.lower(made, "cuda")
    got = lp.interpret(program, [a, b])
    np.testing.assert_array_equal(got["a"], want[0])
    np.testing.assert_array_equal(got["b"], want[1])


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 3), st.integers(2, 30), st.integers(2, 70))
def test_recurrences_are_what_they_were(batch: int, n: int, m: int) -> None:
    s = parsed(RECURRENCE, b=batch, n=n, m=m)
    assert is_recurrence(s, "y")
    x, z = numbers(batch, n, m, high=2), numbers(batch, n, m)
    (program,) = lp.lower(recurrence(s, "y", threads=32), "cuda")
    np.testing.assert_array_equal(lp.interpret(program, [x, z])["y"], chained(x, z))


@cuda_on_cpu.needs_compiler
def test_the_same_as_cpp() -> None:
    a, b = numbers(21, 140), numbers(21, 140)
    want = a.copy(), b.copy()
    swept_by_numpy(*want, 3)
    cuda_on_cpu.build(all_stages(parsed(SWEPT, n=21, m=140, times=3), carried_loops))(a, b)
    np.testing.assert_array_equal(a, want[0])
    np.testing.assert_array_equal(b, want[1])
    x, z = numbers(2, 37, 75, high=2), numbers(2, 37, 75)
    made = recurrence(parsed(RECURRENCE, b=2, n=37, m=75), "y", threads=64)
    np.testing.assert_array_equal(cuda_on_cpu.build(made)(x, z), chained(x, z))


@pytest.mark.parametrize(
    ("text", "sizes", "blocks"),
    [
        (GRADIENT, {"n": 8192, "m": 64, "rows": 3000, "t": "float32"}, 2048),
        (SWEPT, {"n": 514, "m": 1026, "times": 4}, 128),
        (RECURRENCE, {"b": 4, "n": 500, "m": 512}, 64),
    ],
)
def test_auto_takes_them(text: str, sizes: dict[str, int | str], blocks: int) -> None:
    """Blocks for the whole GPU, where there was one thread."""
    report = schedules.auto(parsed(text, **sizes), "cuda", arch="sm_90a").report()
    assert all(k.work.blocks >= blocks for k in report.kernels if not k.work.name.endswith("_checks"))


def test_others_are_refused() -> None:
    chain = lp.Schedule(lp.parse('''
def chain(a: "inout float32[9]"):
    for i in range(8):
        a[i + 1] = a[i] * a[i]
'''))  # fmt: skip
    assert not is_scatter(chain, "a")
    assert carrier(chain, "a") is None
    with pytest.raises(lp.ScheduleError, match="no loops that carry dependences around"):
        carried_loops(chain, "a")
    with pytest.raises(lp.ScheduleError, match="no chain along one loop with columns"):
        recurrence(chain, "a")
    few = parsed(SWEPT, n=4, m=4, times=2)
    assert carrier(few, few.stages[0]) is None
