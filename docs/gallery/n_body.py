"""Accelerations of n bodies that attract one another: every pair, softened where two are close."""

import numpy as np

import loopir as lp

n = lp.symbol("n")
at, mass = lp.placeholder((n, 3), "float32", name="at"), lp.placeholder((n,), "float32", name="mass")
d = at[None, :, :] - at[:, None, :]
near = lp.rsqrt(lp.sum(d * d, axis=2) + 1e-3)
program = lp.sum(d * (mass * near * near * near)[:, :, None], axis=1)


def inputs(n, rng):
    return rng.standard_normal((n, 3), dtype=np.float32), rng.random(n, dtype=np.float32)


def expected(at, mass):
    d = at[None] - at[:, None]
    near = 1 / np.sqrt((d * d).sum(2) + at.dtype.type(1e-3))
    return (d * (mass * near**3)[:, :, None]).sum(1)
