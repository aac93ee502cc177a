"""LU factorization without pivoting, in place: the multipliers below the diagonal, U on and above it."""

import numpy as np

import loopir as lp


@lp.func
def program(n: "size", a: "inout float64[n, n]"):
    for k in range(n):
        for i in range(n - k - 1):
            a[k + 1 + i, k] = a[k + 1 + i, k] / a[k, k]
        for i in range(n - k - 1):
            for j in range(n - k - 1):
                a[k + 1 + i, k + 1 + j] = a[k + 1 + i, k + 1 + j] - a[k + 1 + i, k] * a[k, k + 1 + j]


def inputs(n, rng):
    return (rng.standard_normal((n, n)) + n * np.eye(n),)


def expected(a):
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a
