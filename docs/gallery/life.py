"""One step of Conway's game of life on a torus: the neighbours of a border are those of the other side."""

import numpy as np

import loopir as lp

n = lp.symbol("n")
x = lp.placeholder((n, n), "uint8", name="x")
SIDES = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]


def cell(i, j):
    around = sum(x[(i + a) % n, (j + b) % n] for a, b in SIDES)
    return lp.where((around == 3) | ((around == 2) & (x[i, j] == 1)), 1, 0).astype("uint8")


program = lp.compute((n, n), cell, name="after")


def inputs(n, rng):
    return (rng.integers(0, 2, (n, n), dtype=np.uint8),)


def expected(x):
    around = sum(np.roll(x, side, (0, 1)) for side in SIDES)
    return ((around == 3) | ((around == 2) & (x == 1))).astype(np.uint8)
