"""A residual block of an image network: two 3 x 3 convolutions with folded norms, and what came in added."""

import numpy as np

import loopir as lp

N, C, S = 2, 32, 28
x = lp.placeholder((N, C, S, S), "float32", name="x")
w1, w2 = (lp.placeholder((C, C, 3, 3), "float32", name=f"w{k}") for k in (1, 2))
b1, b2 = (lp.placeholder((C, 1, 1), "float32", name=f"b{k}") for k in (1, 2))
program = lp.relu(lp.conv2d(lp.relu(lp.conv2d(x, w1, padding=1) + b1), w2, padding=1) + b2 + x)


def inputs(_, rng):
    weights = rng.standard_normal((2, C, C, 3, 3), dtype=np.float32) * 0.05
    bias = rng.standard_normal((2, C, 1, 1), dtype=np.float32)
    return rng.standard_normal((N, C, S, S), dtype=np.float32), *weights, *bias


def conv(x, w):
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3))
    return np.tensordot(patches, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)


def expected(x, w1, w2, b1, b2):
    return np.maximum(conv(np.maximum(conv(x, w1) + b1, 0), w2) + b2 + x, 0)
