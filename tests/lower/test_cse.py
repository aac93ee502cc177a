"""cse computes what a statement repeats once, and nothing that was not asked for."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

from loopir.ir.grammar import Op, Reduce, Store
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import nodes, statements
from loopir.lower.gpu.cse import cse
from loopir.lower.target import target
from loopir.testing.generate.strategies import funcs, sizes


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_random_programs_mean_the_same(data: st.DataObject) -> None:
    func = data.draw(funcs())
    made = cse(func, target("cuda"))
    assert_same(func, made, data.draw(sizes(func, 4)))
    assert cse(made, target("cuda")) == made


def count(value: str, op: str) -> list[int]:
    """How often `op` is in each of the statements that are made of one that stores `value`."""
    func = parse(f"""
def f(n: "size", a: "float32[n + 1]", c: "out float32[n]"):
    for i in range(n):
        c[i] = {value}
""")
    made = cse(func, target("cuda"))
    for n in (0, 3):
        assert_same(func, made, {"n": n})
    stores = [s for s in statements(made.body) if isinstance(s, Store | Reduce)]
    return [sum(isinstance(x, Op) and x.fn.name == op for x in nodes(s)) for s in stores]


@pytest.mark.parametrize(("value", "found"), [
    ("exp(a[i]) + exp(a[i])", [1, 0]),
    ("exp(a[i]) + exp(a[i + 1])", [2]),
    ("select(i < 2, exp(a[i]), 0.0) + select(i < 3, exp(a[i]), 1.0)", [2]),  # each is only computed where it is asked
    ("exp(a[i]) * select(i < 2, exp(a[i]), 0.0)", [2]),  # only one of them is always computed
    ("exp(exp(a[i])) + exp(exp(a[i]))", [1, 1, 0]),
])  # fmt: skip
def test_what_is_certainly_computed_twice_is_computed_once(value: str, found: list[int]) -> None:
    got = count(value, "exp")
    assert sum(got) == sum(found), got
