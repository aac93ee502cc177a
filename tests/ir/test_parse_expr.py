"""Indices and conditions as text are read as Python reads them."""

import ast

import pytest
from hypothesis import given, settings, strategies as st

from loopir.errors import ParseError
from loopir.interp.python_expr import PythonExpr
from loopir.ir.grammar import Cond, Index
from loopir.ir.parser.parse import parse
from loopir.testing.oracles.isl_points import read

ATOMS = st.sampled_from(("i", "n")) | st.integers(0, 9).map(str)
INDICES = st.recursive(
    ATOMS,
    lambda x: st.one_of(
        st.tuples(x, st.sampled_from(("+", "-")), x).map(" ".join),
        st.tuples(x, st.integers(1, 5)).map(lambda t: f"({t[0]}) * {t[1]}"),
        st.tuples(x, st.sampled_from(("//", "%")), st.integers(1, 5)).map(lambda t: f"({t[0]}) {t[1]} {t[2]}"),
        st.tuples(st.sampled_from(("min", "max")), x, x).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        x.map(lambda t: f"-({t})"),
    ),
    max_leaves=6,
)
CONDS = st.recursive(
    st.tuples(INDICES, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), INDICES).map(" ".join),
    lambda x: st.one_of(
        st.tuples(x, st.sampled_from(("and", "or")), x).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        x.map(lambda t: f"not ({t})"),
    ),
    max_leaves=4,
)
POINTS = [{"i": i, "n": n} for i in range(-3, 4) for n in range(-3, 4)]


@settings(max_examples=120, deadline=None)
@given(INDICES)
def test_an_index_means_what_python_says(source: str) -> None:
    ix = read(source)
    assert isinstance(ix, Index)
    code = PythonExpr().index(ix)
    assert all(eval(code, {}, dict(p)) == eval(source, {}, dict(p)) for p in POINTS), source


@settings(max_examples=120, deadline=None)
@given(CONDS)
def test_a_condition_means_what_python_says(source: str) -> None:
    c = read(source)
    assert isinstance(c, Cond)
    code = PythonExpr().cond(c)
    assert all(eval(code, {}, dict(p)) == eval(source, {}, dict(p)) for p in POINTS), source


@pytest.mark.parametrize("source", ["i ** 2", "i << 1.5", "[i]", "lambda: i", "i if n else 2", "A.b"])
def test_what_is_no_index_is_refused(source: str) -> None:
    ast.parse(source)
    with pytest.raises(ParseError):
        parse(f'def f(n: "size", A: "out float32[n]"):\n    for i in range(n):\n        A[{source}] = 0.0\n')
