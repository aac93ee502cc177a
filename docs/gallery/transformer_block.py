"""A transformer block: rmsnorm, attention of 4 heads with a residual, rmsnorm, a gated MLP with a residual."""

import numpy as np

import loopir as lp

T, D, H, F = 128, 256, 4, 512
SHAPES = {"x": (T, D), "q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D), "gate": (D, F), "up": (D, F), "down": (F, D)}


def block(x, q, k, v, o, gate, up, down, m):
    def norm(x):
        return x / m.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)

    def heads(x):
        return m.transpose(m.reshape(x, (T, H, D // H)), (1, 0, 2))

    h = norm(x)
    scores = heads(h @ q) @ m.transpose(heads(h @ k), (0, 2, 1)) * (D // H) ** -0.5
    weight = m.exp(scores - scores.max(axis=2, keepdims=True))
    mixed = weight / weight.sum(axis=2, keepdims=True) @ heads(h @ v)
    x = x + m.reshape(m.transpose(mixed, (1, 0, 2)), (T, D)) @ o
    h = norm(x)
    g = h @ gate
    return x + (g / (1 + m.exp(-g)) * (h @ up)) @ down


program = block(*(lp.placeholder(shape, "float32", name=name) for name, shape in SHAPES.items()), lp)


def inputs(_, rng):
    return tuple(
        rng.standard_normal(s, dtype=np.float32) * (1 if n == "x" else s[0] ** -0.5) for n, s in SHAPES.items()
    )


def expected(*arrays):
    return block(*arrays, np)
