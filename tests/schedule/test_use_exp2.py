"""use_exp2: as exact as a subtrahend off by half a unit, for any numbers, and 1 where the two are one."""

import numpy as np
import pytest

import loopir as lp

ROWS = """
def f(X: "float32[5, 64]", M: "float32[5]", B: "out float32[5, 64]"):
    for i in range(5):
        for j in range(64):
            B[i, j] = {}
"""
SIZES = (0.0, 1e-30, 1.0, 30.0, 1e4, 1e6, 1e9, 3e9, 1e20, 1e30, 2.5e38, 3.4028234663852886e38)


def power(of: str) -> lp.Schedule:
    return lp.Schedule(lp.parse(ROWS.format(of)))


@pytest.mark.parametrize("scale", [1.0, 0.08838834764831845, 1e-9, 1.38])
def test_powers_of_differences_of_any_size(scale: float) -> None:
    by = f" * {scale}" if scale != 1.0 else ""
    s = power(f"exp_16(X[i, j]{by} - M[i]{by})").use_exp2("B")
    assert "exp2_16" in str(s)
    run = s.build("interpret")
    c = np.float64(np.float32(scale))
    for size in SIZES:
        for sign in (1, -1):
            m = np.full(5, sign * size, np.float32)
            below = np.maximum(np.float64(m[:, None]) - np.linspace(0, 60 / scale, 64), -3.4e38)
            x = np.minimum(below.astype(np.float32), m[:, None])
            x[:, 0] = m
            exact, off = (np.float64(x) - m[:, None]) * c, np.abs(np.float64(m[:, None])) * c * 2**-24
            with np.errstate(over="ignore", under="ignore"):
                got, wanted = run(x, m).astype(np.float64), np.exp(exact)
            assert np.isfinite(got).all()
            if size * scale * 1.45 < 2**31:
                assert (np.abs(np.log(np.maximum(got, 1e-37) / np.maximum(wanted, 1e-37))) <= 2**-16 + 3 * off).all()
            else:
                np.testing.assert_allclose(got, wanted, atol=1e-9)


@pytest.mark.parametrize("size", [1e9, 1e12, 1e20, 1e30, 3e38])
def test_what_is_rounded_once_keeps_a_power_of_nothing_at_one(size: float) -> None:
    """By a fused multiply-add, which leaves what the other product is rounded by."""
    run = power("exp_16(X[i, j] * 0.3 - M[i] * 0.3)").use_exp2("B").build("llvm")
    m = (np.random.default_rng(0).uniform(0.3, 1, 5) * size).astype(np.float32)
    x = np.repeat(m[:, None], 64, 1)
    x[:, 1::2] *= np.float32(0.5)
    got = run(x, m)
    assert (got[:, 1::2] == 0).all()
    assert ((got[:, ::2] == 1) | (m[:, None] * 0.43 < 2**31)).all()
    assert np.isfinite(got).all()


@pytest.mark.parametrize("m", [np.inf, -np.inf, np.nan])
def test_what_is_no_number(m: float) -> None:
    s = power("exp_16(X[i, j] - M[i])")
    x = np.tile(np.array([0.0, 1.0, -np.inf, np.inf], np.float32), (5, 16))
    some = np.full(5, m, np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(*(t.build("interpret")(x, some) for t in (s, s.use_exp2("B"))))


@pytest.mark.parametrize(
    "of",
    [
        "exp_16(X[i, j] * 0.5 - M[i] * 0.25)",
        "exp_16(X[i, j] * 2.0 - M[i] * 2.0)",
        "exp_16(X[i, j] * -0.5 - M[i] * -0.5)",
        "exp_16(X[i, j])",
        "exp(X[i, j] - M[i])",
    ],
)
def test_other_exponentials_stay(of: str) -> None:
    with pytest.raises(lp.ScheduleError, match="no exp_16 of a difference"):
        power(of).use_exp2("B")


def test_a_fold_of_powers() -> None:
    text = """
def f(X: "float32[5, 64]", M: "float32[5]", S: "out float32[5]"):
    for i in range(5):
        for j in range(64):
            S[i] = sum(exp_16(X[i, j] - M[i]), over=j, init=0.0)
"""
    s = lp.Schedule(lp.parse(text))
    x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    one, other = (t.build("interpret")(x, x.max(1)) for t in (s, s.use_exp2("S")))
    np.testing.assert_allclose(other, one, rtol=2**-16)
