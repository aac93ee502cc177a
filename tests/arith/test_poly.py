"""Polynomials: sums, products, quotients and coefficients have the values that indices have."""

from hypothesis import given, strategies as st

from loopir.arith.poly import (
    Poly,
    atom_poly,
    coefficient,
    const_of,
    constant_poly,
    divide_monomial,
    exact_quotient,
    expand_index,
    monomial_product,
    poly_add,
    poly_mul,
    poly_scale,
    to_index,
)
from loopir.ir.grammar import Int, Var
from loopir.ir.layout.layouts import evaluate
from loopir.testing.generate.trees import indices

NAMES = ("i", "j", "n")
points = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-5, 9)))
numbers = st.integers(-4, 4) | st.sampled_from([1 << 40, -(1 << 63)])


def value(p: Poly, at: dict[str, int]) -> int:
    return evaluate(to_index(p), at)


@st.composite
def polys(draw: st.DrawFn) -> Poly:
    """Sums of products of variables and of a remainder, which is one atom."""
    out: Poly = {}
    for _ in range(draw(st.integers(0, 4))):
        term = constant_poly(draw(numbers))
        for a in draw(st.lists(st.sampled_from([Var("i"), Var("j"), Var("n"), Var("i") % 3]), max_size=3)):
            term = poly_mul(term, atom_poly(a))
        out = poly_add(out, term)
    return out


@given(polys(), polys(), numbers, points)
def test_sums_and_products(a: Poly, b: Poly, c: int, at: dict[str, int]) -> None:
    assert value(poly_add(a, b, c), at) == value(a, at) + c * value(b, at)
    assert value(poly_mul(a, b), at) == value(a, at) * value(b, at)
    assert value(poly_scale(a, c), at) == c * value(a, at)
    assert poly_add(a, a, -1) == {} == poly_scale(a, 0)
    assert 0 not in poly_mul(a, b).values()
    assert poly_mul(a, b) == poly_mul(b, a)


@given(polys(), polys())
def test_a_product_is_divided_by_either(a: Poly, b: Poly) -> None:
    if b:
        assert exact_quotient(poly_mul(a, b), b) == a
        q = exact_quotient(a, b)
        assert q is None or poly_mul(q, b) == a


@given(polys(), st.sampled_from([Var("i"), Var("n"), Var("i") % 3]))
def test_a_coefficient_and_the_rest(p: Poly, a) -> None:
    split = coefficient(p, a)
    if split is None:
        assert any(m.count(a) > 1 for m in p)
        return
    q, r = split
    assert poly_add(poly_mul(q, atom_poly(a)), r) == p
    assert not any(a in m for m in (*q, *r))


@given(indices(NAMES), points)
def test_an_index_and_its_polynomial(ix, at: dict[str, int]) -> None:
    assert value(expand_index(ix), at) == evaluate(ix, at)


def test_constants_and_monomials() -> None:
    i, j = Var("i"), Var("j")
    assert const_of({}) == 0
    assert const_of({(): 7}) == 7
    assert const_of({(i,): 7}) is None
    assert const_of({(): 1, (i,): 7}) is None
    assert to_index({}) == Int(0)
    assert monomial_product((i,), (j,)) == monomial_product((j,), (i,))
    assert divide_monomial((i, i, j), i) == (i, j)
