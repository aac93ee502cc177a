"""explicit_init: a fold starts before its loops, also where these never run."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

from loopir.errors import VerifyError
from loopir.ir.grammar import Loop, Reduce
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.reduction_init import Elements, explicit_init, explicit_init_of, reduction_start_loop
from loopir.ir.traverse.walk import leaf_paths, statements
from loopir.ir.verify.verify import verify
from loopir.testing.generate.strategies import funcs, sizes


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_random_programs_mean_the_same(data: st.DataObject) -> None:
    func = data.draw(funcs())
    after = explicit_init(func)
    verify(after, "schedule")
    assert all(s.init is None for s in statements(after.body) if isinstance(s, Reduce))
    assert_same(func, after, data.draw(sizes(func, 4)))
    for place in leaf_paths(func.body):
        if isinstance(place.stmt, Reduce) and place.stmt.init is not None:
            assert_same(func, explicit_init_of(func, place.stmt.label), data.draw(sizes(func, 3)))


TRIANGLE = """
def f(n: "size", m: "size", a: "float32[n, n]", s: "out float32[n]"):
    for i in range(n):
        if i < m:
            for k in range(i):
                if k < m:
                    s[i] = sum(a[i, k], over=k, init=3.0)
        else:
            s[i] = 0.0
"""


def test_the_start_keeps_guards_that_speak_of_no_folded_loop() -> None:
    func = parse(TRIANGLE)
    after = explicit_init(func)
    for n in range(4):
        for m in range(4):
            assert_same(func, after, {"n": n, "m": m})
    place = next(p for p in leaf_paths(func.body) if isinstance(p.stmt, Reduce))
    start = reduction_start_loop(place)
    assert isinstance(start, Loop)
    assert start.var == "k"
    elements = Elements.of(place, func.body[0], {"i"}, "_new")
    assert list(elements.env) == ["i"]
    assert elements.names.isdisjoint({"i", "k"})
    assert len(elements.shells) == 3  # the loop i, what is left of both guards


def test_a_kept_loop_that_depends_on_a_folded_one_is_refused() -> None:
    func = parse("""
def f(n: "size", a: "float32[n, n]", s: "inout float32[n]"):
    for k in range(n):
        for i in range(k):
            s[i] += a[i, k]
""")
    (place,) = leaf_paths(func.body)
    assert isinstance(place.stmt, Reduce)
    place = replace(place, stmt=replace(place.stmt, over=("k",)))
    with pytest.raises(VerifyError, match="the extent of i depends on k"):
        Elements.of(place, func.body[0], set(), "_init")
