"""Facts at a loop: what is answered yes holds at every size and iteration, and minima are minima."""

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.interp.python_expr import PythonExpr
from loopir.ir.grammar import Index, Int, Var
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop

NEST = lp.parse("""
def f(n: "size", A: "out float32[n, 12]"):
    assume(n % 4 == 0)
    for i in range(n):
        if i < 12:
            for j in range(i + 1):
                A[i, j] = 0.0
""")
FACTS = Facts.at(NEST, find_loop(NEST, "j"))
POINTS = [{"n": n, "i": i} for n in range(0, 33, 4) for i in range(min(n, 12))]


@st.composite
def linear(draw: st.DrawFn) -> Index:
    small = st.integers(-6, 6)
    ix = Var("i") * draw(small) + Var("n") * draw(small) + draw(small)
    return ix // draw(st.sampled_from((1, 2, 4)))


def values(ix: Index) -> list[int]:
    return [eval(PythonExpr().index(ix), {}, dict(p)) for p in POINTS]


@settings(max_examples=120, deadline=None)
@given(linear(), st.integers(1, 5), st.integers(-4, 4))
def test_what_is_proved_holds_at_every_point(ix: Index, factor: int, least: int) -> None:
    if FACTS.divides(factor, ix):
        assert all(v % factor == 0 for v in values(ix))
    if FACTS.at_least(ix, least):
        assert min(values(ix)) >= least
    if FACTS.constant(ix):
        assert len({*values(ix)}) == 1


@settings(max_examples=120, deadline=None)
@given(linear(), linear())
def test_minima_and_maxima_are_what_they_say(a: Index, b: Index) -> None:
    assert values(FACTS.less(a, b)) == [*map(min, values(a), values(b))]
    assert values(FACTS.greater(a, b)) == [*map(max, values(a), values(b))]
    if FACTS.equal(a, b):
        assert values(a) == values(b)


def test_guards_and_assumptions_are_known() -> None:
    assert FACTS.divides(4, Var("n"))
    assert FACTS.at_least(Int(11) - Var("i"), 0)
    assert FACTS.at_least(Var("n"), 4)
    assert not FACTS.at_least(Var("n"), 5)
