"""Derive equations for the sizes of a Func from the shapes of its arguments."""

from __future__ import annotations

from loopir.ir.grammar import Add, Index, Int, Mul, Var
from loopir.ir.printer import text
from loopir.shapes import Linear


def size_equation(dimension: Index) -> Linear | None:
    """The equation for the sizes that an argument's `dimension` gives; None if it is not linear in them."""
    terms = _linear_terms(dimension)
    if terms is None:
        return None
    constant = terms.pop("", 0)
    return Linear({name: count for name, count in terms.items() if count}, constant, text(dimension))


def _linear_terms(ix: Index) -> dict[str, int] | None:
    """By size, how often it is added; by "", the constant."""
    match ix:
        case Int(value):
            return {"": value}
        case Var(name):
            return {name: 1}
        case Add(a, b):
            left, right = _linear_terms(a), _linear_terms(b)
            if left is None or right is None:
                return None
            return {k: left.get(k, 0) + right.get(k, 0) for k in {**left, **right}}
        case Mul(a, b):
            left, right = _linear_terms(a), _linear_terms(b)
            if left is None or right is None or (left.keys() != {""} and right.keys() != {""}):
                return None
            one, many = (left, right) if left.keys() == {""} else (right, left)
            return {k: one[""] * count for k, count in many.items()}
        case _:
            return None
