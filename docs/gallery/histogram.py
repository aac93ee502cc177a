"""A histogram of bytes: each block of numbers has counts of its own, which are added up afterwards."""

import numpy as np

import loopir as lp

n = lp.symbol("n")
x = lp.placeholder((n,), "uint8", name="x")
program = lp.bincount(x, 256)


def schedule(s):
    counts = s.stages[1]  # after the zeros
    s, (block, number) = s.split(s.loops(counts)[0], 8192).with_loops
    return s.trim(number).rfactor(counts, block).parallel(block)


def inputs(n, rng):
    return (rng.integers(0, 256, n, dtype=np.uint8),)


def expected(x):
    return np.bincount(x, minlength=256)
