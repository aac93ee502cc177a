"""Loops are cut at the row and the column that a nest reads of what it changes in place, and mean the same."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.pivots import cut_at_pivots

PROGRAMS = {
    "shortest paths": """
def f(n: "size", d: "inout float32[n, n]"):
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = minimum(d[i, j], d[i, k] + d[k, j])
""",
    "of 19 nodes": """
def f(d: "inout float32[19, 19]"):
    for k in range(19):
        for i in range(19):
            for j in range(19):
                d[i, j] = minimum(d[i, j], d[i, k] + d[k, j])
""",
    "a row": """
def f(n: "size", m: "size", d: "inout float32[n, m]"):
    assume(m <= n)
    for k in range(m):
        for i in range(n):
            for j in range(m):
                d[i, j] = d[i, j] * 0.5 + d[k, j]
""",
    "steps": """
def f(n: "size", m: "size", d: "inout float32[n]"):
    for k in range(m):
        for i in range(n):
            if k < n:
                d[i] = maximum(d[i], d[k] * 2.0)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_mean_the_same(name: str) -> None:
    s = lp.Schedule(lp.parse(PROGRAMS[name]))
    (stage,) = s.stages
    assert_equivalent(s, cut_at_pivots(s, stage))
    made = cpu(s, 4)
    made.validate()
    assert_equivalent(s, made)


def test_shortest_paths_run_by_vectors() -> None:
    made = cpu(lp.Schedule(lp.parse(PROGRAMS["shortest paths"])), 4)
    inner = [made.loop(loops[-1]).kind for x in made.stages if len(loops := made.loops(x)) > 3]
    assert inner
    assert {*inner} == {"vectorize"}
