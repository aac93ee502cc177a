"""Margins: what they say of nests small enough to count, and that they never say less than is touched."""

import math

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.ir.grammar import Loop
from loopir.show.margins import margins
from loopir.testing.generate.nests import NESTS, constant


def test_a_product_is_what_a_person_would_count() -> None:
    A, B = (lp.placeholder((64, 64), "float32", name=x) for x in "AB")
    s = lp.Schedule(A @ B)
    i, j, k = s.loops()
    told = margins(s.func)
    assert [told[x].bytes for x in (i, j, k)] == [3 * 64 * 64 * 4, (64 + 64 * 64 + 64) * 4, (64 + 64 + 1) * 4]
    assert told[k].reuse == pytest.approx(3 * 64 / 129)
    assert [told[x].busy for x in (i, j, k)] == [None] * 3
    wide = s.split(j, 8).parallel(i).vectorize(f"{j}_i")
    assert margins(wide.func)[f"{j}_i"].at_once == 64 * 8
    assert margins(wide.func)[i].busy == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))
def test_bytes_are_those_that_are_touched(n: int, m: int, a: int, b: int, shift: int) -> None:
    size = a * (n - 1) + b * (m - 1) + shift + 1
    source = f"""
def f(x: "float32[{size}]", y: "out float32[{n}, {m}]"):
    for i in range({n}):
        for j in range({m}):
            y[i, j] = x[{a} * i + {b} * j + {shift}]
"""
    told = margins(lp.parse(source))
    touched = {a * i + b * j for i in range(n) for j in range(m)}
    assert told["i"].bytes >= 4 * (len(touched) + n * m)
    assert told["i"].bytes <= 4 * (size + n * m)
    assert told["j"].bytes == 4 * (len({b * j for j in range(m)}) + m)


@pytest.mark.parametrize("name", NESTS)
def test_every_loop_of_every_nest_has_one(name: str) -> None:
    func = constant(name)
    told = margins(func)
    assert set(told) == set(lp.Schedule(func).loops())
    assert all(math.isfinite(m.bytes) and m.reuse >= 0.99 for m in told.values())


def test_a_block_of_threads_fills_a_part_of_a_processor() -> None:
    x = lp.placeholder((1 << 20,), "float32", name="x")
    s = schedules.auto(lp.Schedule(lp.relu(x)), "cuda")
    told = margins(s.func)
    kinds = {v: s.loop(v).kind for v in s.loops()}
    block = next(v for v, k in kinds.items() if k == "blockIdx.x")
    assert told[block].busy == 1.0
    assert isinstance(s.loop(block), Loop)
    assert told[block].cells()[-1] == "100 %"
