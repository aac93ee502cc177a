# %% [markdown]
# # 5. Reductions
#
# A reduction folds by a monoid, so its order is free, and that freedom is what makes it fast: partial results on lanes,
# threads and blocks, folded afterwards. Each step here is proved, and the folds are exact on integers.

# %%
import numpy as np

import loopir as lp

m = lp.symbol("m")
x = lp.placeholder((m, 1000), "float32", name="x")
k = lp.reduce_axis(1000, name="k")
total = lp.compute((m,), lambda i: lp.sum(x[i, k], axis=k), name="total")
s = lp.Schedule(total)
print(s)
a = np.random.default_rng(0).integers(-8, 9, (7, 1000)).astype(np.float32)

# %% [markdown]
# The reduced loop carries a dependence, so its iterations cannot run at once as they are. What it carries is a fold:

# %%
print(s.explain("k"))

# %% [markdown]
# ## Partial results
#
# `rfactor` gives each iteration of a loop an element of its own to fold into. Eight lanes then have eight sums.

# %%
lanes = s.split("k", 8).rfactor("total", "k_i")
print(lanes)
lanes = lanes.vectorize("k_i")
assert (lanes.build("llvm")(a) == a.sum(1)).all()

# %% [markdown]
# ## Threads that fold together
#
# On a GPU a reduced loop can be bound to threads. How they fold is worked out in lowering: by exchanges in a warp,
# through shared memory between warps, for any monoid, in a fixed order. Barriers are placed by analysis.

# %%
block = s.split("k", 128).reorder("i", "k_i", "k_o").bind("i", "blockIdx.x").bind("k_i", "threadIdx.x")
print(lp.text(lp.lower(block, "cuda")[0]))
assert (block.build("interpret")(a) == a.sum(1)).all()

# %% [markdown]
# ## Blocks that fold together
#
# Atomic updates let several blocks fold into one element, where the hardware has them or by compare and swap.

# %%
split_k = s.split("k", 250).reorder("k_o", "i", "k_i").atomic("total").bind("k_o", "blockIdx.x")
print(split_k)
assert (split_k.build("interpret")(a) == a.sum(1)).all()

# %% [markdown]
# ## Folds of several values
#
# A monoid may have several components: the largest with its place, or mean and variance in one pass, merged as Chan,
# Golub and LeVeque do. They take the same steps.

# %%
one_pass = lp.Schedule(list(lp.welford(x, axis=1)))
print(one_pass)
place = lp.argmax(x, axis=1)
assert (lp.Schedule(place).build("llvm")(a) == a.argmax(1)).all()
