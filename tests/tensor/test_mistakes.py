"""What people write wrong first, and what they are told."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

n = lp.symbol("n")
A = lp.placeholder((n, 64), "float32", name="A")
k = lp.reduce_axis(64, name="k")
NO_LOOP = "nothing here runs over {}; an index belongs to the function of its compute, a reduce_axis to a reduction"

MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lp.compute((n,), lambda i: A[i, k]), lp.ExprError, NO_LOOP.format("k")),
    (lambda: lp.compute((n,), lambda i: A[i, k], name="B"), lp.ExprError, NO_LOOP.format("k")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, k])), lp.ExprError, NO_LOOP.format("i and k")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, :])), lp.ExprError, NO_LOOP.format("i")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, 0], axis=i)), lp.ExprError, "sum over axis i of .* a reduce_axis"),
    (lambda: lp.sum(A, axis="k"), lp.ExprError, "an axis is a reduce_axis, or a dimension from -2 to 1"),
    (lambda: lp.compute((n, 64), lambda i: A[i, 0]), lp.ExprError, "compute: the shape has 2 dimensions, .* takes 1"),
    (lambda: lp.compute((n,), lambda i: A), lp.ExprError, "compute: the function gives A"),
    (lambda: list(A), TypeError, "no elements to go through"),
    (lambda: sum(A), TypeError, r"lp\.sum"),
    (lambda: lp.symbol(3), TypeError, "a size is named by a string"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.Schedule(np.ones((100, 100))), TypeError, "not of ndarray$"),  # pyright: ignore[reportArgumentType]
    (lambda: schedules.auto(A + 1.0, "llvm"), TypeError, r"takes a Schedule"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.func(lambda n: n), lp.ParseError, "a nest is a function written with def"),
    (lambda: lp.Schedule(A @ A.T).build("llvm")(), TypeError, "A is missing"),
    (lambda: lp.Schedule(A + lp.placeholder((64,), name="b")).build("llvm")(), TypeError, "A and b are missing"),
]


@pytest.mark.parametrize(("wrong", "error", "told"), MISTAKES, ids=[told[:40] for *_, told in MISTAKES])
def test_a_mistake_is_told(wrong: Callable[[], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        wrong()
