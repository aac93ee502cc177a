"""Sample points: all assumptions hold at each, and what is proved is not refuted."""

from itertools import product

import pytest
from hypothesis import given, strategies as st

from loopir.arith.poly import expand_index
from loopir.arith.prove import decide_nonnegative
from loopir.arith.sample_points import POINT_KINDS, refuted_by_sample, sample_point
from loopir.arith.simplify import Context, poly
from loopir.interp.interpret import cond_holds as holds
from loopir.ir.grammar import Cmp, Int, Mod, Var
from loopir.ir.layout.layouts import evaluate
from loopir.testing.generate.trees import indices

n, i, j = Var("n"), Var("i"), Var("j")
GUARDS = (
    Cmp("<", i, n - 1), Cmp("<=", j * 4, i), Cmp("==", j, Int(2)), Cmp("<=", Int(3), i + j), Cmp("<", n, Int(2)),
)  # fmt: skip


def context(guards, divisor: int = 1, extent: int = 5) -> Context:
    known = Context().given(Cmp("==", Mod(n, Int(divisor)), Int(0))) if divisor > 1 else Context()
    return known.loop("i", n).loop("j", Int(extent)).inside(*guards)


@given(st.lists(st.sampled_from(GUARDS), max_size=3), st.sampled_from([1, 4, 6]), st.integers(1, 5))
def test_what_is_known_holds_at_each_point(guards, divisor: int, extent: int) -> None:
    known = context(guards, divisor, extent)
    for kind in range(len(POINT_KINDS)):
        x = sample_point(known, kind)
        if x is None:
            continue
        assert x["n"] % divisor == 0
        assert all(0 <= x[v.name] <= x.value(top) for v, top in known.tops)
        assert all(x.value(f) >= 0 for f in known.facts)


@given(indices(["i", "j"]), st.lists(st.sampled_from(GUARDS[1:4]), max_size=2))
def test_what_is_refuted_is_negative_somewhere(ix, guards) -> None:
    known = Context().loop("i", Int(9)).loop("j", Int(5)).inside(*guards)
    if refuted_by_sample(poly(ix, known), known):
        assert decide_nonnegative(poly(ix, known), known) is not True
        cells = [{"i": a, "j": b} for a, b in product(range(9), range(5))]
        met = [at for at in cells if all(holds(c, at) for c in guards)]
        assert not met or any(evaluate(ix, at) < 0 for at in met)


@pytest.mark.parametrize(("ix", "refuted"), [(n - 1 - i, False), (n - 2 - i, True), (4 - j, False), (3 - j, True)])
def test_ends_of_loops_are_met(ix, refuted: bool) -> None:
    assert refuted_by_sample(expand_index(ix), context(())) == refuted


def test_a_loop_without_iterations_has_no_point() -> None:
    assert not refuted_by_sample(expand_index(0 - Var("k") - 1), Context().loop("k", Int(0)))
