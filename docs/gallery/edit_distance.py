"""Edit distances of all prefixes of two strings (Levenshtein): anti-diagonals run at once, by a wavefront."""

import numpy as np

import loopir as lp


@lp.func
def program(n: "size", m: "size", a: "int32[n]", b: "int32[m]", d: "inout int32[n + 1, m + 1]"):
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = minimum(
                minimum(d[i, j + 1] + 1, d[i + 1, j] + 1),
                d[i, j] + select(a[i] == b[j], 0, 1),
            )


def inputs(n, rng):
    d = np.zeros((n + 1, n + 1), np.int32)
    d[0], d[:, 0] = np.arange(n + 1), np.arange(n + 1)
    return *rng.integers(0, 4, (2, n)).astype(np.int32), d


def expected(a, b, d):
    d = d.copy()
    for i in range(len(a)):
        row = np.minimum(d[i, 1:] + 1, d[i, :-1] + (a[i] != b))
        first = np.concatenate([[i + 1], row]) - np.arange(len(b) + 1)
        d[i + 1] = np.minimum.accumulate(first) + np.arange(len(b) + 1)
    return d
