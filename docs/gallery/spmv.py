"""A sparse matrix in compressed rows times a vector; how long a row is comes from memory."""

import numpy as np

import loopir as lp


@lp.func
def program(
    n: "size",
    m: "size",
    nnz: "size",
    start: "int32[n + 1]",
    column: "int32[nnz]",
    value: "float32[nnz]",
    x: "float32[m]",
    y: "out float32[n]",
):
    for i in range(n):
        y[i] = 0.0
        for e in range(start[i + 1] - start[i]):
            y[i] = y[i] + value[start[i] + e] * x[column[start[i] + e]]


def inputs(n, rng):
    count = rng.integers(0, 32, n)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    value = rng.standard_normal(start[-1], dtype=np.float32)
    return start, rng.integers(0, n, start[-1]).astype(np.int32), value, rng.standard_normal(n, dtype=np.float32)


def expected(start, column, value, x):
    return np.add.reduceat(np.append(value * x[column], x.dtype.type(0)), start[:-1]) * (np.diff(start) > 0)
