# %% [markdown]
# # Tuning
#
# Formulas choose in milliseconds; measuring is surer. `schedules.tune` runs what the formulas leave open, checks every
# result before its time counts, and writes what is surely faster to a database. `auto` reads it from then on, and a
# project can ship it. Here: a recipe of one's own, its knob, the database, and another machine.

# %%
import os
import tempfile
from pathlib import Path

import numpy as np

import loopir as lp
from loopir import schedules


def program():
    x = lp.placeholder((200, 300), "float32", name="x")
    return lp.Schedule(lp.compute((200, 300), lambda i, j: lp.exp(x[i, j]) + x[i, j] * 0.5, name="y"))


# %% [markdown]
# ## A recipe, and the number that it leaves open
#
# A recipe is a function from a Schedule to a Schedule. Where it uses a number that nobody knows for sure, it asks a
# `Knob`: by itself that gives the value of the formula, here 4; a tuner may choose another of those that are legal.

# %%
STRIP = schedules.Knob("strip", "columns that a thread takes", lambda formula: (8, 16, 32, 60), price=0.1)


def strips(s, match):
    (stage,) = s.stages
    i, j = s.loops(stage)
    s = s.split(j, STRIP(4, at=stage))
    outer, inner = s.last.loops
    return s.reorder(outer, i, inner)


recipe = schedules.Rule("strips", lambda view: view.only("elementwise"), strips, "llvm")
with schedules.choosing({"strip(y)": 16}) as choices:
    print(strips(program(), "y"))
print(choices.queries["strip(y)"].values)

# %% [markdown]
# ## Measuring
#
# Each candidate is built and run in a process of its own: one that crashed or hung would cost itself alone. Six seconds
# are enough to see it at work; by itself a run takes ten, and `effort="full"` two minutes.

# %%
folder = Path(tempfile.mkdtemp()) / "loopir_tuning"
found = schedules.tune(program(), "llvm", budget_s=6.0, rules=[recipe], database=folder, threads=1)
print(found)
x = np.random.default_rng(0).random((200, 300), np.float32)
np.testing.assert_allclose(found.schedule.build("llvm")(x), np.exp(x) + x * 0.5, rtol=1e-5)

# %% [markdown]
# A second run takes no measurement: the database has the program, under whatever names it has. `effort="none"` asks it
# alone; without, a run whose time was up before it compared anything, as on a busy machine, is done again.

# %%
again = schedules.tune(program(), "llvm", database=folder, effort="none")
print(again)
assert again.source == "database"
assert again.measured == 0

# %% [markdown]
# ## Shipping it
#
# The folder `loopir_tuning` in the current directory is read by default, and a package adds its own by
# `schedules.add_database(Path(__file__).parent / "loopir_tuning")`. Records hold names, numbers and steps, and run no
# code: the steps are proved again when they are applied, and `auto` needs neither the recipe nor the tuner for it.
# One file is enough to carry what was chosen elsewhere.

# %%
shipped = folder.parent / "best.jsonl"
print(schedules.Database(folder).export(shipped, winners=True), "record")
elsewhere = folder.parent / "elsewhere"
print(schedules.Database(elsewhere).load(shipped), "new")
before = os.environ.get("LOOPIR_TUNING_DIR")
os.environ["LOOPIR_TUNING_DIR"] = str(elsewhere)
made = schedules.auto(program(), "llvm")
assert lp.text(made.func) == lp.text(found.schedule.func)

# %% [markdown]
# ## Another machine
#
# A record is of a machine: its CPU, and how many threads run. On another one, here the same CPU with 64 threads, the
# formula chooses, as nothing is known of it yet.

# %%
threads = os.environ.get("LOOPIR_NUM_THREADS")
os.environ["LOOPIR_NUM_THREADS"] = "64"
assert schedules.tune(program(), "llvm", "none").source == "formula"
for name, value in (("LOOPIR_NUM_THREADS", threads), ("LOOPIR_TUNING_DIR", before)):
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value

# %% [markdown]
# `python -m loopir tune show | export | import | prune | report` does the same from a shell.
# [docs/tuning.md](../docs/tuning.md) has the rest: many hosts, a bound on the slowest calls, and what it gains.
