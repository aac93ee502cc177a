"""Norms, counts, order statistics, products of signals and factorizations are those of NumPy and SciPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, run

import loopir as lp
import schedules

Both = tuple[Callable[[Any], Any], Callable[[Any], Any]]
OF_A_MATRIX: dict[str, Both] = {
    "norm": (lp.norm, np.linalg.norm),
    "norm of rows": (lambda x: lp.norm(x, axis=-1, keepdims=True), lambda a: np.linalg.norm(a, axis=-1, keepdims=True)),
    "count_nonzero": (lambda x: lp.count_nonzero(x, 0), lambda a: np.count_nonzero(a, 0)),
    "log2": (lambda x: lp.log2(lp.abs(x)), lambda a: np.log2(np.abs(a))),
    "log10": (lambda x: lp.log10(lp.abs(x)), lambda a: np.log10(np.abs(a))),
    "logaddexp": (lambda x: lp.logaddexp(x, x[::-1]), lambda a: np.logaddexp(a, a[::-1])),
    "median": (lp.median, np.median),
    "median of columns": (lambda x: lp.median(x, 0), lambda a: np.median(a, 0)),
    "quantile": (lambda x: lp.quantile(x, 0.3, 1, keepdims=True), lambda a: np.quantile(a, 0.3, 1, keepdims=True)),
    "largest quantile": (lambda x: lp.quantile(x, 1.0, -1), lambda a: np.quantile(a, 1.0, -1)),
    "kron": (lambda x: lp.kron(x, x[:1]), lambda a: np.kron(a, a[:1])),
    "cumprod": (lambda x: lp.cumprod(x, 1), lambda a: np.cumprod(a, 1)),
    "cumprod of all": (lp.cumprod, lambda a: np.cumprod(a)),
    "cummax": (lambda x: lp.cummax(x, 0), lambda a: np.maximum.accumulate(a, 0)),
    "cummin": (lp.cummin, lambda a: np.minimum.accumulate(a, -1)),
    "full": (lambda x: lp.convolve(x[0], x[1, :2]), lambda a: np.convolve(a[0], a[1, :2])),
    "same": (lambda x: lp.convolve(x[0], x[1, :2], "same"), lambda a: np.convolve(a[0], a[1, :2], "same")),
    "valid": (lambda x: lp.convolve(x[0], x[1, :2], "valid"), lambda a: np.convolve(a[0], a[1, :2], "valid")),
    "searchsorted": (
        lambda x: lp.searchsorted(lp.sort(x[0]), x),
        lambda a: np.searchsorted(np.sort(a[0]), a.ravel()).reshape(a.shape),
    ),
    "right": (
        lambda x: lp.searchsorted(lp.sort(x[0]), x, "right"),
        lambda a: np.searchsorted(np.sort(a[0]), a.ravel(), "right").reshape(a.shape),
    ),
    "take_along_axis": (
        lambda x: lp.take_along_axis(x, lp.argsort(x, 0)[:1], 0),
        lambda a: np.take_along_axis(a, np.argsort(a, 0, kind="stable")[:1], 0),
    ),
}


@pytest.mark.filterwarnings("ignore:divide by zero|invalid value")
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(OF_A_MATRIX)), st.integers(2, 4), st.integers(2, 5), st.booleans(), st.integers(0, 999))
def test_as_numpy(name: str, rows: int, columns: int, missing: bool, seed: int) -> None:
    ours, theirs = OF_A_MATRIX[name]
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, (rows, columns)).astype(np.float64)
    if missing and name.startswith(("median", "quantile", "cum")):
        a[rng.integers(rows), rng.integers(columns)] = np.nan
    want = theirs(a)
    got = run(ours(lp.placeholder(a.shape, "float64", name="x")), a)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_bincount(weighted: bool) -> None:
    a, w = np.array([1, 3, 3, 7, 0, 3], np.int32), np.arange(6, dtype=np.float32)
    x, v = lp.placeholder((6,), "int32", name="x"), lp.placeholder((6,), "float32", name="v")
    s = lp.Schedule(lp.bincount(x, 5, v if weighted else None))
    got = s.build("interpret")(a, w) if weighted else s.build("interpret")(a)
    assert got.tolist() == np.bincount(a, w if weighted else None, 5)[:5].tolist()
    assert weighted or got.dtype == np.int64


@pytest.mark.parametrize("num", [1, 2, 7])
def test_linspace(num: int) -> None:
    np.testing.assert_allclose(run(lp.linspace(-1.5, 2.1, num)), np.linspace(-1.5, 2.1, num), rtol=1e-15)


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 6), st.integers(0, 99))
def test_a_system_is_solved_by_its_factors(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = rng.random((n, n))
    a, b = m @ m.T + np.eye(n), rng.random((n, 2))
    A, B = lp.placeholder((n, n), "float64", name="A"), lp.placeholder((n, 2), "float64", name="B")
    L = lp.cholesky(A)
    s = lp.Schedule(
        [L, lp.solve_triangular(L.T, lp.solve_triangular(L, B, lower=True)), lp.solve_triangular(A, B[:, 0])]
    )
    factor, x, upper = s.build("interpret")(a, b)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a @ x, b, rtol=1e-9)
    np.testing.assert_allclose(np.triu(a) @ upper, b[:, 0], rtol=1e-9)


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_systems_of_a_stack_are_solved_each_by_itself(count: int, n: int, lower: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = rng.random((2, count, n, n))
    a, b = m @ np.swapaxes(m, -1, -2) + np.eye(n), rng.random((2, count, n, 3))
    A, B = lp.placeholder(a.shape, "float64", name="A"), lp.placeholder(b.shape, "float64", name="B")
    several = [lp.cholesky(A), lp.solve_triangular(A, B, lower), lp.solve_triangular(A, B[0, 0], lower)]
    several += [lp.solve_triangular(A[0, 0], B, lower), lp.solve_triangular(A, B[0, 0, :, 0], lower)]
    factor, each, same, one, vector = lp.Schedule(several).build("interpret")(a, b)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-9, atol=1e-12)
    side = np.tril(a) if lower else np.triu(a)
    np.testing.assert_allclose(side @ each, b, rtol=1e-9)
    np.testing.assert_allclose(side @ same, np.broadcast_to(b[0, 0], b.shape), rtol=1e-9)
    np.testing.assert_allclose(side[0, 0] @ one, b, rtol=1e-9)
    np.testing.assert_allclose(
        (side @ vector[..., None])[..., 0], np.broadcast_to(b[0, 0, :, 0], b.shape[:-1]), rtol=1e-9
    )


TYPES = ("float32", "float16", "int32", "uint8", "int64", "float64")


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 200),
    st.sampled_from([(), (0,), (7,), (3, 4)]),
    st.sampled_from(["left", "right"]),
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.randoms(use_true_random=False),
)
def test_places_among_elements_in_order(
    n: int, shape: tuple[int, ...], side: Any, ordered: str, asked: str, random: Any
) -> None:
    rng = np.random.default_rng(random.randrange(1 << 32))
    a, v = np.sort(rng.integers(0, 60, n)).astype(ordered), np.asarray(rng.integers(0, 63, shape)).astype(asked)
    assert_as_numpy(lambda x, y: lp.searchsorted(x, y, side), lambda x, y: np.searchsorted(x, y, side), a, v)


def test_places_are_found_by_halves() -> None:
    """Of 4096 elements: all of them compared with each of 4096 others took as long as a product of matrices."""
    x, y = (lp.placeholder((4096,), "float32", name=n) for n in "xy")
    s = lp.Schedule(lp.searchsorted(x, y))
    assert sum(s.cost.by_statement.values()) < 4096 * 100
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert "checks" not in lp.compile_source(made, "sm_90a").source  # no subscript is tested


def test_a_median_of_a_size_known_at_the_call() -> None:
    x = lp.placeholder((3, lp.symbol("n")), "float32", name="x")
    kernel = schedules.auto(lp.Schedule(lp.median(x, axis=1)), "llvm").build("llvm")
    for n in (1, 4, 7):
        a = np.random.default_rng(n).random((3, n), np.float32)
        np.testing.assert_allclose(kernel(a), np.median(a, axis=1), rtol=1e-6)


x = lp.placeholder((4, 3), "float32", name="x")
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: lp.bincount(x, 4), r"bincount of x float32\[4, 3\]; it counts integers along one dimension"),
    (lambda: lp.quantile(x, 2.0), "a share is a number from 0 to 1"),
    (lambda: lp.quantile(lp.placeholder((lp.symbol("n"),), name="y"), 0.2, 0), "lp.median takes any size"),
    (lambda: lp.searchsorted(x, x), "it is of one dimension, 'left' or 'right'"),
    (lambda: lp.convolve(x, x), "two vectors, the second of a known length"),
    (lambda: lp.linspace(0, 1, 0), "it takes one at least"),
    (lambda: lp.cholesky(x), r"cholesky of x float32\[4, 3\]; it is of a square matrix"),
    (lambda: lp.take_along_axis(x, lp.arange(3), 0), "but for axis 0, the sizes differ"),
]


@pytest.mark.parametrize(("wrong", "said"), REFUSED, ids=[said[:30] for _, said in REFUSED])
def test_what_does_not_fit_is_refused(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(lp.ExprError, match=said):
        wrong()
