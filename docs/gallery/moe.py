"""A mixture of experts: each token goes through the expert that its router scores highest, weighted by the score."""

import numpy as np

import loopir as lp

n, D, F, E = lp.symbol("n"), 64, 128, 4
x = lp.placeholder((n, D), "float32", name="x")
router = lp.placeholder((D, E), "float32", name="router")
w1, w2 = lp.placeholder((E, D, F), "float32", name="w1"), lp.placeholder((E, F, D), "float32", name="w2")
score = lp.softmax(x @ router)
best = lp.argmax(score, axis=1)
d, f = lp.reduce_axis(D, name="d"), lp.reduce_axis(F, name="f")
h = lp.compute((n, F), lambda i, j: lp.relu(lp.sum(x[i, d] * w1[best[i], d, j], axis=d)))
out = lp.compute((n, D), lambda i, j: lp.sum(h[i, f] * w2[best[i], f, j], axis=f))
program = out * lp.max(score, axis=1, keepdims=True)


def inputs(n, rng):
    def given(*shape):
        return rng.standard_normal(shape, dtype=np.float32) * shape[-2] ** -0.5

    return rng.standard_normal((n, D), dtype=np.float32), given(D, E), given(E, D, F), given(E, F, D)


def expected(x, router, w1, w2):
    s = np.exp(x @ router)
    s /= s.sum(1, keepdims=True)
    best = s.argmax(1)
    out = np.empty_like(x)
    for e in range(E):
        mine = best == e
        out[mine] = np.maximum(x[mine] @ w1[e], 0) @ w2[e]
    return out * s.max(1, keepdims=True)
