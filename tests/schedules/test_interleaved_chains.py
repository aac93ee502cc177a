"""Rows whose steps wait for one another, on a CPU: several rows in each step, what is stored the same."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.parser.parse import parse
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.interleaved_chains import interleaved_chains

FILTER = """
def f(x: "float64[{n}, {k}]", y: "inout float64[{n}, {k} + 2]"):
    for c in range({n}):
        for t in range({k}):
            y[c, t + 2] = x[c, t] + 0.5 * y[c, t + 1] - 0.25 * y[c, t]
"""
DRAWDOWN = """
def f(x: "float32[{n}, {k}]", m: "inout float32[{n}]", d: "inout float32[{n}]"):
    for i in range({n}):
        for t in range({k}):
            m[i] = maximum(m[i], x[i, t])
            d[i] = maximum(d[i], m[i] - x[i, t])
"""
HASH = """
def f(x: "uint8[{n}, {k}]", h: "inout uint32[{n}]"):
    for i in range({n}):
        for t in range({k}):
            h[i] = h[i] * uint32(31) + uint32(x[i, t])
"""


def parsed(text: str, n: int | str, k: int | str) -> lp.Schedule:
    head = '\ndef f(n: "size", k: "size", ' if isinstance(n, str) else "\ndef f("
    return lp.Schedule(parse(text.format(n=n, k=k).replace("\ndef f(", head)))


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([FILTER, DRAWDOWN, HASH]), st.integers(1, 9), st.integers(32, 35), st.sampled_from([2, 4, None]))
def test_what_is_stored_stays(text: str, n: int, k: int, rows: int | None) -> None:
    s = parsed(text, n, k)
    assert_equivalent(interleaved_chains(s, s.stages[0], rows=rows).func, s.func)


@pytest.mark.parametrize("text", [FILTER, DRAWDOWN, HASH])
@pytest.mark.parametrize("sizes", [(500, 2000), ("n", "k")])
def test_auto_takes_them(text: str, sizes: tuple[int, int] | tuple[str, str]) -> None:
    made = cpu(parsed(text, *sizes))
    kinds = [made.loop(x).kind for x in made.loops(made.stages[0])]
    assert kinds == ["parallel", "serial", "unroll"]


@pytest.mark.parametrize(
    "text",
    [
        'def f(x: "float32[64, 512]", y: "out float32[64]"):\n'
        "    for i in range(64):\n        for t in range(512):\n            y[i] = sum(x[i, t], over=t, init=0.0)\n",
        'def f(y: "inout float32[65, 512]"):\n'
        "    for i in range(64):\n        for t in range(511):\n            y[i + 1, t + 1] = y[i, t] + y[i + 1, t]\n",
    ],
    ids=["a fold", "rows that wait for rows"],
)
def test_others_are_left_as_they_are(text: str) -> None:
    s = lp.Schedule(parse(text))
    assert interleaved_chains(s, s.stages[0]).func is s.func
    short = parsed(FILTER, 500, 8)
    assert interleaved_chains(short, short.stages[0]).func is short.func
