"""Constraint systems of indices and conditions: what has no solution has none at any point, and solutions are some."""

from collections.abc import Mapping

from hypothesis import assume, given, settings, strategies as st

from loopir.analysis.presburger.constraints import ConstraintSystem, combine, product_bound
from loopir.errors import Undecided
from loopir.interp.python_expr import PythonExpr
from loopir.ir.grammar import Cond, FloorDiv, Int, Mod, ValueToCond, ValueToIndex, Var
from loopir.ir.traverse.walk import nodes
from loopir.testing.generate.trees import conditions

NAMES = {"i": "i", "n": "n"}
BOX = [{"i": i, "n": n} for i in range(6) for n in range(6)]


def plain(node: Cond) -> bool:
    return not any(
        isinstance(x, ValueToIndex | ValueToCond)
        or (isinstance(x, FloorDiv | Mod) and not (isinstance(x.b, Int) and x.b.value > 0))
        for x in nodes(node)
    )


def boxed(c: Cond) -> ConstraintSystem:
    """`c` where both variables are 0 to 5."""
    system = ConstraintSystem()
    for v in NAMES:
        system.inside(v, Int(6), "", NAMES)
    system.require(c, "", NAMES)
    return system


def holds(c: Cond, point: Mapping[str, int]) -> bool:
    return eval(PythonExpr().cond(c), {}, dict(point))


@settings(max_examples=60, deadline=None)
@given(conditions([*NAMES], depth=2))
def test_what_holds_somewhere_has_a_solution_and_an_exact_one_is_the_least(c: Cond) -> None:
    assume(plain(c))
    system = boxed(c)
    try:
        found = system.smallest(("i", "n"), ())
    except Undecided:
        return
    points = [p for p in BOX if holds(c, p)]
    assert found is not None or not points
    if system.inexact is None and len(points) < len(BOX):
        assert (found is None) == (not points) or found is not None
        assert found is None or not points or [found["i"], found["n"]] <= [points[0]["i"], points[0]["n"]]


@settings(max_examples=60, deadline=None)
@given(conditions([*NAMES], depth=2))
def test_a_possible_system_is_not_refuted(c: Cond) -> None:
    assume(plain(c))
    system = boxed(c)
    if any(holds(c, p) for p in BOX):
        assert not system.refutes(())
        assert system.possible(("i", "n"), ())


SMALL = st.dictionaries(st.sampled_from(("", "i", "n")), st.integers(-5, 5))


@given(SMALL, SMALL, st.integers(-3, 3))
def test_linear_forms_are_combined_by_coefficient(a: dict[str, int], b: dict[str, int], scale: int) -> None:
    found = combine(a, b, scale)
    assert all(found.get(k, 0) == a.get(k, 0) + scale * b.get(k, 0) for k in ("", "i", "n"))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_a_product_bounds_the_quotient(times: int, factor: int, more: int) -> None:
    extent, divisor = Var("X") * factor + more, Int(times * factor)
    if (found := product_bound(extent, divisor)) is not None:
        bound, c = found
        for x in range(5):
            for ix in range(x * factor + more):
                assert c * (ix // divisor.value) < eval(PythonExpr().index(bound), {}, {"X": x})
