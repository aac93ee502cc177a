# %% [markdown]
# # 6. Memory
#
# Which loop runs when is half of a schedule. The other half is where values lie meanwhile: copies of what a tile reads,
# accumulators that stay in registers, panels that an inner loop runs along.

# %%
import numpy as np

import loopir as lp

A = lp.placeholder((50, 40), "float32", name="A")
B = lp.placeholder((40, 70), "float32", name="B")
k = lp.reduce_axis(40, name="k")
C = lp.compute((50, 70), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
rng = np.random.default_rng(0)
a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((50, 40), (40, 70)))

# %% [markdown]
# ## On a CPU
#
# Tiles of 6 x 16 sums. 6 does not divide 50, nor 16 divide 70, so there are guards.

# %%
s = lp.Schedule(C).split("i", 6).split("j", 16).reorder("i_o", "j_o", "k", "i_i", "j_i")

# %% [markdown]
# `cache_write` keeps a tile's sums in memory of their own: 96 elements, that is registers. Each is stored once.

# %%
s = s.cache_write("C", "local", at="j_o")
print(s)

# %% [markdown]
# `cache_read` copies what one iteration reads, no more; at no loop, all of it, before the nest. `set_layout` says where
# the elements of a copy lie: here the inner loops run along both, wherever the tile is.

# %%
s = s.cache_read("C_local", "B", "global").set_layout("B_global", "lambda k, j: (j // 16, k, j % 16)")
s = s.cache_read("C_local", "A", "global", at="i_o").set_layout("A_global", "lambda i, k: (k, i)")
print(s)

# %% [markdown]
# The guards that are left in the tile are there for its last rows and columns. `pad` fills the copies with zeros
# instead, and computes whole tiles; what is too much stays in `C_local`. It knows when that is wrong: 1 is no zero of
# a sum, and what the caller sees is never written.

# %%
print(s.why("pad", "C", "i_i_out"))
s = s.pad("C_local", "i_i").pad("C_local", "j_i")
s = s.vectorize("j_i").unroll("i_i").parallel("i_o")
print(s)
assert np.array_equal(s.build("llvm")(a, b), a @ b)

# %% [markdown]
# ## On a GPU
#
# Shared memory is a block's, local memory a thread's. Both tiles are copied by all threads together, `C_local` is
# allocated around the loops of threads, and each thread keeps the part that it alone touches. Nobody places a barrier:
# lowering does, where threads need what others did.

# %%
g = lp.Schedule(C)
for loop, tile, part in (("i", 16, 4), ("j", 16, 4)):
    g = g.split(loop, tile).split(f"{loop}_i", part)
g = g.split("k", 8).reorder("i_o", "j_o", "k_o", "i_i_o", "j_i_o", "k_i", "i_i_i", "j_i_i")
g = g.bind("i_o", "blockIdx.y").bind("j_o", "blockIdx.x").bind("i_i_o", "threadIdx.y").bind("j_i_o", "threadIdx.x")
g = g.cache_write("C", "local", at="j_o")
for buffer in "AB":
    g = g.cache_read("C_local", buffer, "shared", at="k_o")
g = g.pad("C_local", "i_i_i").pad("C_local", "j_i_i")
for copy in ("A_shared", "B_shared"):
    rows, columns = g.loops(copy)[-2:]
    g = g.split(rows, 4).split(columns, 4)
    outer, y, row, x = g.loops(copy)[-4:]
    g = g.reorder(outer, row, y, x).bind(y, "threadIdx.y").bind(x, "threadIdx.x")
print(g)
(kernel,) = lp.lower(g, "cuda")
print(lp.text(kernel))
assert np.array_equal(lp.interpret(kernel, [a, b])["C"], a @ b)

# %% [markdown]
# The interpreter ran that as threads, in an order of its own, and would have named two that race. `double_buffer`
# gives a copy two halves, of which one is filled while the other is used; one barrier an iteration is then enough.

# %%
twice = g.double_buffer("A_shared", "k_o").double_buffer("B_shared", "k_o")
(kernel,) = lp.lower(twice, "cuda")
assert lp.text(kernel).count("barrier()") <= lp.text(lp.lower(g, "cuda")[0]).count("barrier()")
assert np.array_equal(lp.interpret(kernel, [a, b])["C"], a @ b)
