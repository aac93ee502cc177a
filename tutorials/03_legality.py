# %% [markdown]
# # 3. Legality and witnesses
#
# A step that would change the result is refused, with the two iterations that would clash. Nothing is taken on trust
# from how a loop was declared: dependences are computed from the accesses.

# %%
import loopir as lp


@lp.func
def sweep(n: "size", m: "size", a: "float32[n, m]"):  # noqa: F821
    for i in range(n - 1):
        for j in range(m - 1):
            a[i + 1, j] = a[i, j + 1] + 1.0


s = lp.Schedule(sweep)
refusal = s.why("reorder", "j", "i")
print(refusal)
assert isinstance(refusal, lp.ScheduleError)
assert refusal.witness is not None
assert refusal.witness.kind == "RAW"

# %% [markdown]
# The same loops with the dependence along the diagonal may be interchanged, for every size.


# %%
@lp.func
def diagonal(n: "size", m: "size", a: "float32[n, m]"):  # noqa: F821
    for i in range(n - 1):
        for j in range(m - 1):
            a[i + 1, j + 1] = a[i, j] + 1.0


d = lp.Schedule(diagonal)
assert d.why("reorder", "j", "i") is None
assert d.why("parallel", "j") is None  # no dependence between two j of one i
assert d.why("parallel", "i") is not None

# %% [markdown]
# A vector loop runs its lanes together. A value that is needed four iterations later allows four lanes, not eight.


# %%
@lp.func
def lag(a: "float32[64]"):  # noqa: F821
    for i in range(60):
        a[i + 4] = a[i] * 2.0


assert lp.Schedule(lag).split("i", 4).why("vectorize", "i_i") is None
print(lp.Schedule(lag).split("i", 8).why("vectorize", "i_i"))

# %% [markdown]
# A refused step leaves the Schedule as it was.

# %%
before = s.func
try:
    s.parallel("i")
except lp.ScheduleError as error:
    print(error)
assert s.func is before
