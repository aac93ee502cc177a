"""Steps of a state of several columns, some threads for a column: exact on interpreted threads, and taken by `auto`."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.common.normalize_nests import normalized
from schedules.cuda.state_columns import has_state, state_columns

RNG = np.random.default_rng(0)
LINEAR = """
def linear(q: "{t}[{b}, {n}, {k}]", w: "{t}[{b}, {n}, {k}]", v: "{t}[{b}, {n}, {d}]",
        S: "inout {t}[{b}, {k}, {d}]", y: "out {t}[{b}, {n}, {d}]"):
    for i in range({b}):
        for s in range({n}):
            for a in range({k}):
                for c in range({d}):
                    S[i, a, c] = S[i, a, c] + w[i, s, a] * v[i, s, c]
            for c in range({d}):
                y[i, s, c] = 0
                for a in range({k}):
                    y[i, s, c] += q[i, s, a] * S[i, a, c]
"""
DECAYED = """
def decayed(q: "{t}[{b}, {n}, {k}]", w: "{t}[{b}, {n}, {k}]", v: "{t}[{b}, {n}, {d}]",
        S: "inout {t}[{b}, {k}, {d}]", y: "out {t}[{b}, {n}, {d}]"):
    for i in range({b}):
        for s in range({n}):
            for c in range({d}):
                y[i, s, c] = 0
                for a in range({k}):
                    y[i, s, c] += q[i, s, a] * (S[i, a, c] + w[i, s, a] * v[i, s, c])
            for a in range({k}):
                for c in range({d}):
                    S[i, a, c] = S[i, a, c] * q[i, s, a] + w[i, s, a] * v[i, s, c]
"""
DELTA = """
def delta(q: "{t}[{b}, {n}, {k}]", w: "{t}[{b}, {n}, {k}]", v: "{t}[{b}, {n}, {d}]",
        S: "inout {t}[{b}, {k}, {d}]", e: "inout {t}[{b}, {d}]", y: "out {t}[{b}, {n}, {d}]"):
    for i in range({b}):
        for s in range({n}):
            for c in range({d}):
                e[i, c] = v[i, s, c]
                for a in range({k}):
                    e[i, c] += -(S[i, a, c] * w[i, s, a])
            for a in range({k}):
                for c in range({d}):
                    S[i, a, c] = S[i, a, c] + w[i, s, a] * e[i, c]
            for c in range({d}):
                y[i, s, c] = 0
                for a in range({k}):
                    y[i, s, c] += q[i, s, a] * S[i, a, c]
"""
SOLVED = """
def solved(L: "{t}[{b}, {n}, {n}]", B: "{t}[{b}, {n}, {d}]", y: "out {t}[{b}, {n}, {d}]"):
    for i in range({b}):
        for j in range({n}):
            for c in range({d}):
                y[i, j, c] = B[i, j, c]
                for k in range(j):
                    y[i, j, c] += -(L[i, j, k] * y[i, k, c])
                y[i, j, c] = y[i, j, c] * L[i, j, j]
"""
ALONE = """
def solved(L: "{t}[{b}, {n}, {n}]", B: "{t}[{b}, {n}, {d}]", y: "out {t}[{b}, {n}, {d}]"):
    for i in range({b}):
        for j in range({n}):
            for c in range({d}):
                y[i, j, c] = B[i, j, c]
                for k in range(j):
                    y[i, j, c] += -(L[i, j, k] * y[i, k, c])
"""
"""A fold that starts from the right side becomes one statement."""
PROGRAMS = (LINEAR, DECAYED, DELTA, SOLVED, ALONE)


def parsed(text: str, t: str = "int32", **sizes: int) -> lp.Schedule:
    return lp.Schedule(lp.parse(text.format(t=t, **sizes)))


def numbers(s: lp.Schedule) -> dict[str, np.ndarray]:
    shapes = {a.buffer.name: [d.value for d in a.buffer.shape] for a in s.func.args if a.access != "out"}
    return {name: RNG.integers(-3, 4, shape).astype(np.int32) for name, shape in shapes.items()}


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(PROGRAMS), st.integers(1, 3), st.integers(1, 7), st.sampled_from((3, 8, 16)), st.integers(1, 9),
    st.sampled_from((1, 4, 8)), st.sampled_from((1, 2, 4)),
)  # fmt: skip
def test_states_are_what_they_were(text: str, b: int, n: int, k: int, d: int, lanes: int, ahead: int) -> None:
    same_after(text, b, n, k, d, lanes, ahead)


def same_after(text: str, b: int, n: int, k: int, d: int, lanes: int, ahead: int) -> None:
    s = parsed(text, b=b, n=n, k=k, d=d)
    folds = normalized(s)
    first = folds.stages[0]
    if not has_state(folds, first):
        assert n == 1 or text in (SOLVED, ALONE)  # a loop that runs once waits for nothing
        return
    made = state_columns(folds, first, lanes=lanes, ahead=ahead if lanes > 1 else min(ahead, 2))
    given = numbers(s)
    (program,) = lp.lower(made, "cuda")
    want, got = (lp.interpret(f, {x: v.copy() for x, v in given.items()}) for f in (s.func, program))
    assert all(np.array_equal(want[name], got[name]) for name in want)


def test_steps_read_at_once_are_not_shared_by_the_threads_of_a_column() -> None:
    """A statement with no loop inside a step reads along the steps, as many as the threads are."""
    same_after(DELTA, b=1, n=2, k=3, d=1, lanes=4, ahead=4)


@pytest.mark.parametrize("text", PROGRAMS)
def test_auto_takes_columns(text: str) -> None:
    """Not a thread for each state, which waits for memory in all steps."""
    s = parsed(text, "float32", b=8, n=64, k=64, d=64)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    report = made.report(arch="sm_90a")
    assert len(report.kernels) <= 2  # the right sides may be copied first
    assert report.seconds < 1e-4


def test_a_state_stays_in_registers() -> None:
    s = normalized(parsed(LINEAR, "float32", b=2, n=32, k=64, d=64))
    made = state_columns(s, s.stages[0], lanes=8)
    assert made.buffer("S_local").scope == "local"


def test_steps_ask_for_what_they_read_at_once_and_in_vectors() -> None:
    s = normalized(parsed(LINEAR, "float32", b=2, n=32, k=64, d=64))
    made = state_columns(s, s.stages[0], lanes=8, ahead=4)
    code = lp.compile_source(made, arch="sm_90a").source
    assert code.count("const lp_u4*>") == 2  # in loops over steps: of w and of q
    assert {made.buffer(x).scope for x in ("w_local", "q_local", "v_local")} == {"local"}
    with pytest.raises(lp.ScheduleError, match=r"more of .* than a thread has registers for"):
        state_columns(s, s.stages[0], lanes=1, ahead=4)


def test_steps_that_read_neighbours_have_no_columns() -> None:
    text = """
def swept(x: "inout float32[8, 40]", y: "inout float32[8, 40]"):
    for t in range(9):
        for i in range(38):
            y[0, i + 1] = x[0, i] + x[0, i + 2]
        for j in range(38):
            x[0, j + 1] = y[0, j + 1]
"""
    s = lp.Schedule(lp.parse(text))
    with pytest.raises(lp.ScheduleError, match="no loop that may go outside"):
        state_columns(s, s.stages[0])
