"""loopir.schedule.transform.subprogram: nests of a program as a program of their own, and back."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func
from loopir.ir.verify.verify import verify
from loopir.schedule.transform.subprogram import (
    Part,
    _in_canonical_names,
    _in_order_of_use,
    extract,
    in_order,
    nests,
    subprogram,
)
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


def test_parts_are_the_same_whatever_the_order_of_the_program_s_arguments() -> None:
    x, w = (lp.placeholder((8, 8), "float32", name=name) for name in "xw")
    f = lp.Schedule([(x - w).named("y1"), (w - x).named("y2")]).func
    one, other = extract(f, ("y1",)), extract(f, ("y2",))
    assert lp.text(one.func) == lp.text(other.func)
    assert [p.original[a.buffer.name] for p in (one, other) for a in p.func.args] == ["x", "w", "y1", "w", "x", "y2"]


PARTLY_WRITTEN = """
def f(x: "float32[3, 5]", m: "out float32[5]"):
    with alloc("float32[3, 8]") as r:
        for a in range(3):
            for b in range(8):
                if b < 5:
                    r[a, b] = x[a, b] * 2.0
        for j in range(5):
            for i in range(3):
                m[j] = max(r[i, j] * 3.0, over=i, init=-inf)
"""


def test_what_others_write_in_part_is_not_taken_for_written() -> None:
    """So a step that reads more of it is refused on these nests, as it is in the whole program."""
    s = lp.Schedule(lp.parse(PARTLY_WRITTEN))
    assert {a.buffer.name: a.access for a in subprogram(s.func, ("m",)).args} == {"r": "out", "m": "out"}
    first = (("split", ("j", 8), ()), ("cache_write", ("m", "local", "j_i"), ()))
    copied = (*first, ("cache_read", ("m_local", "arg", "local", "j_i"), ()))
    made = s.schedule_nests((("m",), copied))
    with pytest.raises(lp.ScheduleError, match="a copy of what need not be written of arg, where j_o"):
        s.schedule_nests((("m",), (*copied, ("pad", ("m_local",), ()))))
    with pytest.raises(lp.ScheduleError, match="a copy of what need not be written of r, where j_o"):
        made.pad("m_local")
    given = {"x": np.arange(15, dtype="float32").reshape(3, 5)}
    np.testing.assert_array_equal(lp.interpret(made.func, given, {})["m"], 6 * given["x"].max(axis=0))


WRITTEN_BY_TWO = """
def f(n: "size", x: "float32[n, 4]", m: "out float32[8]"):
    with alloc("float32[n, 8]") as r:
        for a in range(n):
            for b in range(8):
                if b < 4:
                    r[a, b] = x[a, b] * 2.0
        for c in range(n):
            for d in range(4):
                r[c, d + 4] = x[c, d]
        for j in range(8):
            for i in range(n):
                m[j] = max(r[i, j] * 3.0, over=i, init=-inf)
"""


def test_what_others_write_together_is_taken_for_written() -> None:
    s = lp.Schedule(lp.parse(WRITTEN_BY_TWO)).split("a", 32).fuse("c", "d")
    access = {a.buffer.name: a.access for a in subprogram(s.func, ("m",)).args}
    assert access == {"r": "in", "m": "out"}


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


def anew(f: Func, stages: tuple[str, ...]) -> Part:
    """A part that is put in canonical names whatever others were."""
    return _in_canonical_names(_in_order_of_use(subprogram(f, stages)), extract(f, stages).nests)


def same(one: Part, other: Part) -> bool:
    """Whether two parts have the same text, and the same names in the program, in the same order."""
    maps = [(list(p.original.items()), list(p.labels.items())) for p in (one, other)]
    return lp.text(one.func) == lp.text(other.func) and maps[0] == maps[1]


def layers() -> Func:
    """Stages that differ in names, in the order of what they read, in types, and in what else reads their results."""
    x, w, v = (lp.placeholder((8, 8), name=name) for name in "xwv")
    y, outputs = x, list[lp.Tensor]()
    for n in range(4):
        top = lp.max(y, axis=1, keepdims=True).named(f"top{n}")
        low = lp.exp(w - top if n % 2 else top - w).named(f"low{n}")
        y = (low + (v if n == 2 else y) * (2.0 if n else -0.0)).named(f"y_{n}")
        outputs += [low] if n == 1 else []
    return lp.Schedule([*outputs, y]).func


def test_parts_of_one_pattern_are_as_each_by_itself() -> None:
    """What is found for one is renamed for others; it is what each would be had there been no other."""
    f = layers()
    stages, parts = [n.stages[0] for n in nests(f)], list[Part]()
    for wanted in [*combinations(stages, 1), *combinations(stages, 2), *combinations(stages, 3)]:
        try:
            parts.append(extract(f, wanted))
        except lp.ScheduleError:
            continue
        assert same(parts[-1], anew(f, wanted))
    assert len({id(p.func) for p in parts}) == len({lp.text(p.func) for p in parts}) < len(parts)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_parts_of_random_programs_are_as_each_by_itself(data: st.DataObject) -> None:
    f = data.draw(funcs())
    for n in nests(f):
        assert same(extract(f, n.stages), anew(f, n.stages))
