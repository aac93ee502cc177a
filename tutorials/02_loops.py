# %% [markdown]
# # 2. Changing the nest
#
# A `Schedule` is a nest and the steps that led to it. Every primitive gives a new one; the old one stays valid.

# %%
import numpy as np

import loopir as lp

A = lp.placeholder((30, 40), "float32", name="A")
B = lp.placeholder((40, 50), "float32", name="B")
k = lp.reduce_axis(40, name="k")
C = lp.compute((30, 50), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")

s0 = lp.Schedule(C)
s = s0.tile("i", "j", 8, 16).reorder("i_o", "j_o", "k", "i_i", "j_i")
print(s)

# %% [markdown]
# 8 does not divide 30, nor 16 divide 50, so the tails are guarded. That is the default; `tail=` asks for `exact`,
# `shift_inwards`, `round_up` or `peel`.

# %%
print(s0.split("i", 8, tail="peel"))

# %% [markdown]
# The trace is data: it can be undone, compared, and written out as Python.

# %%
print(s.diff())
print(s.script())
assert s.undo().undo().func == s0.func

# %% [markdown]
# The steps cannot change the meaning: here the two nests run over integers, where every order of a sum is exact.

# %%
rng = np.random.default_rng(0)
a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((30, 40), (40, 50)))
fast = s.vectorize("j_i").parallel("i_o").build("llvm")
assert (fast(a, b) == a @ b).all()
assert (fast(a, b) == s0.build("interpret")(a, b)).all()

# %% [markdown]
# For a GPU, loops are bound to the axes of the grid and the block. The kernel compiles with no GPU in the machine.

# %%
gpu = s0.tile("i", "j", 8, 16).bind("i_o", "blockIdx.y").bind("j_o", "blockIdx.x")
gpu = gpu.bind("i_i", "threadIdx.y").bind("j_i", "threadIdx.x")
compiled = lp.compile_source(gpu, arch="sm_90a")
print(compiled.source)
print(compiled.resources)
