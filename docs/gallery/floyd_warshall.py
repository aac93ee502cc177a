"""Lengths of the shortest paths between all pairs of nodes (Floyd and Warshall), in place."""

import numpy as np

import loopir as lp


@lp.func
def program(n: "size", d: "inout float32[n, n]"):
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = minimum(d[i, j], d[i, k] + d[k, j])


def inputs(n, rng):
    return (rng.integers(1, 1000, (n, n)).astype(np.float32),)


def expected(d):
    d = d.copy()
    for k in range(len(d)):
        np.minimum(d, d[:, k : k + 1] + d[k], out=d)
    return d
