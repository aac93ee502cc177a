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
    Prefetch,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
)
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.free_vars import expr_facts, guarded_loads
from loopir.ir.traverse.labels import has_cache_hint
from loopir.ir.traverse.walk import (
    accessed_buffers,
    declared_names,
    free_vars,
    is_affine_visible,
    loaded_buffers,
    nests,
    nests_declaring,
    nests_touching,
    nodes,
    path_to,
    path_within,
    statements,
    top_level_nests_in,
    transform,
)
from loopir.ir.verify.verify import verify
from loopir.testing.generate.strategies import funcs


def expressions(func: Func) -> list[Index | Cond | Value]:
    return [n for s in statements(func.body) for n in nodes(s) if isinstance(n, Index | Cond | Value)]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_one_look_finds_what_a_walk_finds(data: st.DataObject) -> None:
    for n in expressions(data.draw(funcs())):
        assert free_vars(n) == {x.name for x in nodes(n) if isinstance(x, Var)}
        if isinstance(n, Index | Cond):
            assert is_affine_visible(n) == (not any(isinstance(x, ValueToIndex | ValueToCond) for x in nodes(n)))
            assert not is_affine_visible(n) or not any(isinstance(x, Load) for x in nodes(n))
        assert loaded_buffers(n) == {x.buffer.name for x in nodes(n) if isinstance(x, Load)}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_verifier_keeps_what_a_walk_finds(data: st.DataObject) -> None:
    func = parse(text(data.draw(funcs())))
    verify(func)
    for n in expressions(func):
        assert guarded_loads(n) == guarded_loads.__wrapped__(n)  # type: ignore[attr-defined]
    for nest in nests(func.body):
        assert has_cache_hint(nest) == any(isinstance(x, Prefetch) for x in statements((nest,)))
    for s in statements(func.body):
        assert path_to(func, s) == path_within(func.body, s)
        names = declared_names(s) | accessed_buffers(s)
        for which, of in ((nests_declaring(*names), declared_names), (nests_touching(*names), accessed_buffers)):
            assert [x.nest for x in top_level_nests_in(func, which)] == [x for x in nests(func.body) if names & of(x)]


def test_what_is_legal() -> None:
    i = Var("i")
    assert expr_facts(i * 2 + 1) == ({"i"}, True, True)
    assert expr_facts(And((i < 4,)))[2] is False
    assert expr_facts(FloorDiv(i, Int(0)))[2] is False
    assert expr_facts(Mod(Mul(i, i), Var("n"))) == ({"i", "n"}, True, True)


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
