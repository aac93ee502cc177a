"""Equations are solved, and matrices are multiplied, as NumPy does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir import schedules


def drawn(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float64)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 99), st.integers(1, 4), st.integers(1, 3), st.sampled_from([(), (2,), (2, 1)]))
def test_equations(seed: int, n: int, m: int, stack: tuple[int, ...]) -> None:
    a, b = drawn(seed, *stack, n, n), drawn(seed + 1, *stack, n, m)
    a += 1e-3 * np.eye(n)  # a pivot of 0 is exchanged, a matrix without an inverse is none
    A, B = (lp.placeholder(v.shape, "float64", name=x) for v, x in ((a, "A"), (b, "B")))
    sign, size = lp.slogdet(A)
    made = [lp.solve(A, B), lp.inv(A), lp.det(A), sign, size]
    got = lp.interpret(lp.to_func([x.named(f"r{k}") for k, x in enumerate(made)]), {"A": a, "B": b})
    want = [np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a)]
    for k, w in enumerate(want):
        scale = np.abs(want[1]).max() * 100
        np.testing.assert_allclose(got[f"r{k}"], w, rtol=1e-9 * scale, atol=1e-9 * scale)


@pytest.mark.parametrize("a", [np.zeros((2, 2)), np.ones((3, 3)), np.diag([1.0, 0, 2]), np.triu(np.ones((3, 3)), 1)])
def test_the_determinant_of_a_matrix_without_an_inverse_is_zero(a: Any) -> None:
    A = lp.placeholder(a.shape, "float64", name="A")
    sign, size = lp.slogdet(A)
    got = lp.interpret(lp.to_func([lp.det(A).named("d"), sign.named("s"), size.named("l")]), {"A": a})
    assert [got[x].item() for x in "dsl"] == [0.0, 0.0, -np.inf]


def test_scheduled_for_the_cpu() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 33, 33))
    n = lp.symbol("n")
    A, B = lp.placeholder((n, n), "float64", name="A"), lp.placeholder((n, 33), "float64", name="B")
    kernel = schedules.auto(lp.Schedule([lp.solve(A, B), lp.det(A), lp.solve(A, B[:, 0])]), "llvm").build("llvm")
    x, d, y = kernel(a, b)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8)
    np.testing.assert_allclose(d, np.linalg.det(a))
    np.testing.assert_allclose(y, x[:, 0], rtol=1e-8)


PRODUCTS: dict[str, tuple[Any, Any]] = {
    "dot": (lp.dot, np.dot), "inner": (lp.inner, np.inner),
    "tensordot": (
        lambda a, b: lp.tensordot(a, b, ((0, -1), (1, 2))), lambda a, b: np.tensordot(a, b, ((0, -1), (1, 2)))),
    "tensordot, one axis": (lambda a, b: lp.tensordot(a, b[0].T, 1), lambda a, b: np.tensordot(a, b[0].T, 1)),
    "outer": (lambda a, b: lp.tensordot(a[0], b[0], 0), lambda a, b: np.tensordot(a[0], b[0], 0)),
    "vdot": (lp.vdot, np.vdot), "dot with a number": (lambda a, _: lp.dot(a, 2.0), lambda a, _: np.dot(a, 2.0)),
    "cross": (lp.cross, np.cross), "cross along columns": (
        lambda a, b: lp.cross(a[0], b[0], axis=0), lambda a, b: np.cross(a[0], b[0], axis=0)),
    "cov": (lambda a, _: lp.cov(a[0]), lambda a, _: np.cov(a[0])),
    "cov of columns": (lambda a, _: lp.cov(a[0], rowvar=False, ddof=0), lambda a, _: np.cov(a[0].T, ddof=0)),
    "variance": (lambda a, _: lp.cov(a[0, 0]), lambda a, _: np.cov(a[0, 0])),
    "corrcoef": (lambda a, _: lp.corrcoef(a[0]), lambda a, _: np.corrcoef(a[0])),
}  # fmt: skip


def test_products() -> None:
    a, b = drawn(3, 3, 3, 3), drawn(4, 3, 3, 3)
    A, B = (lp.placeholder((3, 3, 3), "float64", name=x) for x in "AB")
    got = lp.interpret(
        lp.to_func([ours(A, B).named(f"r{n}") for n, (ours, _) in enumerate(PRODUCTS.values())]), {"A": a, "B": b}
    )
    for n, (name, (_, theirs)) in enumerate(PRODUCTS.items()):
        np.testing.assert_allclose(got[f"r{n}"], theirs(a, b), err_msg=name)


def test_what_is_no_matrix_is_refused() -> None:
    x = lp.placeholder((3, 4), "float64", name="x")
    for wrong, what in (
        (lambda: lp.inv(x), "inv of x .*; it is of square matrices"),
        (lambda: lp.solve(x[:, :3], x[:2]), "the rows and stacks are alike"),
        (lambda: lp.cross(x, x), "vectors have three elements"),
        (lambda: lp.cov(x[None]), "the rows of a matrix"),
    ):
        with pytest.raises(lp.ExprError, match=what):
            wrong()
