"""Layouts: offsets are the strides' sum, elements have places of their own, and the span holds all of them."""

from itertools import product

import numpy as np
from hypothesis import assume, given, settings, strategies as st

from loopir.interp.python_expr import PythonExpr
from loopir.ir.dtypes import float32
from loopir.ir.grammar import Buffer, FloorDiv, Index, Int, Mapped, Mod, Strided, ValueToIndex, Var
from loopir.ir.layout.layouts import element_span, evaluate, is_injective, offset, strides_of
from loopir.ir.traverse.walk import nodes
from loopir.testing.generate.trees import indices

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def places(b: Buffer) -> list[int]:
    """The offset of every element of a buffer of constant shape."""
    every = product(*(range(d.value) for d in b.shape if isinstance(d, Int)))
    return [evaluate(offset(b, tuple(map(Int, at))), {}) for at in every]


@settings(max_examples=60)
@given(SHAPES)
def test_row_major_counts_the_elements(shape: list[int]) -> None:
    b = Buffer("A", tuple(map(Int, shape)), float32)
    assert places(b) == [*range(len(places(b)))]
    assert evaluate(element_span(b), {}) == len(places(b))
    strides = np.empty(shape, np.int8).strides
    assert [evaluate(s, {}) for s in strides_of(b)] == [*strides]


@settings(max_examples=100)
@given(SHAPES, st.data())
def test_what_is_said_to_be_injective_is_and_lies_in_its_span(shape: list[int], data: st.DataObject) -> None:
    strides = data.draw(st.lists(st.integers(1, 12), min_size=len(shape), max_size=len(shape)))
    b = Buffer("A", tuple(map(Int, shape)), float32, "global", Strided(tuple(map(Int, strides))))
    found = places(b)
    assert max(found) < evaluate(element_span(b), {})
    if is_injective(b):
        assert len({*found}) == len(found)


@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))
def test_a_mapped_layout_puts_elements_where_it_says(rows: int, columns: int, pad: int) -> None:
    at = Var("j") * (rows + pad) + Var("i")
    b = Buffer("A", (Int(rows), Int(columns)), float32, "shared", Mapped(("i", "j"), at))
    assert places(b) == [j * (rows + pad) + i for i in range(rows) for j in range(columns)]
    assert is_injective(b)
    assert max(places(b)) < evaluate(element_span(b), {})


@settings(max_examples=80, deadline=None)
@given(indices(("i", "n")), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_an_index_of_arrays_is_evaluated_element_by_element(ix: Index, values: list[int]) -> None:
    parts = [*nodes(ix)]
    assume(not any(isinstance(x, ValueToIndex) for x in parts))
    assume(all(isinstance(x.b, Int) and x.b.value > 0 for x in parts if isinstance(x, FloorDiv | Mod)))
    code = PythonExpr().index(ix)
    assume(all(abs(x.value) < 1 << 20 for x in parts if isinstance(x, Int)))
    wanted = [eval(code, {}, {"i": i, "n": 3}) for i in values]
    assert np.broadcast_to(evaluate(ix, {"i": np.array(values), "n": 3}), len(values)).tolist() == wanted
    assert [evaluate(ix, {"i": i, "n": 3}) for i in values] == wanted
