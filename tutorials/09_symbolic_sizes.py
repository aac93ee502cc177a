# %% [markdown]
# # 9. Symbolic sizes
#
# A size can be a symbol. One kernel then serves every value: loops, guards, grids and memory are formulas in it, and
# each step is proved for all values at once.

# %%
import numpy as np

import loopir as lp
from loopir import schedules

n = lp.symbol("n", min=0)
x = lp.placeholder((n, n), "float32", name="x")
y = lp.compute((n, n), lambda i, j: x[j, i] * 2.0, name="y")
kernel = schedules.auto(lp.Schedule(y), "llvm").build("llvm")
rng = np.random.default_rng(0)
for size in (0, 1, 7, 64, 129):
    a = rng.random((size, size), np.float32)
    assert (kernel(a) == a.T * 2).all()

# %% [markdown]
# ## What is known of a size
#
# Sizes are at least 1 unless more is said. `min` and `multiple_of` are promises that a call is held to; they make
# guards go away, and vectors aligned.

# %%
any_size = lp.symbol("any_size")
whole = lp.symbol("whole", min=64, multiple_of=64)
for size in (any_size, whole):
    given = lp.placeholder((size,), "float32", name="given")
    s = lp.Schedule(lp.compute((size,), lambda i, given=given: given[i] + 1.0, name="out"))
    print(s.split("i", 64))

s = lp.Schedule(lp.compute((whole,), lambda i: lp.placeholder((whole,), "float32", name="given")[i], name="out"))
try:
    s.build("llvm")(np.zeros(65, np.float32))
except ValueError as error:
    print(error)

# %% [markdown]
# ## Two versions
#
# `specialize` makes a version of a loop for when a condition holds; there, the guards go.

# %%
given = lp.placeholder((any_size,), "float32", name="given")
s = lp.Schedule(lp.compute((any_size,), lambda i: given[i] + 1.0, name="out")).split("i", 8)
print(s.specialize("i_o", "any_size % 8 == 0"))

# %% [markdown]
# ## Sizes that recur
#
# `schedules.tiered` builds a kernel that answers at any size at once. It counts its calls by size; a background thread
# compiles an exact kernel once the calls would have gained, by prediction, what compiling takes. At most `entries`
# exact kernels are held. Sizes decide which kernel runs, never what it computes. Here `cost=0` compiles at once.

# %%
rows = lp.symbol("rows")
softmax = schedules.tiered(lp.Schedule(lp.softmax(lp.placeholder((rows, 32), "float32", name="x"))), "llvm", cost=0)
first = softmax(np.ones((3, 32), np.float32))
softmax.wait()
print(softmax.exact)
assert np.allclose(softmax(np.ones((3, 32), np.float32)), first)

# %% [markdown]
# `lp.fix_sizes` is the step under it: the same program, for these sizes alone.

# %%
print(lp.text(lp.fix_sizes(softmax.program.func, {"rows": 3})))

# %% [markdown]
# ## Sizes that follow from others
#
# A call solves for the sizes by the shapes of its arrays. What does not fit is refused before anything runs.

# %%
p, q = lp.symbol("p"), lp.symbol("q")
left, right = lp.placeholder((p, q), "float32", name="left"), lp.placeholder((q + 1, p), "float32", name="right")
out = lp.compute((p, q), lambda i, j: left[i, j] + right[j + 1, i], name="out")
kernel = lp.Schedule(out).build("llvm")
print(kernel(np.ones((2, 3), np.float32), np.ones((4, 2), np.float32)))
try:
    kernel(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
except ValueError as error:
    print(error)

# %% [markdown]
# ## What it costs is a formula

# %%
print(s.cost.compulsory, s.cost.flops)
