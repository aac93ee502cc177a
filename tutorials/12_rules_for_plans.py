# %% [markdown]
# # 12. Rules for plans
#
# `schedules.plan` groups the stages of a program into kernels and schedules each group by the cheapest rule that
# matches, by predicted time. A rule is a row of a table: what it matches, and a schedule. Here you add one, see what it
# costs, see it chosen, and see it refused where it is illegal. No GPU is needed: prices are predicted for an H200.

# %%
from loopir.schedules.rules import RULES

import loopir as lp
from loopir import schedules

x = lp.placeholder((4096, 4096), "float32", name="x")
k = lp.reduce_axis(4096, name="k")
sums = lp.compute((4096,), lambda j: lp.sum(x[k, j], axis=k), name="sums")
s = lp.Schedule([(x * 2.0).named("twice"), sums])
p = schedules.plan(s, "cuda", arch="sm_90a")
print(p)

# %% [markdown]
# ## What a rule sees
#
# A rule looks at a `View` of a group: a Schedule of its stages alone, and the class of each stage by its index maps.
# It never sees names, and so takes every program of this structure.

# %%
view = schedules.View(s, "cuda")
print(view.classes)

# %% [markdown]
# ## A rule of your own
#
# `matches` gives what the schedule needs to know, or None where the rule does not apply. The schedule takes ordinary
# steps: this one gives each thread a whole row, which is legal and slow.


# %%
def row_by_thread(s: lp.Schedule, stage: str) -> lp.Schedule:
    """Rows by threads, 64 in a block."""
    s = s.split(s.loops(stage)[0], 64)
    block, thread = s.last.loops
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")


slow = schedules.Rule("row by thread", lambda view: view.only("elementwise"), row_by_thread)
q = schedules.plan(s, "cuda", arch="sm_90a", rules=[slow])
print(q.why("twice"))

# %% [markdown]
# All rules that match are priced, and the cheapest is taken: yours loses, and the plan says by how much. One that is as
# fast as the table's is chosen, as your rules are tried first.


# %%
def wide_blocks(s: lp.Schedule, stage: str) -> lp.Schedule:
    return schedules.elementwise(s, stage, threads=512)


wide = schedules.Rule("wide blocks", lambda view: view.only("elementwise"), wide_blocks)
q = schedules.plan(s, "cuda", arch="sm_90a", rules=[wide, slow])
print(q.why("twice"))
assert q.group("twice").how == "wide blocks"
print(p.diff(q))

# %% [markdown]
# ## Where a rule is illegal
#
# Nobody has to trust a rule: its steps are proved like any. This one spreads the rows of a sum over columns, which
# fold into the same elements. It is no candidate, and the plan has the reason. Another rule schedules the sum.

# %%
racing = schedules.Rule(
    "rows of any sum", lambda view: view.only("fold across"),
    lambda s, stage: s.bind(s.reduced(stage)[0], "blockIdx.x"),
)  # fmt: skip
q = schedules.plan(s, "cuda", arch="sm_90a", rules=[racing])
print(q.why("sums"))
assert dict(q.group("sums").refused)["rows of any sum"].startswith("ScheduleError")
assert q.group("sums").how != "rows of any sum"

# %% [markdown]
# A rule that raises anything else, or gives a Schedule that does not come from its argument, is refused as well. No
# rule can make a plan wrong or keep one from being found.

# %%
broken = schedules.Rule("broken", lambda view: view.only("elementwise"), lambda s, stage: {}[stage])
q = schedules.plan(s, "cuda", arch="sm_90a", rules=[broken])
print(q.why("twice"))
assert dict(q.group("twice").refused)["broken"].endswith("(KeyError: 'twice')")

# %% [markdown]
# ## For good
#
# The decorator `@schedules.rule(matches=...)` adds a rule to the table of the process, so that `schedules.auto` and all
# plans try it, next to those of loopir: `schedules/rules.py` is that table.


# %%
@schedules.rule(matches=lambda view: view.only("elementwise"), name="my blocks")
def my_blocks(s: lp.Schedule, stage: str) -> lp.Schedule:
    return schedules.elementwise(s, stage, threads=1024)


print(schedules.plan(s, "cuda", arch="sm_90a").why("twice"))
RULES.remove(my_blocks)  # for the programs that run after this one
