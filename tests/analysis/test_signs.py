"""Signs: what is proved of a value holds of it at random points."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dataflow.correction import number
from loopir.arith.signs import is_defined, is_nonnegative, is_positive
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Buffer, Const, Int, Load, Op, Value
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.walk import nodes

FLOAT = DType("float32", "float", 32)
SIGNED, FREE = (Load(Buffer(name, (Int(1),), FLOAT), (Int(0),)) for name in ("M", "A"))
"""One that is known not to be below 0, and one of which nothing is known."""
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
UNARY = ("neg", "abs", "sqrt", "rsqrt", "exp", "exp2", "tanh", "sigmoid_16", "log")


def values() -> st.SearchStrategy[Value]:
    leaf = st.one_of(
        st.sampled_from([SIGNED, FREE]),
        st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 3.0]).map(lambda x: Const(x, FLOAT)),
    )

    def grown(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
        pairs = st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda x: Op(REGISTRY[x[0]], (x[1], x[2])))
        squares = inner.map(lambda x: Op(REGISTRY["mul"], (x, x)))
        singles = st.tuples(st.sampled_from(UNARY), inner).map(lambda x: Op(REGISTRY[x[0]], (x[1],)))
        return st.one_of(pairs, squares, singles)

    return st.recursive(leaf, grown, max_leaves=6)


def known(x: Load) -> bool:
    return x == SIGNED


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(values(), st.sampled_from([0.0, 0.25, 1.0, 2.5]), st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.5]))
def test_what_is_proved_holds(v: Value, m: float, a: float) -> None:
    def of(n: Any) -> float:
        return m if n == SIGNED else a

    found = float(number(v, of))
    if is_defined(v, known):
        assert np.isfinite(found) or any(isinstance(n, Op) and n.fn.name.startswith("exp") for n in nodes(v))
    if np.isnan(found):
        assert not is_defined(v, known)
        return
    if is_positive(v, known):
        assert found > 0 or any(isinstance(n, Op) and n.fn.name.startswith(("exp", "rsqrt", "div")) for n in nodes(v))
    if is_nonnegative(v, known):
        assert found >= 0 or np.isneginf(found)  # rsqrt of -0.0, which is not defined


def test_some_of_each_are_proved() -> None:
    one = Const(1.0, FLOAT)
    norm = Op(REGISTRY["rsqrt"], (Op(REGISTRY["add"], (Op(REGISTRY["mul"], (FREE, FREE)), one)),))
    assert is_positive(norm, known)
    assert is_defined(norm, known)
    clamped = Op(REGISTRY["maximum"], (FREE, one))
    assert is_positive(clamped, known)
    assert is_defined(Op(REGISTRY["div"], (FREE, clamped)), known)
    assert not is_defined(Op(REGISTRY["div"], (FREE, SIGNED)), known)
    assert not is_positive(SIGNED, known)
    assert is_nonnegative(SIGNED, known)
