"""Corrections of folds: what is claimed of terms holds at random numbers, and what has none is refused by two."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dataflow.correction import (
    NoCorrection,
    by_form,
    correction,
    differing,
    number,
    reads,
    reads_only,
    require_homomorphism,
)
from loopir.ir.dtypes import float32, float64, int32
from loopir.ir.grammar import (
    Buffer,
    Cast,
    Cmp,
    Const,
    IndexToValue,
    Int,
    Load,
    Monoid,
    Op,
    Select,
    Value,
    ValueToCond,
    Var,
)
from loopir.ir.ops import MONOIDS, REGISTRY

R, Q, C, D = (Load(Buffer(x, (Int(1),), float64), (Int(0),)) for x in ("R", "Q", "C", "D"))
"""Running values, of which the second is never below 0, and elements of the fold."""
MOVING = frozenset({"R", "Q"})


def op(name: str, *args: Value) -> Value:
    return Op(REGISTRY[name], args)


def exp(x: Value) -> Value:
    return op("exp", x)


def monoid(name: str) -> Monoid:
    return MONOIDS[name]((float64,))


def nothing(*_: Any) -> Any:
    raise NoCorrection("nothing is proposed")


two = Const(2.0, float64)
one = Const(1.0, float64)
positive = op("add", one, Q)
FORMS: dict[str, tuple[str, Value]] = {
    "a power less what runs": ("sum", exp(op("sub", C, R))),
    "a power, times": ("sum", op("mul", exp(op("sub", C, R)), D)),
    "base 2": ("sum", op("exp2", op("sub", op("mul", C, two), op("mul", R, two)))),
    "a power over a sum": ("sum", op("div", exp(op("sub", C, R)), positive)),
    "a factor": ("sum", op("mul", C, op("exp", R))),
    "a divisor": ("sum", op("div", C, positive)),
    "of two that run": ("sum", op("mul", exp(op("sub", C, R)), exp(op("neg", R)))),
    "rounded": ("sum", Cast(Cast(exp(op("sub", C, R)), float32), float64)),
    "a difference": ("max", op("sub", C, R)),
    "a sum": ("min", op("add", R, op("mul", C, C))),
    "what adds to two": ("max", op("sub", op("add", C, R), op("neg", R))),
}
floats = st.floats(-3, 3).map(lambda x: round(x, 3))


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=8)
@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=4), st.tuples(floats, floats), st.data())
def test_a_corrected_fold_is_the_fold_of_corrected_terms(
    name: str, terms: list[tuple[float, float]], run: tuple[float, float], data: st.DataObject
) -> None:
    """h(fold of g(c, r)) is the fold of g(c, r'), for any numbers."""
    fold, g = FORMS[name]
    after = data.draw(st.tuples(floats, floats))
    found = correction(monoid(fold), (g,), MOVING, {"Q"}, nothing)
    assert found is not None
    (kind,), (make,) = found.kinds, found.make
    assert kind == ("scale" if fold == "sum" else "shift")
    assert make is not None

    def at(v: Value, c: tuple[float, float], r: tuple[float, float]) -> float:
        values = {R: r[0], Q: abs(r[1]), C: c[0], D: c[1]}
        return float(number(v, values.__getitem__))

    before, now = ([Const(at(a, (0, 0), r), float64) for a in found.atoms] for r in (run, after))
    by = float(number(make(before, now, float64), lambda n: pytest.fail(f"{n} is not an atom")))
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[fold]
    old, new = (reduce(combine, [at(g, c, r) for c in terms]) for r in (run, after))
    wanted = old * by if kind == "scale" else old + by
    scale = max(abs(at(g, c, r)) for c in terms for r in (run, after)) * max(1.0, abs(by))
    assert abs(new - wanted) <= 1e-9 * max(1.0, scale)


@pytest.mark.parametrize(
    ("fold", "term", "message"),
    [
        ("sum", op("sub", C, R), "nothing is proposed"),
        ("sum", exp(op("mul", C, R)), "nothing is proposed"),
        ("sum", op("div", C, R), "is not proved to be positive at every step"),  # R may be 0 on the way
        ("sum", op("mul", C, R), "is not proved to be positive at every step"),
        ("max", op("add", C, op("log", R)), "is not proved to be defined at every step"),
        ("prod", op("mul", C, R), "nothing is proposed"),
    ],
)
def test_what_has_no_correction_is_refused(fold: str, term: Value, message: str) -> None:
    with pytest.raises(NoCorrection, match=message):
        correction(monoid(fold), (term,), MOVING, {"Q"}, nothing)


def test_a_term_that_reads_nothing_that_runs_needs_none() -> None:
    assert correction(monoid("sum"), (op("mul", C, D),), MOVING, {"Q"}, nothing) is None


def test_integers_have_no_scale() -> None:
    r, c = (Load(Buffer(x, (Int(1),), int32), (Int(0),)) for x in ("R", "C"))
    with pytest.raises(NoCorrection, match="changes by a scale, and there is none of integers"):
        correction(MONOIDS["sum"]((int32,)), (op("mul", c, r),), MOVING, (), nothing)


def test_a_proposal_that_is_wrong_is_found_out() -> None:
    right = by_form(monoid("max"), (op("sub", C, R),), MOVING)
    assert right is not None
    with pytest.raises(NoCorrection, match="changes otherwise than its form tells"):
        correction(monoid("max"), (op("sub", C, op("mul", C, R)),), MOVING, (), lambda *_: right)


@pytest.mark.parametrize(
    ("fold", "kind", "kept"),
    [("sum", "scale", True), ("sum", "shift", False), ("max", "shift", True), ("max", "scale", True),
     ("min", "scale", True), ("prod", "scale", False), ("prod", "shift", False)],
)  # fmt: skip
def test_a_fold_keeps_what_goes_through_it(fold: str, kind: Any, kept: bool) -> None:
    """A sum keeps a scale of its terms; an extreme a shift, and a scale that is positive."""
    if kept:
        require_homomorphism(monoid(fold), (kind,))
    else:
        with pytest.raises(NoCorrection, match=f"a fold by {fold} does not keep a {kind} of its terms"):
            require_homomorphism(monoid(fold), (kind,))


def test_two_elements_are_told_that_would_change_differently() -> None:
    told = differing(op("abs", op("sub", C, R)), "shift", MOVING)
    assert "changes by no one amount as R[0] goes from " in told
    first, second = told.partition(": ")[2].split(", and ")
    assert first != second
    assert "plus" in first
    assert "C[0]" in first
    assert differing(op("sub", C, R), "shift", MOVING).startswith("how ")  # there are no two


@settings(max_examples=20)
@given(floats, floats)
def test_the_value_of_a_tree_is_numpys(x: float, y: float) -> None:
    tree = Select(ValueToCond(op("lt", C, R)), op("mul", C, two), op("sub", R, C))
    assert number(tree, {C: x, R: y}.__getitem__) == (x * 2 if x < y else y - x)
    masked = Select(Cmp("<", Var("i"), Int(3)), C, Const(-np.inf, float64))
    assert number(masked, {C: x}.__getitem__) == -np.inf, "of a test of places, the side that is less of a number"


def test_what_is_read() -> None:
    assert reads(op("add", C, R), MOVING)
    assert not reads(op("add", C, D), MOVING)
    assert reads_only(op("add", one, R), MOVING)
    assert not reads_only(op("add", C, R), MOVING)
    assert not reads_only(one, MOVING)
    assert not reads_only(IndexToValue(Var("i"), float64), MOVING)
