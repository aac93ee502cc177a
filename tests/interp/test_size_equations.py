"""size_equation: linear dimensions become equations with their value at all sizes; others give none."""

from hypothesis import given, strategies as st

from loopir.interp.size_equations import _linear_terms, size_equation
from loopir.ir.grammar import Int, Var
from loopir.ir.layout.layouts import evaluate
from loopir.testing.generate.trees import indices

n, m = Var("n"), Var("m")


@given(indices(["n", "m"]), st.integers(0, 9), st.integers(0, 9))
def test_terms_have_the_value_of_the_dimension(ix, one: int, other: int) -> None:
    terms, at = _linear_terms(ix), {"n": one, "m": other, "": 1}
    if terms is not None:
        assert evaluate(ix, at) == sum(count * at[name] for name, count in terms.items())


def test_what_is_linear_and_what_is_not() -> None:
    for ix, terms in (
        (n * 3 + m - 2, {"n": 3, "m": 1, "": -2}),
        (Int(2) * (n + 1), {"n": 2, "": 2}),
        (Int(5), {"": 5}),
    ):
        assert _linear_terms(ix) == terms
    assert [size_equation(ix) for ix in (n * m, n * n, n // 2, n % 3)] == [None] * 4
    assert size_equation(n - n + 4) is not None  # which gives no size
