"""Folds along and across the rows of one array are one loop over these, and right."""

import numpy as np
import pytest

import loopir as lp
import schedules
from schedules.llvm.shared_rows import shared_rows

PROGRAMS = {
    "a matrix, then its transpose": """
def f(A: "float64[48, 40]", x: "float64[40]", t: "out float64[48]", y: "inout float64[40]"):
    for i in range(48):
        t[i] = 0.0
        for j in range(40):
            t[i] += A[i, j] * x[j]
        for j1 in range(40):
            y[j1] += A[i, j1] * t[i]
""",
    "both at once": """
def f(A: "float64[48, 40]", p: "float64[40]", r: "float64[48]", q: "out float64[48]", s: "inout float64[40]"):
    for i in range(48):
        q[i] = 0.0
        for j in range(40):
            s[j] += r[i] * A[i, j]
            q[i] += A[i, j] * p[j]
""",
    "another direction": """
def f(A: "float64[48, 48]", x: "float64[48]", t: "out float64[48]", y: "inout float64[48]"):
    for i in range(48):
        t[i] = 0.0
        for j in range(48):
            t[i] += A[i, j] * x[j]
    for i1 in range(48):
        for j1 in range(48):
            y[j1] += A[47 - i1, j1] * t[i1]
""",
    "rows that are no whole blocks": """
def f(A: "float64[47, 40]", x: "float64[40]", t: "out float64[47]", y: "inout float64[40]"):
    for i in range(47):
        t[i] = 0.0
        for j in range(40):
            t[i] += A[i, j] * x[j]
        for j1 in range(40):
            y[j1] += A[i, j1] * t[i]
""",
}


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_loop_over_rows_gives_what_two_give(name: str, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lp, "caches", lambda: (1 << 12, 1 << 12, 1 << 13))
    monkeypatch.setenv("LOOPIR_NUM_THREADS", threads)
    s = lp.Schedule(lp.parse(PROGRAMS[name]))
    made = schedules.cpu(s)
    whole = name in ("a matrix, then its transpose", "both at once")
    assert (shared_rows.__name__ in made.script() and len({made.loops(x)[0] for x in made.stages}) <= 2) == whole
    rng, given = np.random.default_rng(0), [a for a in s.func.args if a.access != "out"]
    arrays = [rng.integers(-9, 9, [d.value for d in a.buffer.shape]).astype(np.float64) for a in given]  # type: ignore[union-attr]
    want = lp.interpret(s.func, [x.copy() for x in arrays])
    out = np.empty(arrays[0].shape[0])
    made.build("llvm", threads=int(threads))(*arrays, out=(out,))
    np.testing.assert_array_equal(out, next(v for k, v in want.items() if k in "tq"))
    np.testing.assert_array_equal(arrays[-1], next(v for k, v in want.items() if k in "ys"))


def test_an_array_that_the_caches_hold_is_left_to_two_loops() -> None:
    s = lp.Schedule(lp.parse(PROGRAMS["both at once"]))
    assert shared_rows(s).func == s.func
