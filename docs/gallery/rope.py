"""Rotary position embedding: each pair of a head's features is turned by an angle that grows with the position."""

import numpy as np

import loopir as lp

n = lp.symbol("n")
x = lp.placeholder((n, 8, 64), "float32", name="x")
angle = lp.placeholder((n, 32), "float32", name="angle")


def turned(x, c, s, join):
    a, b = x[:, :, :32], x[:, :, 32:]
    return join((a * c - b * s, a * s + b * c), axis=2)


program = turned(x, lp.cos(angle)[:, None, :], lp.sin(angle)[:, None, :], lp.concatenate)


def inputs(n, rng):
    angle = np.outer(np.arange(n), 10000.0 ** (-np.arange(32) / 32))
    return rng.standard_normal((n, 8, 64), dtype=np.float32), angle.astype(np.float32)


def expected(x, angle):
    return turned(x, np.cos(angle)[:, None], np.sin(angle)[:, None], np.concatenate)
