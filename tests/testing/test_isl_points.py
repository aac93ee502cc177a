"""The oracle of integer sets says of an index, at every point of a box, what Python says."""

from itertools import product

import islpy as isl
import pytest
from hypothesis import assume, given, settings, strategies as st

from loopir.interp.python_expr import PythonExpr
from loopir.ir.grammar import Cond, Index, Int, ValueToCond, ValueToIndex
from loopir.ir.traverse.walk import nodes
from loopir.testing.generate.trees import conditions, indices
from loopir.testing.oracles.isl_points import NotAffine, Points, read

NAMES = ("i", "n")
BOX = range(-3, 4)


def at(p: Points, node: Index | Cond, env: dict[str, int]) -> bool:
    """Whether the oracle has at `env` the value that Python computes there."""
    code = PythonExpr().index(node) if isinstance(node, Index) else PythonExpr().cond(node)
    wanted = eval(code, {}, dict(env))
    here = p.everywhere
    for n, name in enumerate(p.names):
        here = here.fix_val(isl.dim_type.set, n, isl.Val(str(env[name])))
    holds = p.index(node).eq_set(p.index(Int(wanted))) if isinstance(node, Index) else p.cond(node)
    return (not here.intersect(holds).is_empty()) == (wanted if isinstance(node, Cond) else True)


@settings(max_examples=40, deadline=None)
@given(st.one_of(indices(NAMES, depth=2), conditions(NAMES, depth=2)))
def test_it_agrees_with_python(node: Index | Cond) -> None:
    assume(not any(isinstance(x, ValueToIndex | ValueToCond) for x in nodes(node)))
    p = Points(NAMES)
    for i, n in product(BOX, BOX):
        try:
            assert at(p, node, {"i": i, "n": n}), (node, i, n)
        except (NotAffine, ZeroDivisionError):
            return


def test_a_point_of_a_difference_is_one_where_they_differ() -> None:
    p = Points(("i",))
    a, b = read("i // 2"), read("(i + 1) // 2")
    point = p.one(p.differ(a, b))
    assert point is not None
    assert point["i"] % 2 == 1
    assert p.one(p.differ(read("2 * i"), read("i + i"))) is None


@pytest.mark.parametrize("source", ["i * n", "i // n", "i % n"])
def test_what_is_not_affine_is_said(source: str) -> None:
    with pytest.raises(NotAffine):
        Points(NAMES).index(read(source))
