"""What `auto` takes for a GPU: its time, in calls, by the number of stages; folds that no other recipe takes."""

from __future__ import annotations

import pytest
from support.call_counts import calls

import loopir as lp
from loopir import schedules
from loopir.testing import assert_equivalent


def chain(stages: int) -> lp.Schedule:
    """So many stages, one after another, by turns elementwise and less the greatest of the row."""
    n = lp.symbol("n")
    y = lp.placeholder((n, 512), "float32", name="x")
    for k in range(stages):
        y = y - lp.max(y, axis=1)[:, None] if k % 2 else y * 2.0 + 1.0
    return lp.Schedule(y)


def work(stages: int, *, planned: bool) -> int:
    s, schedule = chain(stages), schedules.plan if planned else schedules.auto
    return calls(lambda: schedule(s, "cuda", arch="sm_90a"))


@pytest.mark.parametrize(("stages", "planned"), [(10, False), (8, True)], ids=["one group", "planned"])
def test_twice_the_stages_take_less_than_four_times_the_work(stages: int, planned: bool) -> None:
    """Each step looks at the whole program, so that it is not twice."""
    assert work(2 * stages, planned=planned) < 3.6 * work(stages, planned=planned)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_few_results_that_no_tile_takes_are_folded_by_several_threads(turned: bool, after: bool) -> None:
    """A thread for each would wait for one load after the other."""
    x, y = lp.placeholder((10, 500), "float32", name="x"), lp.placeholder((20, 500), "float32", name="y")
    z = lp.placeholder((500, 20), "float32", name="z")
    product = x @ (y.T if turned else z)
    made = schedules.auto(lp.Schedule(lp.relu(product) if after else product), "cuda", arch="sm_90a")
    cost = lp.predict(made, "cuda", arch="sm_90a")
    assert (cost.kernels, cost.seconds < 8e-6) == (1, True)


def test_a_fold_by_several_threads_is_right() -> None:
    x, y = lp.placeholder((3, 70), "float32", name="x"), lp.placeholder((5, 70), "float32", name="y")
    s = lp.Schedule(lp.relu(x @ y.T))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert any(made.loop(x).kind == "threadIdx.x" for st in made.stages for x in made.reduced(st))
    assert_equivalent(s, made)


def test_a_sum_of_what_is_sorted_takes_little_longer_than_the_sort() -> None:
    """One kernel of all is predicted to take 3.6 ms; the sort 0.1."""
    x = lp.placeholder((1024, 1024), "float32", name="x")
    rows = lp.sort(x, axis=-1)
    made = [schedules.auto(lp.Schedule(y), "cuda", arch="sm_90a") for y in (rows, rows[:, -2:].sum(axis=-1))]
    alone, summed = (lp.predict(s, "cuda", arch="sm_90a").seconds for s in made)
    assert summed < 1.2 * alone


def test_nests_of_several_statements_are_taken_in_the_cheapest_form() -> None:
    """Two folds over both loops of one nest, and two histograms in one loop, were one thread's: a thousandth now."""
    texts = ('''
def f(x: "float32[700]", y: "float32[900]", z: "out float32[700]", m: "out float32[900]"):
    for j in range(900):
        m[j] = -1e30
    for i in range(700):
        z[i] = -1e30
        for j in range(900):
            z[i] = maximum(z[i], x[i] - y[j])
            m[j] = maximum(m[j], x[i] * y[j])
''', '''
def f(x: "int32[50000]", w: "float32[50000]", h: "inout float32[64]", c: "inout int32[64]"):
    for i in range(50000):
        h[x[i]] += w[i]
        c[x[i]] += 1
''')  # fmt: skip
    for text in texts:
        s = lp.Schedule(lp.parse(text))
        made = schedules.auto(s, "cuda", arch="sm_90a")
        before, after = (lp.predict(x, "cuda", arch="sm_90a").seconds for x in (s, made))
        assert after < before / 1000


ATTENTION = """
def f(n: "size", Q: "float32[n, 64]", K: "float32[n, 64]", V: "float32[n, 64]", O: "out float32[n, 64]"):
    for i in range(n):
        with alloc("float32[n]") as p, alloc("float32") as m, alloc("float32") as s:
            m[()] = -1e30
            for j in range(n):
                p[j] = 0.0
                for d in range(64):
                    p[j] += Q[i, d] * K[j, d]
                m[()] = maximum(m[()], p[j])
            s[()] = 0.0
            for j1 in range(n):
                p[j1] = exp(p[j1] - m[()])
                s[()] += p[j1]
            for d1 in range(64):
                O[i, d1] = 0.0
            for j2 in range(n):
                for d2 in range(64):
                    O[i, d2] += p[j2] * V[j2, d2]
            for d3 in range(64):
                O[i, d3] = O[i, d3] / s[()]
"""
DOT = """
def f(n: "size", x: "float32[n]", y: "float32[n]", s: "inout float32[1]"):
    for i in range(n):
        s[0] += x[i] * y[i]
"""
TRIANGLES = """
def f(n: "size", A: "int32[n, n]", c: "inout int32[1]"):
    for i in range(n):
        for j in range(i):
            for k in range(j):
                c[0] += A[i, j] * A[j, k] * A[i, k]
"""


@pytest.mark.parametrize(("text", "n", "most"), [(ATTENTION, 512, 2e-4), (DOT, 10**6, 5e-5), (TRIANGLES, 200, 1e-2)])
def test_updates_of_all_sizes_are_folds(text: str, n: int, most: float) -> None:
    """As people write them, in loops whose memory no kernel holds; predicted far below what a thread takes."""
    made = schedules.auto(lp.Schedule(lp.parse(text)), "cuda", arch="sm_90a")
    assert made.report(arch="sm_90a", n=n).seconds < most


GOES_ON = {
    "product": ('A: "float32[{n}, 40]", B: "float32[40, 64]", C: "inout float32[{n}, 64]"', """
    for i in range({n}):
        for j in range(64):
            for k in range(40):
                C[i, j] += A[i, k] * B[k, j]
"""),
    "convolution": ('A: "float32[16, 18, 18]", B: "float32[{n}, 16, 3, 3]", C: "inout float32[{n}, 16, 16]"', """
    for o in range({n}):
        for i in range(16):
            for j in range(16):
                for c in range(16):
                    for r in range(3):
                        for s in range(3):
                            C[o, i, j] += A[c, i + r, j + s] * B[o, c, r, s]
"""),
    "window": ('A: "float32[{n}, 40]", C: "inout float32[{n}, 40]"', """
    for i in range({n} - 4):
        for j in range(36):
            for r in range(5):
                for s in range(5):
                    C[i, j] += A[i + r, j + s]
"""),
    "pairs": ('A: "float32[{n}]", B: "float32[200]", C: "inout float32[{n}]"', """
    for i in range({n}):
        for j in range(200):
            C[i] = maximum(C[i], abs(A[i] - B[j]))
"""),
    "columns": ('A: "float32[{n}, 40]", C: "inout float32[40]"', """
    for i in range({n}):
        for k in range(40):
            C[k] += A[i, k]
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES_ON)
@pytest.mark.parametrize("n", [1, 64, 300])
def test_folds_that_go_on_from_memory_are_scheduled(name: str, n: int) -> None:
    """No recipe fails at the copy of what they go on from, nor where nothing runs: a warning would be an error."""
    head, body = GOES_ON[name]
    s = lp.Schedule(lp.parse(f"def f({head}):{body}".format(n=n)))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert lp.predict(made, "cuda", arch="sm_90a").seconds < 1e-4
