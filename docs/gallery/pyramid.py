"""A Laplacian pyramid of three levels: each level less the one below it, made large again; borders are repeated."""

import numpy as np

import loopir as lp

image = lp.placeholder((lp.symbol("h", multiple_of=8), lp.symbol("w", multiple_of=8)), "float32", name="image")


def down(x):
    h, w = x.shape
    return (x[0:h:2, 0:w:2] + x[1:h:2, 0:w:2] + x[0:h:2, 1:w:2] + x[1:h:2, 1:w:2]) * 0.25


def up(x):
    h, w = x.shape
    return lp.compute((2 * h, 2 * w), lambda i, j: x[i // 2, j // 2])


small = down(image)
smaller = down(small)
program = [image - up(small), small - up(smaller), smaller]


def inputs(n, rng):
    return (rng.random((n, n), dtype=np.float32),)


def expected(x):
    def down(x):
        return (x[0::2, 0::2] + x[1::2, 0::2] + x[0::2, 1::2] + x[1::2, 1::2]) * x.dtype.type(0.25)

    def up(x):
        return x.repeat(2, 0).repeat(2, 1)

    small = down(x)
    return x - up(small), small - up(down(small)), down(small)
