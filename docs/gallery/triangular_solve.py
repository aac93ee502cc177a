"""Forward substitution for many right-hand sides: L @ X = B, L lower triangular, X in the place of B."""

import numpy as np

import loopir as lp


@lp.func
def program(n: "size", m: "size", L: "float64[n, n]", X: "inout float64[n, m]"):
    for i in range(n):
        for k in range(i):
            for j in range(m):
                X[i, j] = X[i, j] - L[i, k] * X[k, j]
        for j in range(m):
            X[i, j] = X[i, j] / L[i, i]


def inputs(n, rng):
    return np.tril(rng.standard_normal((n, n))) + n * np.eye(n), rng.standard_normal((n, n))


def expected(lower, b):
    return np.linalg.solve(lower, b)
