"""A body under new loop names means what it did, and comes out as if it were simplified anew, but for its guards."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.arith.simplify_func import simplify_func
from loopir.ir.grammar import Func, Int, Loop, Stmt, Var
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops, replace_loop, replace_over, substitute
from loopir.schedule import Schedule
from loopir.testing.generate import nests
from loopir.testing.generate.strategies import funcs
from loopir.testing.oracles.equivalence import assert_equivalent


def substituted(s: Loop, factor: int) -> Stmt:
    """`s` in whole tiles, nothing simplified."""
    over = {s.var: (f"{s.var}_o", f"{s.var}_i")}
    o, i = over[s.var]
    body = replace_over(tuple(substitute(x, {s.var: Var(o) * factor + Var(i)}) for x in s.body), over)
    return Loop(o, s.extent // factor, "serial", (Loop(i, Int(factor), "serial", body),))


def check(func: Func, loop: Loop, factor: int) -> None:
    """Split `loop` as if `factor` divided it, both ways."""
    whole = replace_loop(func, loop.var, lambda s: replace(s, extent=Int(4 * factor)))
    done = Schedule(whole).split(loop.var, factor).func
    anew = replace_loop(whole, loop.var, lambda s: substituted(s, factor))
    assert text(simplify_func(done)) == text(simplify_func(anew))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_programs(data: st.DataObject) -> None:
    func = data.draw(funcs())
    found = [x for x in loops(func.body) if x.kind == "serial"]
    if found:
        check(func, data.draw(st.sampled_from(found)), data.draw(st.sampled_from([2, 3, 8])))


@pytest.mark.parametrize("name", ["matmul", "blur", "conv2d", "layernorm", "attention"])
@pytest.mark.parametrize("make", [nests.constant, nests.symbolic])
def test_programs(name: str, make) -> None:
    func = make(name)
    for loop in loops(func.body):
        check(func, loop, 8)


def test_a_reduction_starts_where_it_did() -> None:
    """The init stands outside of `k`, under the guards that do not speak of it: not under this one."""
    s = Schedule(
        parse(
            'def f(n: "size", m: "size", A: "float32[m]", S: "out float32[n]"):\n'
            "    for i in range(n):\n"
            "        for k in range(m):\n"
            "            if i + k - k < m:\n"
            "                S[i] = sum(A[k], over=k, init=1.0)\n"
        )
    )
    for tail in ("guard", "peel"):
        assert_equivalent(s, s.split("k", 3, tail=tail), trials=20)
        assert_equivalent(s, s.split("i", 3, tail=tail), trials=20)


@pytest.mark.parametrize(
    "guard", ["i < -i", "not i < 3 - (i + 2)", "i - 8 < i * 2 and i < -(j + i)", "i + j - i < j * 2"]
)
def test_a_guard_that_tells_no_start_is_put_into_its_shortest_form(guard: str) -> None:
    """It may be decided, and stays, as it speaks of what is folded over: the start does not stand under it."""
    func = parse(f"""
def f(Y: "inout int32[]"):
    for j in range(3):
        for i in range(8):
            if {guard}:
                Y[()] = sum(Y[()], over=i, init=Y[()])
""")
    check(func, list(loops(func.body))[1], 2)
    assert_equivalent(Schedule(func), Schedule(simplify_func(func)))


def test_guards_are_put_into_their_shortest_form_and_not_decided() -> None:
    s = Schedule(
        parse(
            'def f(n: "size", A: "float32[n]", B: "out float32[n]"):\n'
            "    for i in range(n):\n"
            "        if i // 4 * 4 + i % 4 < n:\n"
            "            B[i] = A[i]\n"
        )
    )
    new = s.split("i", 4, tail="guard")
    assert str(new).count("if i_o * 4 + i_i < n:") == 2
    assert_equivalent(s, new)
