"""Cholesky factorization of a symmetric positive definite matrix, by blocks of 32 columns; L is written."""

import numpy as np

import loopir as lp

B = 32


@lp.func
def program(n: "size", A: "float64[n, n]", L: "inout float64[n, n]"):
    assume(n % B == 0)
    for b in range(n // B):
        for i in range(b * B, n):
            for j in range(b * B, b * B + B):
                L[i, j] = A[i, j]
        for i in range(b * B, n):  # the columns before, by a product
            for j in range(b * B, b * B + B):
                for k in range(b * B):
                    L[i, j] += -L[i, k] * L[j, k]
        for k in range(b * B, b * B + B):  # the columns of the block
            L[k, k] = sqrt(L[k, k])
            for i in range(k + 1, n):
                L[i, k] = L[i, k] / L[k, k]
            for i in range(k + 1, n):
                for j in range(k + 1, b * B + B):
                    L[i, j] += -L[i, k] * L[j, k]
            for j in range(k + 1, b * B + B):
                L[k, j] = 0.0


def inputs(n, rng):
    b = rng.standard_normal((n, n))
    return b @ b.T + n * np.eye(n), np.zeros((n, n))


def expected(a, _):
    return np.linalg.cholesky(a)
