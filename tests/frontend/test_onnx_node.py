"""What a row of the table asks of its node."""

import numpy as np
import pytest

import loopir as lp

onnx = pytest.importorskip("onnx")
import loopir.frontend.onnx  # noqa: E402
from loopir.frontend.onnx.node import OPERATORS, Node  # noqa: E402


def node(*inputs: object, version: int = 18, **attributes: object) -> Node:
    return Node("Op", "n", version, list(inputs), attributes, 1, None)  # type: ignore[arg-type]


def test_an_attribute_becomes_an_input_by_version() -> None:
    assert node(axes=[1], version=11).ints_of(1, "axes", 13) == [1]
    assert node(None, version=13).ints_of(1, "axes", 13) is None


def test_an_input_that_is_left_out_is_named() -> None:
    with pytest.raises(lp.ModelError, match="Op 'n' lacks its input 1"):
        node(np.zeros(1)).value(1)


def test_an_axis_outside_is_named() -> None:
    assert node(axis=-1).axis(3) == 2
    with pytest.raises(lp.ModelError, match="along axis 3 of 3 dimensions"):
        node(axis=3).axis(3)


def test_every_row_is_an_operator_of_onnx() -> None:
    known = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    assert set(OPERATORS) <= known
