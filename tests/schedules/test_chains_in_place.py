"""Chains that start from what was there, a thread each: exact on interpreted threads and as C++ on a CPU."""

import cuda_on_cpu
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.cuda.chains_in_place import chain_by_thread, is_chain

RNG = np.random.default_rng(0)
ALONG_ROWS = """
def smoothed(x: "int32[{b}, {n}]", z: "int32[{b}, {n}]", y: "inout int32[{b}, {n}]"):
    for i in range({b}):
        for t in range({n} - 1):
            y[i, t + 1] = 3 * y[i, t] - x[i, t + 1] * z[i, t]
"""
ALONG_COLUMNS = """
def smoothed(x: "int32[{n}, {b}]", z: "int32[{n}, {b}]", y: "inout int32[{n}, {b}]"):
    for t in range({n} - 1):
        for i in range({b}):
            y[t + 1, i] = 3 * y[t, i] - x[t + 1, i] * z[t, i]
"""
SOLVED = """
def solved(c: "int32[{b}, {n}]", d: "inout int32[{b}, {n}]"):
    for i in range({b}):
        for t in range(1, {n}):
            d[i, {n} - 1 - t] = d[i, {n} - 1 - t] - c[i, {n} - 1 - t] * d[i, {n} - t]
"""


def parsed(text: str, **sizes: int) -> lp.Schedule:
    return lp.Schedule(lp.parse(text.format(**sizes)))


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(np.int32)


def inputs(text: str, b: int, n: int) -> list[np.ndarray]:
    shape = (n, b) if text is ALONG_COLUMNS else (b, n)
    return [numbers(*shape) for _ in range(2 if text is SOLVED else 3)]


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([ALONG_ROWS, ALONG_COLUMNS, SOLVED]),
    st.integers(2, 70),
    st.integers(3, 80),
    st.sampled_from([32, 64]),
)
def test_chains_are_what_they_were(text: str, b: int, n: int, threads: int) -> None:
    s, given = parsed(text, b=b, n=n), inputs(text, b, n)
    (stage,), out = s.stages, "d" if text is SOLVED else "y"
    assert is_chain(s, stage)
    want = lp.interpret(s.func, [x.copy() for x in given])[out]
    (program,) = lp.lower(chain_by_thread(s, stage, threads=threads), "cuda")
    np.testing.assert_array_equal(lp.interpret(program, given)[out], want)


@cuda_on_cpu.needs_compiler
@pytest.mark.parametrize("text", [ALONG_ROWS, ALONG_COLUMNS, SOLVED])
def test_the_same_as_cpp(text: str) -> None:
    s, given = parsed(text, b=75, n=101), inputs(text, 75, 101)
    (stage,) = s.stages
    want = lp.interpret(s.func, [x.copy() for x in given])["d" if text is SOLVED else "y"]
    cuda_on_cpu.build(chain_by_thread(s, stage, threads=32))(*given)
    np.testing.assert_array_equal(given[-1], want)


@pytest.mark.parametrize("text", [ALONG_ROWS, ALONG_COLUMNS, SOLVED])
def test_auto_takes_a_thread_for_each(text: str) -> None:
    """One launch, where there was one for each step, or a thread waited for each load by itself."""
    s = parsed(text, b=512, n=1000)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert len(made.report(arch="sm_90a").kernels) == 1
    stage, most = s.stages[0], lp.predict(s, "cuda", arch="sm_90a").seconds / 500
    assert lp.predict(made, "cuda", arch="sm_90a").seconds < most
    assert any(made.loop(x).kind == "unroll" for x in made.loops(stage))


def test_others_are_refused() -> None:
    s = lp.Schedule(lp.parse('''
def chain(a: "inout float32[9]"):
    for i in range(8):
        a[i + 1] = a[i] * a[i]
'''))  # fmt: skip
    assert not is_chain(s, "a")
    with pytest.raises(lp.ScheduleError, match="a has no chains that are independent of one another"):
        chain_by_thread(s, "a", threads=32)
