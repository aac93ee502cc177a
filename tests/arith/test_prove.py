"""Proofs have a budget of operations, and what would take more is not decided; nests that were slow count few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support.call_counts import calls

import loopir as lp
from loopir import schedules
from loopir.arith import prove
from loopir.arith.poly import expand_index, poly_add
from loopir.arith.prove import Budget, decide_nonnegative
from loopir.arith.simplify import Context
from loopir.ir.grammar import Cmp, Index, Int, Max, Min, Var
from loopir.testing.generate.trees import indices

CALLS = 5_000_000
"""Calls of Python functions that a nest that was slow takes at most; the slowest takes a third of that."""


def quotients(depth: int) -> lp.Schedule:
    """A nest with subscript and condition of so many quotients, one in another."""
    at = "i"
    for n in range(depth):
        at = f"({at} + {n + 1}) // {(3, 5, 7, 2, 4, 6)[n % 6]}"
    return lp.Schedule(
        lp.parse(f"""
def f(n: "size", a: "inout float32[n + 50]"):
    for i in range(n):
        if {at} < n:
            a[{at}] = a[i] + 1.0
""")
    )


def conditions(count: int) -> lp.Schedule:
    """A nest with so many conditions around a loop."""
    conds = " and ".join(f"i * {n + 2} < m * {n + 3} + {n}" for n in range(count))
    return lp.Schedule(
        lp.parse(f"""
def f(n: "size", m: "size", a: "inout float32[n, m]"):
    for i in range(n):
        if {conds}:
            for j in range(m):
                a[i, j] = a[i, j] + 1.0
""")
    )


def split(times: int) -> lp.Schedule:
    """A loop that is split so many times."""
    text = 'def f(n: "size", a: "inout float32[n]"):\n    for i in range(n):\n        a[i] = a[i] + 1.0\n'
    s = lp.Schedule(lp.parse(text))
    loop = "i"
    for _ in range(times):
        s, loop = s.split(loop, 2), f"{loop}_o"
    return s


def pyramid(levels: int) -> lp.Schedule:
    """An image made smaller by 2 so many times, and larger again, with borders clamped."""
    size = 16 << levels
    steps = [lp.placeholder((size, size), "float32", name="x")]

    def at(v: Any, size: int) -> Any:
        return lp.minimum(lp.maximum(v, 0), size - 1)

    for _ in range(levels):
        p, old = steps[-1], size
        size //= 2
        steps.append(
            lp.compute(
                (size, size),
                lambda i, j, p=p, m=old: p[at(2 * i - 1, m), at(2 * j - 1, m)] + p[at(2 * i + 1, m), at(2 * j + 1, m)],
            )
        )
    y = steps.pop()
    while steps:
        p, q, old = y, steps.pop(), size
        size *= 2
        y = lp.compute((size, size), lambda i, j, p=p, q=q, m=old: q[i, j] - p[at(i // 2, m), at((j + 1) // 2, m)])
    return lp.Schedule(y)


def on_cpu(s: lp.Schedule) -> None:
    lp.lower(s, "llvm")


def parallel(s: lp.Schedule) -> None:
    s.why("parallel", "i")


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda: on_cpu(quotients(10).split("i", 4)), id="10 quotients, split and lowered"),
        pytest.param(lambda: parallel(quotients(10)), id="10 quotients, parallel"),
        pytest.param(lambda: on_cpu(conditions(40).split("j", 4)), id="40 conditions, split and lowered"),
        pytest.param(lambda: parallel(conditions(40)), id="40 conditions, parallel"),
        pytest.param(lambda: conditions(20).suggest(), id="20 conditions, suggest"),
        pytest.param(lambda: on_cpu(split(20)), id="20 splits, lowered"),
        pytest.param(lambda: schedules.auto(pyramid(3), "llvm"), id="3 levels of a pyramid, auto on a CPU"),
        pytest.param(lambda: schedules.auto(pyramid(3), "cuda", arch="sm_90a"), id="3 levels, auto on a GPU"),
    ],
)  # fmt: skip
def test_nests_that_were_slow_take_few_operations(work: Callable[[], object]) -> None:
    assert calls(work) < CALLS


KNOWN = Context().loop("i", Int(8)).loop("j", Var("n")).given(Cmp("<=", Var("i") + Var("j"), Var("n") // 3))


@settings(max_examples=60, deadline=None)
@given(indices(("i", "j", "n")), st.integers(0, 30))
def test_a_smaller_budget_decides_less_and_nothing_else(ix: Index, terms: int) -> None:
    p = expand_index(ix)
    assert decide_nonnegative(p, KNOWN, Budget(terms)) in (None, decide_nonnegative(p, KNOWN))


def test_a_question_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What forks at each step, and is not so: it is looked for until the budget is spent, and no longer."""
    i, j, n = Var("i"), Var("j"), Var("n")
    x: Index = i
    for k in range(12):
        x = Max(Min(x, j * (k + 1)), n // (k + 2) - i)
    p = poly_add(expand_index(x), expand_index(n // 3 - j), -1)
    monkeypatch.setattr(prove, "refuted_by_sample", lambda *_: False)
    budget = Budget(100)
    assert decide_nonnegative(p, KNOWN, budget) is None
    assert -1_000 < budget.left < 0
    whole = Budget(prove.QUESTION)
    assert decide_nonnegative(p, KNOWN, whole) is None
    assert prove.QUESTION - whole.left > 100


def test_the_end_of_a_loop_that_is_a_quotient_cancels() -> None:
    m, part = Var("m"), Var("part")
    count = (m + 511) // 512
    known = Context().loop("part", count)
    assert decide_nonnegative(expand_index(count - 1 - part), known)
    assert not decide_nonnegative(expand_index(count - 2 - part), known)
