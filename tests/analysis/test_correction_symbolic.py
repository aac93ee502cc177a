"""Corrections that sympy finds: each is right at random numbers, and where there is none two elements tell it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dataflow.correction import NoCorrection, correction, number
from loopir.analysis.dataflow.correction_symbolic import propose
from loopir.ir.dtypes import float64, int64
from loopir.ir.grammar import Buffer, Cmp, Const, Int, Load, Op, Select, Value, Var
from loopir.ir.ops import MONOIDS, REGISTRY

R, C, D = (Load(Buffer(x, (Int(1),), float64), (Int(0),)) for x in ("R", "C", "D"))
"""A running value, and elements of the fold."""
MOVING = frozenset({"R"})
MASK = Cmp("<", Var("i"), Int(3))


def op(name: str, *args: Value) -> Value:
    return Op(REGISTRY[name], args)


def exp(x: Value) -> Value:
    return op("exp", x)


def k(x: float) -> Value:
    return Const(x, float64)


TERMS: dict[str, tuple[str, Value]] = {
    "a product of powers": ("sum", op("mul", exp(op("add", C, R)), exp(op("mul", R, k(0.3))))),
    "a power, masked": ("sum", Select(MASK, exp(op("sub", C, R)), k(0.0))),
    "a power of what is masked": ("sum", exp(op("sub", Select(MASK, C, D), R))),
    "a fused product": ("sum", exp(op("fma", R, k(-1.5), C))),
    "base 2": ("sum", op("exp2", op("sub", op("mul", k(1.5), op("sub", C, R)), R))),
    "a difference, masked": ("max", Select(MASK, op("sub", C, R), k(float("-inf")))),
    "a difference of a fused product": ("max", op("fma", R, k(0.7), C)),
    "a difference times a number": ("min", op("mul", op("sub", C, R), k(0.7))),
}
floats = st.floats(-2, 2).map(lambda x: round(x, 3))


@pytest.mark.parametrize("name", TERMS)
def test_what_is_proposed_is_right(name: str) -> None:
    fold, g = TERMS[name]
    found = propose(MONOIDS[fold]((float64,)), (g,), MOVING)
    (kind,), (make,) = found.kinds, found.make
    assert make is not None

    @settings(max_examples=6)
    @given(floats, floats, floats, floats)
    def at_any_numbers(c: float, d: float, before: float, after: float) -> None:
        def at(v: Value, r: float) -> float:
            return float(number(v, {R: r, C: c, D: d}.__getitem__))

        atoms = ([Const(at(a, r), float64) for a in found.atoms] for r in (before, after))
        by = float(number(make(*atoms, float64), lambda n: pytest.fail(f"{n} is not an atom")))
        old, new = at(g, before), at(g, after)
        assert (old * by if kind == "scale" else old + by) == pytest.approx(new, rel=1e-9, abs=1e-9)

    at_any_numbers()


def test_values_of_one_fold_have_each_their_own() -> None:
    """The index of an extreme stays, its value is shifted."""
    found = propose(MONOIDS["argmax"]((float64, int64)), (op("sub", C, R), Const(3, int64)), MOVING)
    assert found.kinds == ("shift", "same")
    assert found.make[1] is None


@pytest.mark.parametrize(
    ("fold", "term", "message"),
    [
        ("sum", op("add", C, R), "changes by no one amount as R"),
        ("sum", exp(op("mul", C, R)), "changes by no one amount as R"),
        ("max", op("abs", op("sub", C, R)), "changes by no one amount as R"),
        ("sum", Select(MASK, exp(op("sub", C, R)), k(1.0)), "exp"),  # what is masked stays as it is
        ("sum", Select(MASK, exp(op("sub", C, R)), op("mul", C, R)), "."),  # and these change otherwise
        ("max", exp(op("add", op("mul", R, k(float("-inf"))), C)), "."),  # nan at some numbers
        ("sum", op("mul", op("sub", R, R), C), "not known"),  # 0 however R goes on, were R always finite
    ],
)
def test_where_no_one_change_is_right_for_all_it_is_told(fold: str, term: Value, message: str) -> None:
    with pytest.raises(NoCorrection, match=message):
        propose(MONOIDS[fold]((float64,)), (term,), MOVING)


@settings(max_examples=6)
@given(st.data())
def test_what_is_found_for_random_terms_is_believed_for_its_numbers(data: st.DataObject) -> None:
    """Whatever the term: a correction that comes through is one; else it is refused."""

    def tree(depth: int) -> Value:
        if depth == 0:
            return data.draw(st.sampled_from([R, C, k(2.0), k(0.5)]))
        name = data.draw(st.sampled_from(["add", "sub", "mul", "exp", "neg"]))
        return op(name, *(tree(depth - 1) for _ in range(REGISTRY[name].arity)))

    fold, g = data.draw(st.sampled_from(["sum", "max"])), tree(data.draw(st.integers(1, 3)))
    try:
        found = correction(MONOIDS[fold]((float64,)), (g,), MOVING, (), propose)
    except NoCorrection:
        return
    if found is None or found.make[0] is None:
        return
    make: Any = found.make[0]
    for c, before, after in ((0.3, -0.2, 0.4), (-0.7, 0.1, -0.5), (0.9, 0.6, 0.8)):
        old, new = (float(number(g, {R: r, C: c}.__getitem__)) for r in (before, after))
        atoms = [[Const(float(number(a, {R: r}.__getitem__)), float64) for a in found.atoms] for r in (before, after)]
        by = float(number(make(*atoms, float64), lambda n: pytest.fail(f"{n} is not an atom")))
        wanted = old * by if found.kinds[0] == "scale" else old + by
        assert wanted == pytest.approx(new, rel=1e-6, abs=1e-9)
