"""Measures of an expression are those of its text: nodes without sharing, and parentheses inside one another."""

from hypothesis import given, settings

from loopir.ir.dtypes import float32
from loopir.ir.grammar import Buffer, Int, Load, Op
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.measure import measured, nesting, written_size
from loopir.ir.traverse.rebuild import nodes
from loopir.testing.generate.trees import values

A = Buffer("A", (Int(9),), float32)
add, mul = REGISTRY["add"], REGISTRY["mul"]


@given(values(float32, ["i", "n"], [A]))
@settings(max_examples=50, deadline=None)
def test_the_size_counts_every_node_as_often_as_it_is_written(value) -> None:
    written = sum(not isinstance(n, Buffer) for n in nodes(value))
    assert abs(written_size(value) - written) <= sum(isinstance(n, Buffer) for n in nodes(value))
    assert measured(value) == (written_size(value), nesting(value))


def test_what_is_shared_doubles() -> None:
    x = Load(A, (Int(0),))
    one = written_size(x)
    value = x
    for _ in range(60):
        value = Op(mul, (value, value))
    assert written_size(value) == (one + 1) * (1 << 60) - 1
    assert nesting(value) - nesting(x) in (59, 60)


def test_a_sum_of_many_terms_is_not_nested() -> None:
    x = Load(A, (Int(0),))
    left = right = x
    for _ in range(500):
        left, right = Op(add, (left, x)), Op(add, (x, right))
    assert nesting(left) <= nesting(x) + 1
    assert nesting(right) >= 499
