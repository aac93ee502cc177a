"""LU factorization without pivoting, in place, by blocks of 32 columns: L below the diagonal, U on and above it."""

import numpy as np

import loopir as lp

B = 32


@lp.func
def program(n: "size", a: "inout float64[n, n]"):
    assume(n % B == 0)
    for b in range(n // B):
        for k in range(b * B, b * B + B):  # the columns of the block
            for i in range(k + 1, n):
                a[i, k] = a[i, k] / a[k, k]
            for i in range(k + 1, n):
                for j in range(k + 1, b * B + B):
                    a[i, j] += -a[i, k] * a[k, j]
        for k in range(b * B, b * B + B):  # its rows
            for i in range(k + 1, b * B + B):
                for j in range(b * B + B, n):
                    a[i, j] += -a[i, k] * a[k, j]
        for i in range(b * B + B, n):  # the rest, by a product
            for j in range(b * B + B, n):
                for k in range(b * B, b * B + B):
                    a[i, j] += -a[i, k] * a[k, j]


def inputs(n, rng):
    return (rng.standard_normal((n, n)) + n * np.eye(n),)


def expected(a):
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a
