"""Means, variances and exponential sums against NumPy in float64: large means, masked elements, any order of folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from running import assert_as_numpy, inputs, sample

import loopir as lp
from loopir.lower.pipeline import lower

RNG = np.random.default_rng(0)


def run(t: Any, *arrays: Any) -> Any:
    return lp.Schedule(t).build("interpret")(*arrays)


def close(got: Any, want: Any, rel: float) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=rel, atol=1e-30)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, (0, 1), None])
def test_a_variance_at_a_large_mean_keeps_its_digits(passes: int, axis: Any) -> None:
    a = (RNG.standard_normal((40, 30)) + 1e4).astype(np.float32)
    x = lp.placeholder((lp.symbol("n"), 30), "float32", name="x")
    want = a.astype(np.float64).var(axis=axis)
    close(run(lp.var(x, axis, passes=passes), a), want, 5e-3)
    close(run(lp.std(x, axis, passes=passes, correction=1), a), a.astype(np.float64).std(axis=axis, ddof=1), 5e-3)
    polynomial = (a * a).mean(axis=axis, dtype=np.float32) - a.mean(axis=axis, dtype=np.float32) ** 2
    assert not np.allclose(polynomial, want, rtol=0.1)  # what the text books warn of


def test_float64_and_16_bit_floats_and_integers() -> None:
    a = RNG.standard_normal((7, 9))
    for passes in (1, 2):
        close(run(lp.var(lp.placeholder((7, 9), "float64", name="x"), 1, passes=passes), a), a.var(axis=1), 1e-12)
        half = a.astype(np.float16)
        out = lp.var(lp.placeholder((7, 9), "float16", name="x"), 1, keepdims=True, passes=passes)
        assert (out.shape, str(out.dtype)) == ((7, 1), "float16")
        close(run(out, half), half.astype(np.float64).var(axis=1, keepdims=True), 1e-3)
        whole = RNG.integers(-9, 9, (7, 9)).astype(np.int32)
        close(run(lp.var(lp.placeholder((7, 9), "int32", name="x"), 1, passes=passes), whole), whole.var(axis=1), 1e-12)


def test_welford_in_a_nest_of_ones_own() -> None:
    x, k = lp.placeholder((5, 8), "float32", name="x"), lp.reduce_axis(8, name="k")
    count, mean, squares = lp.compute((5,), lambda i: lp.welford(x[i, k], axis=k), name="w")
    a = RNG.standard_normal((5, 8)).astype(np.float32)
    got = lp.Schedule([count, mean, squares]).build("interpret")(a)
    assert (got[0] == 8).all()
    close(got[1], a.mean(axis=1, dtype=np.float64), 1e-5)
    close(got[2], a.astype(np.float64).var(axis=1) * 8, 1e-5)


def test_wrong_passes_are_refused() -> None:
    with pytest.raises(lp.ExprError, match="var takes one pass or two, not 3"):
        lp.var(lp.placeholder((5, 8), "float32", name="x"), passes=3)


def softmax(a: Any) -> Any:
    e = np.exp(a.astype(np.float64) - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("online", [False, True])
def test_softmax(online: bool) -> None:
    a = (RNG.standard_normal((6, 20)) * 30).astype(np.float32)
    a[1, :9] = -np.inf  # a first part with nothing in it
    a[2, 5:] = -np.inf
    a[3] = 1e4
    x = lp.placeholder((lp.symbol("n"), 20), "float32", name="x")
    got = run(lp.softmax(x, online=online), a)
    np.testing.assert_allclose(got, softmax(a), rtol=1e-5, atol=1e-7)
    got = run(lp.softmax(x, axis=0, online=online), np.ascontiguousarray(a[[0, 3]]))
    np.testing.assert_allclose(got, softmax(a[[0, 3]].T).T, rtol=1e-5, atol=1e-7)


def test_logsumexp_does_not_overflow_and_knows_nothing_from_little() -> None:
    a = np.array([[1e3, 1e3, -np.inf], [-np.inf] * 3, [-1e3, -1e3, -1e3], [0, np.nan, 1]], np.float32)
    x = lp.placeholder((4, 3), "float32", name="x")
    got = run(lp.logsumexp(x, 1), a)
    np.testing.assert_allclose(got[[0, 2]], [1e3 + np.log(2), -1e3 + np.log(3)], rtol=1e-6)
    assert got[1] == -np.inf
    assert np.isnan(got[3])


@pytest.mark.parametrize("threads", [4, 32, 64, 96])
def test_one_pass_statistics_are_folded_by_threads(threads: int) -> None:
    a = (RNG.standard_normal((3, 150)) * 5 + 1e3).astype(np.float32)
    a[1, :threads] = -np.inf
    x = lp.placeholder((3, 150), "float32", name="x")
    exact = np.log(np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True)).sum(axis=1)) + a.max(axis=1)
    for out, want, tolerance in (
        (lp.logsumexp(x, 1), exact, 1e-6),
        (lp.var(x[0::2], 1, passes=1), a[0::2].astype(np.float64).var(axis=1), 1e-4),
    ):
        s = lp.Schedule(out)
        (stage,) = {p for p in s.stages if p.startswith(("welford", "expsum"))}
        s = s.split(s.loops(stage)[1], threads)
        inner = s.loops(stage)[-1]
        s = s.bind(s.loops(stage)[0], "blockIdx.x").bind(inner, "threadIdx.x")
        for seed in range(2):
            (got,) = lp.interpret(lower(s.func, "cuda"), [a], seed=seed).values()
            close(got, want, tolerance)


def test_one_pass_statistics_are_factored() -> None:
    a = (RNG.standard_normal((3, 50)) + 1e4).astype(np.float32)
    x = lp.placeholder((3, 50), "float32", name="x")
    s = lp.Schedule(lp.var(x, 1, passes=1))
    s = s.split("j", 8).reorder("i", "j_i", "j_o").rfactor("welford_0", "j_i").parallel("j_i")
    close(s.build("llvm")(a), a.astype(np.float64).var(axis=1), 1e-3)


def test_statistics_are_methods_as_in_numpy() -> None:
    a = sample("float32", (3, 8))
    assert_as_numpy(lambda t: t.var(axis=1), lambda x: x.var(axis=1), a, ulps=4)
    assert_as_numpy(lambda t: t.std(axis=0, keepdims=True), lambda x: x.std(axis=0, keepdims=True), a, ulps=4)
    assert_as_numpy(lambda t: t.clip(-0.5, 1.0), lambda x: x.clip(-0.5, 1.0), a)
    assert_as_numpy(lambda t: t.cumsum(1), lambda x: x.cumsum(1), a)


def test_log_softmax_does_not_overflow() -> None:
    a = sample("float32", (3, 8)) * np.float32(100)

    e = a.astype(np.float64) - a.max(axis=1, keepdims=True)
    expected = e - np.log(np.exp(e).sum(axis=1, keepdims=True))
    found = run(lp.log_softmax(*inputs(a), axis=1), a)
    assert found.dtype == a.dtype
    assert (np.abs(found - expected) <= 2e-7 * (1 + np.abs(expected))).all()
