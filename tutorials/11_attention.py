# %% [markdown]
# # 11. Attention, from its stages to one loop
#
# softmax(Q K^T) V stage by stage writes all scores to memory and reads them back several times. Flash attention keeps
# none. Here it is derived from the stages, one proved step after the other.

# %%
import numpy as np

import loopir as lp
from loopir import schedules

ROWS, KEYS, DEPTH = 8, 16, 4
q = lp.placeholder((ROWS, DEPTH), "float32", name="Q")
k = lp.placeholder((KEYS, DEPTH), "float32", name="K")
v = lp.placeholder((KEYS, DEPTH), "float32", name="V")
s = lp.Schedule(lp.softmax((q @ k.T) * DEPTH**-0.5) @ v)
print(s)

# %% [markdown]
# ## The sum leaves the second product
#
# Each power is multiplied by 1 over the sum of its row, before the product with V. All terms of one result share that
# factor, so the product can be made first, of powers alone.

# %%
scores, largest, total, powers, result = s.stages
s = s.factor_out(result)
print(s)

# %% [markdown]
# ## Blocks
#
# The end of the chain is cut into blocks of rows, and everything is computed where it is read. What `factor_out` put
# into the nest of the product becomes a nest of its own. In each nest along the keys, these run block by block.

# %%
s = s.split(s.loops(result)[0], 4, names=("block", "row"))
for stage in (powers, total, largest, scores):
    s = s.compute_at(stage, "block")
for loop in reversed(s.loops(result)[1:-1]):
    s = s.distribute(loop, result)
for stage, outer in ((largest, "keys"), (total, "keys_2"), (powers, "keys_3"), (result, "keys_4")):
    s = s.split(s.loops(stage)[-1], 8, names=(outer, f"{outer}_in"))
    inside = s.loops(stage)[1:]
    s = s.reorder(outer, *(x for x in inside if x != outer))
print(s)

# %% [markdown]
# ## Why these are still several passes
#
# The sum of the powers needs the largest score of the row, which is known when the loop over all keys has ended: fusing
# the two loops is refused, with the two iterations that would trade places.

# %%
print(s.why("merge", "keys", "keys_2"))

# %% [markdown]
# ## The fold that is not done
#
# `rolling_update` fuses them all the same. In each iteration the powers are made with the largest score so far. When
# that goes from m to m', each power that was added before is too large by the same factor, exp(m - m'), whatever its
# score is: so a sum of them is corrected by one multiplication. The factor is found in the terms and proved; a fold
# whose terms change by different amounts is refused, with two elements that show it.

# %%
s = s.rolling_update((total, powers, result), "keys").compute_at(scores, "keys")
print(s)

# %%
center = lp.parse("""
def spread(A: "float32[16]", M: "out float32[1]", D: "out float32[1]"):
    for i in range(16):
        M[0] = sum(A[i] * 0.0625, over=i, init=0.0)
    for j in range(16):
        D[0] = sum(abs(A[j] - M[0]), over=j, init=0.0)
""")
print(lp.Schedule(center).why("rolling_update", ("D",), "i"))

# %% [markdown]
# ## Is it right?
#
# No row of scores is kept: the largest buffer has a block of them. The result is that of NumPy, and of the stages.

# %%
some = [np.random.default_rng(n).standard_normal(shape).astype(np.float32)
        for n, shape in enumerate([(ROWS, DEPTH), (KEYS, DEPTH), (KEYS, DEPTH)])]  # fmt: skip
x = some[0] @ some[1].T * DEPTH**-0.5
p = np.exp(x - x.max(-1, keepdims=True))
assert np.allclose(s.build("interpret")(*some), p / p.sum(-1, keepdims=True) @ some[2], atol=1e-5)
assert [d.value for d in s.buffer(scores).shape][-2:] == [4, 8]

# %% [markdown]
# ## By itself
#
# `schedules.auto` takes these steps for any chain of a product, folds of its rows and a second product, in blocks that
# suit the caches, and puts the products in tiles of registers and the rest in vectors.

# %%
big = [lp.placeholder((2, n, 32), "float32", name=x) for n, x in ((64, "Q"), (512, "K"), (512, "V"))]
best = schedules.auto(lp.Schedule(lp.softmax(big[0] @ big[1].transpose(0, 2, 1)) @ big[2]), "llvm")
print([step.name for step in best.trace])
