"""Indices as Python: what is generated computes what the index means, at any nesting of functions."""

from hypothesis import assume, given, settings, strategies as st

from loopir.arith.simplify import simplify
from loopir.interp.python_expr import PythonExpr, PythonLines
from loopir.ir.grammar import Cond, FloorDiv, Index, Int, Mod, Not, ValueToCond, ValueToIndex
from loopir.ir.traverse.walk import nodes, substitute
from loopir.testing.generate.trees import conditions, indices

NAMES = ("i", "n")


def plain(node: Index | Cond) -> bool:
    return not any(
        isinstance(x, ValueToIndex | ValueToCond)
        or (isinstance(x, FloorDiv | Mod) and not (isinstance(x.b, Int) and x.b.value > 0))
        for x in nodes(node)
    )


@settings(max_examples=80, deadline=None)
@given(indices(NAMES), st.integers(0, 5), st.integers(0, 5))
def test_an_index_is_computed_as_the_simplifier_folds_it(ix: Index, i: int, n: int) -> None:
    assume(plain(ix))
    found = eval(PythonExpr().index(ix), {}, {"i": i, "n": n})
    assert simplify(substitute(ix, {"i": Int(i), "n": Int(n)})) == Int(found)


@settings(max_examples=60, deadline=None)
@given(conditions(NAMES), st.integers(-2, 5), st.integers(-2, 5))
def test_a_condition_or_its_negation_holds(c: Cond, i: int, n: int) -> None:
    assume(plain(c))
    holds, fails = (eval(PythonExpr().cond(x), {}, {"i": i, "n": n}) for x in (c, Not(c)))
    assert holds != fails


def test_a_part_is_a_function_of_what_is_bound_around_it() -> None:
    lines = PythonLines()
    lines.emit(0, "def f(a):")
    with lines.inside("a"):
        lines.emit(1, "b = a + 1")
        with lines.inside("b"):
            lines.emit(1, f"return {lines.called(lambda: lines.emit(1, 'return a * b'))}")
    scope: dict[str, object] = {}
    exec(lines.joined(), scope)
    assert scope["f"](3) == 12
