# %% [markdown]
# # 4. Fusion
#
# A program of several stages writes each to memory and reads it back. Fusion computes a stage where it is used, so that
# what one iteration needs stays near. There are four ways, from the simplest on.

# %%
import numpy as np

import loopir as lp

n = lp.symbol("n", min=8)
x = lp.placeholder((n, n), "float32", name="x")
rows = lp.compute((n, n - 2), lambda r, c: x[r, c] + x[r, c + 1] + x[r, c + 2], name="rows")
blur = lp.compute((n - 2, n - 2), lambda i, j: rows[i, j] + rows[i + 1, j] + rows[i + 2, j], name="blur")
s = lp.Schedule(blur)
print(s)
image = np.random.default_rng(0).integers(0, 256, (50, 50)).astype(np.float32)
expected = s.build("interpret")(image)

# %% [markdown]
# ## Inline: no memory, and work done again
#
# `compute_inline` puts the expression where it is read. Each row sum is now computed three times.

# %%
inlined = s.compute_inline("rows")
print(inlined)
assert (inlined.build("llvm")(image) == expected).all()

# %% [markdown]
# ## Compute at a loop: a little memory, a little work done again
#
# `compute_at` computes what one iteration of a loop of the reader needs, no more: three rows for a row of the result.
# The region is inferred exactly. On strips of rows, it is two rows more than the strip has.

# %%
strips = s.split("i", 8).compute_at("rows", "i_o")
print(strips)
assert (strips.build("llvm")(image) == expected).all()

# %% [markdown]
# ## A sliding window: a little memory, and no work done twice
#
# With `store=` the memory lives longer than an iteration, so that one finds what earlier ones have computed: each
# iteration adds the one row that is new. `fold_storage` then keeps four rows, as a ring; three would do.

# %%
window = s.split("i", 8).compute_at("rows", "i_i", store="i_o").fold_storage("rows", 0, 4)
print(window)
assert (window.build("llvm")(image) == expected).all()

# %% [markdown]
# Too small a ring is refused, with the value that would be lost and who was still to read it.

# %%
print(s.split("i", 8).compute_at("rows", "i_i", store="i_o").why("fold_storage", "rows", 0, 2))

# %% [markdown]
# ## Fuse loops: two nests become one
#
# `fuse_loops` runs an iteration of each in turn. A stage that reads ahead has to lag behind; the least shift that keeps
# every dependence is found and offered.

# %%
print(s.why("fuse_loops", "r", "i", tail="guard"))
fused = s.fuse_loops("r", "i", shift=2, tail="guard")
print(fused)
assert (fused.build("llvm")(image) == expected).all()

# %% [markdown]
# ## The other direction: epilogues
#
# `reverse_compute_at` moves a consumer into the loop that computes what it reads, as soon as an iteration has finished
# that. It is how a bias and an activation join a product, tile by tile.

# %%
A = lp.placeholder((32, 24), "float32", name="A")
B = lp.placeholder((24, 16), "float32", name="B")
k = lp.reduce_axis(24, name="k")
C = lp.compute((32, 16), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
D = lp.compute((32, 16), lambda i, j: lp.maximum(C[i, j], 0.0), name="D")
layer = lp.Schedule(D).tile("C.i", "C.j", 8, 8)
outer = layer.loops("C")[1]
layer = layer.reverse_compute_at("D", outer)
print(layer)
a, b = (np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32) for shape in ((32, 24), (24, 16)))
assert (layer.build("llvm")(a, b) == np.maximum(a @ b, 0)).all()
