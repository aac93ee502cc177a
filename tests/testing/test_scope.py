"""Indices that a Scope offers are in bounds at every size and every iteration: tried by brute force."""

from collections.abc import Iterator, Mapping

from hypothesis import given, settings, strategies as st

from loopir.interp.python_expr import PythonExpr
from loopir.ir.dtypes import int32
from loopir.ir.grammar import Buffer, Index, Int, Var
from loopir.testing.generate.scope import Around, Scope, bounds, fits, forms, linear, nonnegative, offered

SIZES = range(5)


def value(ix: Index, env: Mapping[str, int]) -> int:
    return eval(PythonExpr().index(ix), {}, dict(env))


def iterations(scope: Scope, env: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """What the loops of `scope` count, outer ones first."""
    points = [dict(env)]
    for loop in scope.loops:
        points = [p | {loop.var: n} for p in points for n in range(value(loop.extent, p))]
    yield from points


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    scope = Scope(least=(("n", draw(st.integers(0, 2))),))
    for var in "ij"[: draw(st.integers(1, 2))]:
        outer = [Var(x.var) + 1 for x in scope.loops]
        extent = draw(st.sampled_from((Int(1), Int(3), Var("n"), Var("n") + 1, Var("n") * 2, *outer)))
        scope = scope.inside(Around(var, extent))
    return scope


DIMS = st.sampled_from((Int(1), Int(4), Var("n"), Var("n") + 2, Var("n") * 2 + 1))


def points(scope: Scope) -> list[dict[str, int]]:
    least = dict(scope.least)["n"]
    return [p for n in SIZES if n >= least for p in iterations(scope, {"n": n})]


@settings(max_examples=60, deadline=None)
@given(scopes(), DIMS)
def test_what_is_offered_is_an_element(scope: Scope, dim: Index) -> None:
    for p in points(scope):
        for ix in offered(scope, dim):
            assert 0 <= value(ix, p) < value(dim, p), (ix, p)


@settings(max_examples=60, deadline=None)
@given(scopes(), DIMS)
def test_what_fits_is_an_element_and_what_is_nonnegative_is_so(scope: Scope, dim: Index) -> None:
    for ix in forms(scope):
        if nonnegative(linear(ix), scope):
            assert all(value(ix, p) >= 0 for p in points(scope)), ix
        if fits(ix, dim, scope):
            assert all(0 <= value(ix, p) < value(dim, p) for p in points(scope)), ix


@settings(max_examples=60, deadline=None)
@given(scopes(), DIMS)
def test_the_bounds_test_exactly_the_elements(scope: Scope, dim: Index) -> None:
    for ix in forms(scope):
        test = PythonExpr().cond(bounds((ix,), Buffer("A", (dim,), int32), scope))
        for p in points(scope):
            assert eval(test, {}, dict(p)) == (0 <= value(ix, p) < value(dim, p)), (ix, p)
