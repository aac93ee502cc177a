"""Prefetch hints that speak of what is gone are dropped; all others stay, and so does the rest of the nest."""

from dataclasses import replace

import pytest

import loopir as lp
from loopir.ir.grammar import Prefetch, Var
from loopir.ir.traverse.walk import rewrite, statements, substitute
from loopir.schedule.core.cache_hints import drop_dead_hints

NEST = """
def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
    for i in range(n):
        for j in range(8):
            {hint}
            B[i, j] = A[i, j]
"""
ALIVE = ("prefetch(A[i, j])", "prefetch(A[n - 1, 0])")


@pytest.mark.parametrize("hint", ALIVE)
def test_a_hint_whose_buffer_and_loops_are_there_stays(hint: str) -> None:
    func = lp.parse(NEST.format(hint=hint))
    assert drop_dead_hints(func) == func


def test_a_hint_of_a_loop_that_is_gone_is_dropped_alone() -> None:
    func = lp.parse(NEST.format(hint=ALIVE[0]))
    gone = replace(
        func, body=rewrite(func.body, lambda s: substitute(s, {"j": Var("k")}) if isinstance(s, Prefetch) else None)
    )
    found = drop_dead_hints(gone)
    assert not any(isinstance(s, Prefetch) for s in statements(found.body))
    assert found == lp.parse(NEST.replace("            {hint}\n", ""))
