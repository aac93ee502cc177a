# %% [markdown]
# # 10. A schedule library of one's own
#
# A schedule is a function from a Schedule to a Schedule. It looks at the nest to decide, and never at a name, so that
# it serves every program of that form. `schedules/` is written so; here is how to write another.
# `loopir.testing` takes Hypothesis: `pip install hypothesis`.

# %%
import numpy as np

import loopir as lp
from loopir import testing

x = lp.placeholder((64, 96), "float32", name="x")
w = lp.placeholder((96,), "float32", name="w")
y = lp.compute((64, 96), lambda i, j: lp.exp(x[i, j]) * w[j], name="y")
s = lp.Schedule(y)

# %% [markdown]
# ## Looking
#
# `accesses` says, for each loop, by how many elements one iteration moves each access: 1 is what a vector wants, 0 can
# stay in a register. `loops`, `reduced`, `buffer` and `cost` say the rest.

# %%
for touch in s.accesses("y"):
    print(touch.text, touch.write, {v: lp.text(step) for v, step in touch.strides.items()})
print(s.cost.flops, s.cost.special, s.cost.intensity)
print(s.suggest(3))

# %% [markdown]
# ## Deciding
#
# `why` asks whether a step is legal, without taking it. A function made of primitives can be declared a step of its
# own: the trace names it, with what it took.


# %%
@lp.composite
def lanes(s: lp.Schedule, stage: str, width: int = 8) -> lp.Schedule:
    """Make vectors of `width` along the loop in which every access of `stage` is contiguous or stays."""
    loops, touches = s.loops(stage), s.accesses(stage)
    for loop in reversed(loops):
        if not all(t.contiguous(loop) or t.invariant(loop) for t in touches) or loop in s.reduced(stage):
            continue
        if s.why("split", loop, width) is not None:
            continue
        split = s.split(loop, width)
        inner = split.loops(stage)[loops.index(loop) + 1]
        order = (*(v for v in split.loops(stage) if v != inner), inner)
        if order != split.loops(stage):
            if split.why("reorder", *order) is not None:
                continue
            split = split.reorder(*order)
        if split.why("vectorize", inner) is None:
            return split.vectorize(inner)
    raise lp.ScheduleError(f"{stage} has no loop that can be lanes")


fast = lanes(s, "y")
print(fast)
print(*fast.trace)
print(fast.script())

# %% [markdown]
# The same function takes a transposed operand, where the lanes have to go along the other loop, and refuses what it
# cannot do with a reason of its own.

# %%
z = lp.placeholder((96, 64), "float32", name="z")
turned = lp.compute((96, 64), lambda i, j: z[i, j] + 1.0, name="turned")
print(lanes(lp.Schedule(turned), "turned", 16))
column = lp.Schedule(lp.compute((64,), lambda i: z[0, i] * z[i, 0], name="column"))
try:
    lanes(column, "column")
except lp.ScheduleError as error:
    print(error)

# %% [markdown]
# ## Being sure
#
# The steps are proved one by one, so that a schedule function cannot be wrong; what it gives is still worth running.
# `assert_equivalent` compares two programs on drawn inputs, with a bound on the error that rounding explains.

# %%
testing.assert_equivalent(s, fast)
rng = np.random.default_rng(0)
a, b = rng.random((64, 96), np.float32), rng.random(96, np.float32)
assert np.allclose(fast.build("llvm")(a, b), np.exp(a) * b, rtol=1e-6)
