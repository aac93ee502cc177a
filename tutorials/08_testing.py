# %% [markdown]
# # 8. Testing a primitive of one's own
#
# A step of a schedule is a function from a nest to a nest. Here is one that runs a loop backwards. It looks right.
# `loopir.testing` takes Hypothesis: `pip install hypothesis`.

# %%
from dataclasses import replace

import loopir as lp
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.ir.grammar import Func, Loop, Stmt, Var
from loopir.ir.traverse.walk import leaf_paths, rewrite, substitute
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.refusal import refusal
from loopir.testing import Wrong, check, memory_report, tiny


def turned(func: Func, loop: Loop) -> Func:
    """`func` with the iterations of `loop` from the last to the first."""
    last_first = {loop.var: loop.extent - 1 - Var(loop.var)}

    def visit(s: Stmt) -> Stmt | None:
        return replace(s, body=tuple(substitute(x, last_first) for x in loop.body)) if s is loop else None  # type: ignore[call-arg]

    return replace(func, body=rewrite(func.body, visit))


def backwards(func: Func, loop: str) -> Func:
    """Run `loop` backwards."""
    return turned(func, find_serial(func, loop))


double = lp.parse("""
def double(A: "float32[4]", B: "out float32[4]"):
    for i in range(4):
        B[i] = A[i] * 2.0
""")
print(lp.text(backwards(double, "i")))

# %% [markdown]
# `check` tries it on random programs: here on tiny ones, whose statements all touch the same few cells. `loop` is
# drawn from the loops of each program, because that is what the parameter is called. What is found is made small.

# %%
QUICK = ("language", "last-writer trace", "exact ring")
PROGRAMS = tiny(nests=1)
try:
    check(backwards, programs=PROGRAMS, examples=200, oracles=QUICK, patience=3.0)
except Wrong as wrong:
    print(wrong)
    found = wrong
assert found.oracle in QUICK
assert len(lp.text(found.before).splitlines()) <= 12

# %% [markdown]
# Two iterations touch one element, and now run in the other order. So the primitive has to ask: `violated_dependence`
# takes the nest before and after, and where each old iteration has gone; it proves that no two that depend on one
# another have traded places, or gives them as a witness. A refusal says what they are.


# %%
def backwards_if_legal(func: Func, loop: str) -> Func:
    """Run `loop` backwards, where no iteration depends on another."""
    target = find_serial(func, loop)
    new = turned(func, target)
    was = {target.var: target.extent - 1 - Var(target.var)}
    clash = violated_dependence(func, new, {p.stmt.label: Origin(p.stmt.label, was) for p in leaf_paths(target.body)})
    if clash is not None:
        raise refusal(clash, f"{loop!r} would run backwards", loop, "a loop whose iterations are independent")
    return new


check(backwards_if_legal, programs=PROGRAMS, examples=100, oracles=QUICK)

sweep = lp.parse("""
def sweep(n: "size", a: "inout float32[n + 1]"):
    for i in range(n):
        a[i + 1] = a[i] + 1.0
""")
try:
    backwards_if_legal(sweep, "i")
except lp.ScheduleError as error:
    print(error)

# %% [markdown]
# With `@primitive` it becomes a method of Schedule, and `check("name")` the test of it; `python -m loopir.testing.fuzz`
# then draws it among all others. In a test file, `@check(examples=200)` makes a test of a function.
#
# A schedule can be proved as a whole, whatever its steps are: `validate` compares the nest with the program that it
# came from, for all sizes, and says what it cannot prove.

# %%
n = lp.symbol("n")
A = lp.placeholder((n, n), "float32", name="A")
B = lp.placeholder((n, n), "float32", name="B")
k = lp.reduce_axis(n, name="k")
C = lp.compute((n, n), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
s = lp.Schedule(C).split("k", 4).rfactor("C", "k_i").parallel("i")
print(s.validate())
assert s.validate().proved == ("C",)

# %% [markdown]
# And what a GPU's memory would do with a schedule is counted with no GPU: here the threads of a warp read down a
# column.

# %%
x = lp.placeholder((32, 32), "float32", name="x")
t = lp.Schedule(lp.compute((32, 32), lambda i, j: x[j, i] * 2.0, name="y"))
report = memory_report(t.bind("i", "threadIdx.y").bind("j", "threadIdx.x"))
print(report)
assert report.fault is None
assert report.uncoalesced == 32 * (32 - 4)

# %% [markdown]
# Do such tests find anything? `python -m loopir.testing.mutants` puts seventy faults into loopir's own rules, one after
# the other, and shows the smallest program by which each was found: `docs/mutants.md`.
