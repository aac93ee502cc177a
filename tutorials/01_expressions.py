# %% [markdown]
# # 1. From an expression to a kernel
#
# A tensor expression says what to compute. loopir turns it into a loop nest that you can read, and every later step
# is a rewrite of that nest.

# %%
import numpy as np

import loopir as lp

n = lp.symbol("n")
A = lp.placeholder((n, 8), "float32", name="A")
B = lp.placeholder((8, 6), "float32", name="B")
k = lp.reduce_axis(8, name="k")
C = lp.compute((n, 6), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
D = lp.compute((n, 6), lambda i, j: lp.maximum(C[i, j], 0.0), name="D")

s = lp.Schedule(D)
print(s)

# %% [markdown]
# What is printed is Python's own syntax, and it parses back to the same program. `n` is symbolic: one kernel serves
# every size.

# %%
assert lp.parse(lp.text(s.func)) == s.func

# %% [markdown]
# The interpreter is the meaning of a nest; a kernel is built for a target. `llvm` is the CPU; `cuda` is the GPU;
# `auto` takes the GPU if there is one.

# %%
rng = np.random.default_rng(0)
a = rng.standard_normal((5, 8), dtype=np.float32)
b = rng.standard_normal((8, 6), dtype=np.float32)
expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0.0)
for target in ("interpret", "llvm"):
    out = s.build(target)(a, b)
    # 8 products of magnitude at most |a||b|, summed in float32: error at most 9 units of 2^-24 of that sum
    assert (np.abs(out - expected) <= 9 * 2.0**-24 * (np.abs(a) @ np.abs(b))).all()

# %% [markdown]
# Whole tensors work as in NumPy, with broadcasting and its promotion rules.

# %%
x = lp.placeholder((n, 8), "float32", name="x")
softmax = lp.exp(x - lp.max(x, axis=1, keepdims=True))
softmax = softmax / softmax.sum(axis=1, keepdims=True)
rows = lp.Schedule(softmax).build("llvm")(a).sum(axis=1)
assert np.abs(rows - 1.0).max() < 8 * 2.0**-23

# %% [markdown]
# What an expression cannot say, such as an update in place, is written as a nest.


# %%
@lp.func
def sweep(n: "size", m: "size", a: "float32[n, m]"):  # noqa: F821
    for i in range(n - 1):
        for j in range(m - 1):
            a[i + 1, j] = a[i, j + 1] + 1.0


grid = np.zeros((4, 5), np.float32)
lp.Schedule(sweep).build("llvm")(grid)
print(grid)
