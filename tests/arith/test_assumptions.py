"""Assumptions: which sizes are known to be divisible, and which loops end at a number."""

from hypothesis import given, strategies as st

from loopir.arith.assumptions import Assumptions
from loopir.arith.poly import constant_poly
from loopir.ir.grammar import Var


@given(st.integers(1, 64), st.integers(1, 64))
def test_a_multiple_is_divided_by_its_divisors_alone(multiple: int, n: int) -> None:
    known = Assumptions(multiples={"n": multiple})
    assert known.divides(n, Var("n")) == (multiple % n == 0)
    assert known.divides(n, Var("m")) == (n == 1)
    assert not known.divides(n, Var("n") + 1)


def test_a_top_is_constant_where_nothing_stands_in_it() -> None:
    known = Assumptions(tops=((Var("j"), {(Var("i"),): 1}), (Var("i"), constant_poly(7))))
    assert known.constant_top(Var("i"))
    assert not known.constant_top(Var("j"))
