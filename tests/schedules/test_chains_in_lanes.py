"""Chains inside a free loop, on a CPU: an iteration of the loop in each lane, what is stored the same."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.parser.parse import parse
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.chains_in_lanes import chains_in_lanes

HORNER = """
def f(x: "float64[{n}]", c: "float64[{k}]", y: "out float64[{n}]"):
    for i in range({n}):
        y[i] = c[0]
        for k in range({k} - 1):
            y[i] = y[i] * x[i] + c[k + 1]
"""
FIXED_POINT = """
def f(r: "float32[3, {n}]", y: "inout float32[3, {n}]"):
    for a in range(3):
        for i in range({n}):
            for k in range({k}):
                y[a, i] = r[a, i] * y[a, i] * (1.0 - y[a, i])
"""
ESCAPED = """
def f(c: "float32[{n}]", z: "inout float32[{n}]", count: "inout int32[{n}]"):
    for i in range({n}):
        for k in range({k}):
            if z[i] * z[i] < 4.0:
                count[i] = count[i] + 1
                z[i] = z[i] * z[i] + c[i]
"""


def parsed(text: str, n: int | str, k: int | str) -> lp.Schedule:
    head = '\ndef f(n: "size", k: "size", ' if isinstance(n, str) else "\ndef f("
    return lp.Schedule(parse(text.format(n=n, k=k).replace("\ndef f(", head)))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([HORNER, FIXED_POINT, ESCAPED]), st.integers(1, 40), st.integers(1, 6), st.sampled_from([4, None])
)
def test_what_is_stored_stays(text: str, n: int, k: int, lanes: int | None) -> None:
    s = parsed(text, n, k)
    assert_equivalent(chains_in_lanes(s, s.stages[0], lanes=lanes).func, s.func)


@pytest.mark.parametrize("text", [HORNER, FIXED_POINT, ESCAPED])
@pytest.mark.parametrize("sizes", [(500, 20), ("n", "k + 2")])
def test_auto_takes_them(text: str, sizes: tuple[int, int] | tuple[str, str]) -> None:
    made = cpu(parsed(text, *sizes))
    lanes = [x for stage in made.stages for x in made.loops(stage) if made.loop(x).kind == "vectorize"]
    assert lanes
    assert "parallel" in str(made)


def test_nests_that_lie_otherwise_are_left_as_they_are() -> None:
    across = lp.Schedule(parse("""
def f(x: "float64[64]", y: "inout float64[64, 9]"):
    for i in range(64):
        for k in range(8):
            y[i, k + 1] = y[i, k] * x[i]
"""))  # fmt: skip
    assert chains_in_lanes(across, "y").func is across.func
    free = lp.Schedule(parse("""
def f(x: "float64[64]", y: "inout float64[9, 64]"):
    for i in range(64):
        for k in range(9):
            y[k, i] = x[i] * 2.0
"""))  # fmt: skip
    assert chains_in_lanes(free, "y").func is free.func
