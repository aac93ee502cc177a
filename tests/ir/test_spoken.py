"""What an expression speaks of, as one look finds it, is what a walk of all its nodes finds."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.errors import VerifyError
from loopir.ir.grammar import (
    And,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    Index,
    Int,
    Load,
    Mod,
    Mul,
    Opaque,
    Prefetch,
    Truth,
    Value,
    Var,
)
from loopir.ir.labels import hinted
from loopir.ir.parse import parse
from loopir.ir.spoken import loads_of, spoken
from loopir.ir.text import text
from loopir.ir.verify import verify
from loopir.ir.walk import (
    accessed,
    chain,
    declared,
    declaring,
    loaded,
    nests,
    nodes,
    sees,
    statements,
    tops_in,
    touching,
    transform,
    variables,
    way_to,
)
from loopir.testing.strategies import funcs


def expressions(func: Func) -> list[Index | Cond | Value]:
    return [n for s in statements(func.body) for n in nodes(s) if isinstance(n, Index | Cond | Value)]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_one_look_finds_what_a_walk_finds(data: st.DataObject) -> None:
    for n in expressions(data.draw(funcs())):
        assert variables(n) == {x.name for x in nodes(n) if isinstance(x, Var)}
        if isinstance(n, Index | Cond):
            assert sees(n) == (not any(isinstance(x, Opaque | Truth) for x in nodes(n)))
            assert not sees(n) or not any(isinstance(x, Load) for x in nodes(n))
        assert loaded(n) == {x.buffer.name for x in nodes(n) if isinstance(x, Load)}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_verifier_keeps_what_a_walk_finds(data: st.DataObject) -> None:
    func = parse(text(data.draw(funcs())))
    verify(func)
    for n in expressions(func):
        assert loads_of(n) == loads_of.__wrapped__(n)  # type: ignore[attr-defined]
    for nest in nests(func.body):
        assert hinted(nest) == any(isinstance(x, Prefetch) for x in statements((nest,)))
    for s in statements(func.body):
        assert way_to(func, s) == chain(func.body, s)
        names = declared(s) | accessed(s)
        for which, of in ((declaring(*names), declared), (touching(*names), accessed)):
            assert [x.nest for x in tops_in(func, which)] == [x for x in nests(func.body) if names & of(x)]


def test_what_is_legal() -> None:
    i = Var("i")
    assert spoken(i * 2 + 1) == ({"i"}, True, True)
    assert spoken(And((i < 4,)))[2] is False
    assert spoken(FloorDiv(i, Int(0)))[2] is False
    assert spoken(Mod(Mul(i, i), Var("n"))) == ({"i", "n"}, True, True)


def test_the_verifier_still_says_what_is_wrong() -> None:
    f = parse('def f(n: "size", A: "inout float32[n]"):\n    for i in range(n):\n        A[i + 1 - 1] = 0.0\n')

    def changed(change: Index) -> Func:
        return transform(f, lambda n: change if n == Var("i") else n)

    verify(changed(Var("i") * 2))
    with pytest.raises(VerifyError, match="'k' is no loop around this, and no size"):
        verify(changed(Var("k") * 2))
    with pytest.raises(VerifyError, match="divided by 0"):
        verify(changed(FloorDiv(Var("i"), Int(0))))


def test_conditions_are_looked_at_as_a_whole() -> None:
    lines = ["for i in range(9):", "    if i < n:", "        A[i] = 0.0"]
    f = parse("\n    ".join(['def f(n: "size", A: "inout float32[9]"):', *lines]) + "\n")
    wrong = transform(f, lambda n: Cmp("<", Var("i"), Var("m")) if isinstance(n, Cmp) else n)
    with pytest.raises(VerifyError, match="'m' is no loop around this"):
        verify(wrong)
