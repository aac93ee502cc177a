"""On a CPU a plan says why a loop is neither parallel nor vector: the dependence, with two iterations."""

from __future__ import annotations

import loopir as lp
import schedules
from schedules.llvm.serial_loops import serial_loops

PROGRAM = """
def f(n: "size", a: "inout float32[n + 1]", b: "float32[256, 8]", c: "out float32[256, 8]", at: "int32[256]",
        h: "inout float32[16]"):
    for i in range(n):
        a[i + 1] = a[i] * 0.5 + a[i + 1]
    for i_1 in range(256):
        for j in range(8):
            c[i_1, j] = exp(b[i_1, j])
    for k in range(256):
        h[at[k]] = h[at[k]] * 2.0
"""


def test_a_plan_says_which_dependence_keeps_a_loop_serial() -> None:
    plan = schedules.plan(lp.Schedule(lp.parse(PROGRAM)), "llvm", sizes={"n": 256})
    said = str(plan)
    assert "a: loop 'i' is not parallel: iterations of 'i' are not independent: a at (i=0) writes a[1]" in said
    assert "a: loop 'i' is not vector: " in said
    assert "h: loop 'k' is not parallel: iterations of 'k' are not independent; h is indexed from memory" in said
    assert all("it may be" in line for line in said.splitlines() if line.startswith("  c: loop"))
    assert "loop 'i' is not vector" in plan.why("a")
    assert "loop 'k'" not in plan.why("a")


def test_what_is_on_threads_and_in_vectors_is_not_mentioned() -> None:
    x = lp.placeholder((512, 512), "float32", name="x")
    assert serial_loops(schedules.auto(lp.Schedule(lp.exp(x).named("y")), "llvm")) == ()


def test_a_legal_step_that_no_recipe_takes_is_called_so() -> None:
    s = lp.Schedule(lp.exp(lp.placeholder((3, 2), "float32", name="x")).named("y"))
    found = serial_loops(s)
    assert [(x.loop, x.kind) for x in found] == [("i", "parallel"), ("j", "vectorize")]
    assert all("no recipe gains" in str(x) for x in found)
    assert "of 2 iterations" in found[1].reason
