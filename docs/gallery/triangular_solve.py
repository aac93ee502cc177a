"""Forward substitution for many right-hand sides: L @ X = B, by blocks of 32 rows, X in the place of B."""

import numpy as np

import loopir as lp

B = 32


@lp.func
def program(n: "size", m: "size", L: "float64[n, n]", X: "inout float64[n, m]"):
    assume(n % B == 0)
    for b in range(n // B):
        for i in range(b * B, b * B + B):  # the rows above, by a product
            for j in range(m):
                for k in range(b * B):
                    X[i, j] += -L[i, k] * X[k, j]
        for i in range(b * B, b * B + B):
            for k in range(b * B, i):
                for j in range(m):
                    X[i, j] += -L[i, k] * X[k, j]
            for j in range(m):
                X[i, j] = X[i, j] / L[i, i]


def inputs(n, rng):
    return np.tril(rng.standard_normal((n, n))) + n * np.eye(n), rng.standard_normal((n, n))


def expected(lower, b):
    return np.linalg.solve(lower, b)
