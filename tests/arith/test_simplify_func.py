"""simplify_func keeps what a program computes at every size, and finds nothing more to do in what it made."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

from loopir.arith.simplify_func import known_at, simplify_func
from loopir.ir.grammar import Int, Loop, Var
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths, loops
from loopir.ir.verify.verify import verify
from loopir.testing.generate.strategies import funcs, sizes


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_random_programs_mean_the_same(data: st.DataObject) -> None:
    func = data.draw(funcs())
    drop = data.draw(st.booleans())
    after = simplify_func(func, drop_unit_loops=drop)
    verify(after, "schedule")
    assert_same(func, after, data.draw(sizes(func, 4)))
    assert simplify_func(after, drop_unit_loops=drop) == after


def test_guards_that_are_decided_are_gone() -> None:
    func = parse("""
def f(n: "size", a: "inout float32[n + 9]"):
    for i in range(n):
        if i < n:
            a[(i + 1) * 4 // 4] = a[i]
        if n + 1 <= i:
            a[i] = 1.0
""")
    want = 'def f(n: "size", a: "inout float32[n + 9]"):\n    for i in range(n):\n        a[i + 1] = a[i]\n'
    assert simplify_func(func) == parse(want)


@pytest.mark.parametrize("count", ["0", "n"])
def test_a_reduction_starts_though_its_loop_may_not_run(count: str) -> None:
    """What holds inside the loop that is folded does not hold where the fold starts."""
    func = parse(f"""
def f(n: "size", a: "float32[n + 1]", s: "out float32[5]"):
    for i in range(5):
        if i < 3:
            for k in range({count}):
                if n > 0:
                    s[i] = sum(a[k], over=k, init=2.0)
        else:
            s[i] = 0.0
""")
    after = simplify_func(func)
    for n in range(3):
        assert_same(func, after, {"n": n})


def test_what_is_known_at_a_statement() -> None:
    func = parse("""
def f(n: "size", a: "inout float32[n + 9]"):
    for i in range(n):
        if i < 4:
            for j in range(3):
                a[i + j] = 0.0
""")
    (place,) = leaf_paths(func.body)
    known = known_at(func, place.stmt)
    assert [v.name for v, _ in known.here.tops] == ["j", "i"]
    assert len(known.here.facts) == 2  # n > 0 and i < 4
    with pytest.raises(LookupError):
        known_at(func, Loop("x", Int(1), "serial", ()))
    assert {x.var for x in loops(func.body)} == {"i", "j"}
    assert Var("i") in known.here.top
