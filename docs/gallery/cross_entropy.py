"""Softmax cross-entropy of rows of logits, each with its label, and its gradient."""

import numpy as np

import loopir as lp

n = lp.symbol("n")
logits = lp.placeholder((n, 1000), "float32", name="logits")
labels = lp.placeholder((n,), "int32", name="labels")
total = lp.logsumexp(logits, axis=1)
loss = total - lp.compute((n,), lambda i: logits[i, labels[i]])
program = [loss, lp.exp(logits - total[:, None]) - lp.one_hot(labels, 1000).astype("float32")]


def inputs(n, rng):
    return rng.standard_normal((n, 1000), dtype=np.float32), rng.integers(0, 1000, n).astype(np.int32)


def expected(logits, labels):
    top = logits.max(1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(1))
    gradient = np.exp(logits - total[:, None])
    rows = np.arange(len(labels))
    gradient[rows, labels] -= 1
    return total - logits[rows, labels], gradient
