"""loopir.schedule.transform.subprogram: nests of a program as a program of their own, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func
from loopir.ir.verify.verify import verify
from loopir.schedule.transform.subprogram import extract, in_order, nests, subprogram
from loopir.testing import funcs
from loopir.testing.generate.strategies import arguments, sizes

PROGRAM = """
def f(x: "float32[4, 6]", y: "out float32[4, 6]", z: "inout float32[4]"):
    with alloc("float32[4]") as top, alloc("float32[4, 6]") as e_2:
        for i in range(4):
            for j in range(6):
                top[i] = max(x[i, j], over=j, init=-inf)
        for i_1 in range(4):
            for j_1 in range(6):
                e_2[i_1, j_1] = exp(x[i_1, j_1] - top[i_1])
        for i_2 in range(4):
            z[i_2] = z[i_2] + top[i_2]
        for i_3 in range(4):
            for j_3 in range(6):
                y[i_3, j_3] = e_2[i_3, j_3] * 2.0
"""


def test_what_others_touch_becomes_an_argument() -> None:
    f = lp.parse(PROGRAM)
    part = subprogram(f, ("e_2", "y"))
    assert {a.buffer.name: a.access for a in part.args} == {"x": "in", "top": "in", "y": "out"}
    assert "alloc" in lp.text(part)
    assert {a.buffer.name: a.access for a in subprogram(f, ("z",)).args} == {"top": "in", "z": "inout"}
    assert {a.buffer.name: a.access for a in subprogram(f, ("top",)).args} == {"x": "in", "top": "out"}


def test_nests_say_what_they_need() -> None:
    found = nests(lp.parse(PROGRAM))
    assert [(n.stages, sorted(n.needs)) for n in found] == [
        (("top",), []),
        (("e_2",), [0]),
        (("z",), [0]),
        (("y",), [1]),
    ]
    assert found[2].reads == {"z", "top"}
    assert found[2].writes == {"z"}


def test_a_stage_between_is_named() -> None:
    f = lp.parse(PROGRAM)
    with pytest.raises(lp.ScheduleError, match="top and y would wait for e_2, which waits for them"):
        subprogram(f, ("top", "y"))
    with pytest.raises(lp.ScheduleError, match="there is no stage 'w'; there are e_2, top, y and z"):
        extract(f, ("w",))
    assert in_order(f, [(0, 2), (1,), (3,)]) == [(0, 2), (1,), (3,)]


def test_parts_that_differ_in_names_alone_are_the_same() -> None:
    x = lp.placeholder((8, 8), "float32", name="x")
    one, other = (lp.exp(v).sum(axis=1).named(name) for v, name in ((x, "s1"), (x * 1.0, "t")))
    assert extract(lp.Schedule(one).func, ("s1",)).func != extract(lp.Schedule(other).func, ("t",)).func
    y = lp.softmax(lp.softmax(x).named("a1")).named("a2")
    f = lp.Schedule(y).func
    assert lp.text(extract(f, ("a1",)).func) == lp.text(extract(f, ("a2",)).func)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_program_taken_apart_and_put_together_means_the_same(data: st.DataObject) -> None:
    """With no step taken, and with one taken in each nest: of all programs that there are strategies for."""
    f: Func = data.draw(funcs())
    stages = [n.stages for n in nests(f)]
    seen: set[str] = set()
    groups = []
    for own in stages:
        if own and not seen & set(own):
            groups.append((own, ()))
        seen |= set(own)
    if len(seen) != sum(len(own) for own in stages):
        return  # a label in several nests takes these together
    made = lp.Schedule(f).schedule_nests(*groups)
    verify(made.func, "schedule")
    chosen = data.draw(sizes(f))
    given_ = data.draw(arguments(f, chosen))
    want, got = (
        lp.interpret(g, {k: v.copy() for k, v in given_.items()}, chosen, domain="ring") for g in (f, made.func)
    )
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)
