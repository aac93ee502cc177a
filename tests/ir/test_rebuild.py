"""Nodes under a node: all are met, and a tree in which nothing changes is the same object."""

from hypothesis import given, settings

from loopir.ir.dtypes import float32
from loopir.ir.grammar import Add, Buffer, Func, Int, Load, Mul, Node, Op, Store, Var
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.rebuild import children, distinct_nodes, nodes, on_loads, rebuild, replace, transform
from loopir.ir.traverse.walk import statements
from loopir.testing.generate.trees import anything, values

A = Buffer("A", (Int(9),), float32)


@given(anything(lowered=True))
@settings(max_examples=20, deadline=None)
def test_every_node_of_a_program(func: Func) -> None:
    every = list(nodes(func))
    assert every[0] is func
    assert {id(n) for n in distinct_nodes(func)} == {id(n) for n in every}
    assert len(list(distinct_nodes(func))) == len({id(n) for n in every})
    below = [c for n in every if not isinstance(n, Buffer) for c in children(n)]
    assert {id(n) for n in every} == {id(func), *(id(c) for c in below)}
    for n in every:
        assert rebuild(n, lambda child: child) is n
    assert transform(func, lambda n: n) is func


@given(anything(lowered=True))
@settings(max_examples=20, deadline=None)
def test_a_copy_of_each_child_is_an_equal_node(func: Func) -> None:
    for s in statements(func.body):
        seen: list[Node] = []

        def copied(child: Node, seen: list[Node] = seen) -> Node:
            seen.append(child)
            return replace(child) if isinstance(child, Var) else child

        new = rebuild(s, copied)
        assert new == s
        assert [*map(id, seen)] == [*map(id, children(s))]


@given(values(float32, ["i"], [A]))
@settings(max_examples=30, deadline=None)
def test_operations_are_put_on_other_operands(value) -> None:
    assert on_loads(value, lambda n: n) is value
    met: list[Node] = []
    on_loads(value, lambda n: met.append(n) or n)
    assert not any(isinstance(n, Op) for n in met)


def test_what_is_shared_is_met_once_and_rebuilt_where_it_changed() -> None:
    x = Var("x")
    twice = Add(Mul(x, Int(2)), Mul(x, Int(2)))
    assert [n for n in nodes(twice) if n == x] == [x, x]
    shared = Mul(x, Int(2))
    assert len(list(distinct_nodes(Add(shared, shared)))) == 4  # the sum, the product, x and 2
    assert len(list(distinct_nodes(Add(shared, shared), but=lambda n: isinstance(n, Mul)))) == 1
    load, other = Load(A, (x,)), Load(A, (Int(0),))
    value = Op(REGISTRY["add"], (load, Op(REGISTRY["neg"], (load,))))
    new = on_loads(value, lambda n: other)
    assert new == Op(REGISTRY["add"], (other, Op(REGISTRY["neg"], (other,))))
    assert transform(Store("s", A, (x,), value), lambda n: Int(3) if n == x else n).at == (Int(3),)
