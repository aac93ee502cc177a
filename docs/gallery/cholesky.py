"""Cholesky factorization of a symmetric positive definite matrix, row by row; L is written, A is kept."""

import numpy as np

import loopir as lp


@lp.func
def program(n: "size", A: "float64[n, n]", L: "inout float64[n, n]"):
    for j in range(n):
        for i in range(n - j):
            L[j + i, j] = A[j + i, j]
            for k in range(j):
                L[j + i, j] = L[j + i, j] - L[j + i, k] * L[j, k]
        L[j, j] = sqrt(L[j, j])
        for i in range(n - j - 1):
            L[j + 1 + i, j] = L[j + 1 + i, j] / L[j, j]


def inputs(n, rng):
    b = rng.standard_normal((n, n))
    return b @ b.T + n * np.eye(n), np.zeros((n, n))


def expected(a, _):
    return np.linalg.cholesky(a)
