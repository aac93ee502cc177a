"""The median of every 3 x 3 neighbourhood of an image of bytes, by 19 exchanges of minima and maxima (Paeth, 1990)."""

import numpy as np

import loopir as lp

EXCHANGES = "12 45 78 01 34 67 12 45 78 03 58 47 36 14 25 47 42 64 42"


def median(at, least, most):
    for a, b in (map(int, pair) for pair in EXCHANGES.split()):
        at[a], at[b] = least(at[a], at[b]), most(at[a], at[b])
    return at[4]


h, w = lp.symbol("h", min=3), lp.symbol("w", min=3)
x = lp.placeholder((h, w), "uint8", name="x")
program = median([x[i : h - 2 + i, j : w - 2 + j] for i in range(3) for j in range(3)], lp.minimum, lp.maximum)


def inputs(n, rng):
    return (rng.integers(0, 256, (n, n), dtype=np.uint8),)


def expected(x):
    h, w = x.shape
    return median([x[i : h - 2 + i, j : w - 2 + j] for i in range(3) for j in range(3)], np.minimum, np.maximum)
