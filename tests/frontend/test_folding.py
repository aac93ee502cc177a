"""Arithmetic on sizes while a model is read agrees with NumPy's on numbers, and keeps symbols."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp

onnx = pytest.importorskip("onnx")
from loopir.frontend.onnx.folding import fold  # noqa: E402
from loopir.frontend.onnx.node import Node  # noqa: E402
from loopir.frontend.onnx.values import objects  # noqa: E402

NUMBERS = st.lists(st.integers(1, 50), min_size=1, max_size=4)
WORDS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum}


def node(op: str, *inputs: object, **attributes: object) -> Node:
    return Node(op, "n", 18, list(inputs), attributes, 1, None)  # type: ignore[arg-type]


@settings(deadline=None)
@given(op=st.sampled_from(sorted(WORDS)), a=NUMBERS, k=st.integers(1, 50), symbolic=st.booleans())
def test_arithmetic_is_numpys(op: str, a: list[int], k: int, symbolic: bool) -> None:
    wanted = WORDS[op](np.array(a), k)
    given_ = objects(list(a), (len(a),)) if symbolic else np.array(a, np.int64)
    made = fold(node(op, given_, np.array([k], np.int64)))
    assert made is not None
    assert made.dtype == np.int64
    assert np.array_equal(made, wanted)


@settings(deadline=None)
@given(a=st.integers(-99, 99), b=st.integers(-9, 9).filter(bool))
def test_division_is_towards_zero(a: int, b: int) -> None:
    made = fold(node("Div", np.array(a), np.array(b)))
    assert made is not None
    assert made.item() == int(a / b)


def test_sizes_stay_symbols_and_cancel() -> None:
    n = lp.symbol("n")
    twice = fold(node("Mul", objects([n, 3], (2,)), np.array([2])))
    assert twice is not None
    assert list(map(str, twice)) == ["n * 2", "6"]
    gone = fold(node("Sub", objects([n], (1,)), objects([n], (1,))))
    assert gone is not None
    assert gone.tolist() == [0]


def test_a_comparison_that_a_size_decides_is_asked_for() -> None:
    n = lp.symbol("n")
    known = fold(node("Equal", objects([n], (1,)), np.array([-1])))
    assert known is not None
    assert known.tolist() == [False]
    with pytest.raises(lp.ModelError, match="give the sizes n to from_onnx, as n=1"):
        fold(node("Equal", objects([n], (1,)), np.array([7])))
