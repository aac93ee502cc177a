"""Stages inside loops that carry dependences: what is independent inside them runs by vectors."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.parser.parse import parse
from loopir.testing import assert_equivalent
from schedules.common.normalize_nests import normalized
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.inner_loops import inner_vectors

NESTS = {
    "LU": """
    for k in range({n}):
        for i in range({m} - k):
            A[k + 1 + i, k] = A[k + 1 + i, k] * A[k, k]
        for i1 in range({m} - k):
            for j in range({m} - k):
                A[k + 1 + i1, k + 1 + j] = A[k + 1 + i1, k + 1 + j] - A[k + 1 + i1, k] * A[k, k + 1 + j]
""",
    "Cholesky": """
    for i in range({n}):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] = A[i, j] * A[j, j]
""",
    "triangular product": """
    for i in range({n}):
        for j in range({n}):
            for k in range({m} - i):
                A[i, j] += B[i + 1 + k, i] * A[i + 1 + k, j]
            A[i, j] = 1.5 * A[i, j]
""",
    "sweep": """
    for t in range(3):
        for i in range({m}):
            for j in range({n}):
                A[i + 1, j] = A[i, j] + B[i, j]
""",
}


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(sorted(NESTS)), st.integers(1, 11), st.sampled_from((2, 4)))
def test_what_depends_on_its_order_keeps_it(name: str, n: int, lanes: int) -> None:
    text = f'def f(A: "inout float64[{n}, {n}]", B: "float64[{n}, {n}]"):' + NESTS[name].format(n=n, m=n - 1)
    s = lp.Schedule(parse(text))
    assert_equivalent(s, cpu(s, lanes))


@pytest.mark.parametrize("name", sorted(NESTS))
def test_the_inner_loops_are_vectors(name: str) -> None:
    s = cpu(
        lp.Schedule(parse('def f(A: "inout float64[96, 96]", B: "float64[96, 96]"):' + NESTS[name].format(n=96, m=95))),
        4,
    )
    assert any(s.loop(x).kind == "vectorize" for x in s.loops())


def test_a_column_that_is_no_run_of_memory_is_left_as_it_is() -> None:
    s = lp.Schedule(
        parse("""
def f(A: "inout float64[9, 9]"):
    for k in range(8):
        for i in range(9):
            A[i, k + 1] = A[i, k] * 2.0
""")
    )
    assert inner_vectors(s, "A", lanes=4).func is s.func


def test_lanes_are_exchanged_and_rows_shared_in_a_nest_of_several_stages() -> None:
    s = lp.Schedule(
        lp.parse("""
def shuffles(n: "size", x: "float32[n, 2, 256]"):
    for r in range(n):
        for t in range(8):
            for i in range(256):
                x[r, (t + 1) % 2, i] = select(i % 2 < 1, x[r, t % 2, i // 2], x[r, t % 2, i // 2 + 128])
        for j in range(256):
            x[r, 1, j] = x[r, 0, j] * 2.0
""")
    )
    t = cpu(s)
    assert [t.loop(stage_loops[0]).kind for stage_loops in map(t.loops, t.stages)] == ["parallel"] * 2
    assert all(t.loop(t.loops(stage)[-1]).kind == "vectorize" for stage in t.stages)
    x = np.random.default_rng(0).random((3, 2, 256), np.float32)
    ours, plain = x.copy(), x.copy()
    t.build("llvm")(ours)
    s.build("interpret")(plain)
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize(("rows", "shared"), [(256, True), (16, False)])
def test_sweeps_inside_of_a_loop_in_time_are_shared_by_threads_where_they_take_longer_than_a_start(
    rows: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "2")
    s = cpu(
        lp.Schedule(
            lp.parse(f"""
def sweeps(a: "inout float64[{rows}, 514]", b: "inout float64[{rows}, 514]"):
    for t in range(3):
        for i in range({rows - 2}):
            for j in range(512):
                b[i + 1, j + 1] = a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j]
        for k in range({rows - 2}):
            for l in range(512):
                a[k + 1, l + 1] = b[k, l + 1] + b[k + 2, l + 1] + b[k + 1, l]
""")
        )
    )
    assert {s.loop(s.loops(x)[1]).kind == "parallel" for x in s.stages} == {shared}


def test_threads_take_columns_where_rows_depend_on_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "2")
    text = """
def substitute(L: "float64[{n}, {n}]", B: "inout float64[{n}, {m}]"):
    for i in range({n}):
        for k in range(i):
            for j in range({m}):
                B[i, j] -= L[i, k] * B[k, j]
"""
    large, small = (lp.Schedule(lp.parse(text.format(n=n, m=m))) for n, m in ((96, 256), (9, 16)))
    t = cpu(large)
    assert t.loop(t.loops("B")[0]).kind == "parallel"
    assert not any(cpu(small).loop(x).kind == "parallel" for x in cpu(small).loops())
    rng = np.random.default_rng(0)
    low, ours = np.eye(96)[rng.integers(0, 96, 96)], rng.integers(-9, 9, (96, 256)).astype(np.float64)
    exact = ours.copy()
    for i in range(96):
        exact[i] -= low[i, :i] @ exact[:i]
    t.build("llvm", threads=2)(low, ours)
    np.testing.assert_array_equal(ours, exact)


@pytest.mark.parametrize("columns", [8192, 16 * 509])
def test_a_prime_number_of_vectors_is_dealt_out_as_any_other(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "2")
    t = cpu(lp.Schedule(lp.cumsum(lp.placeholder((64, columns), "float32", name="x"), axis=0)), lanes=16)
    outer = t.loop(t.loops()[0])
    assert (outer.kind, getattr(outer.extent, "value", None)) == ("parallel", 2)


@pytest.mark.parametrize(
    ("axis", "kinds"), [(1, ["parallel", "serial", "serial", "vectorize"]), (2, ["parallel", "serial"])]
)
def test_scans_inside_free_loops_keep_these_apart(axis: int, kinds: list[str]) -> None:
    """Loops along memory are no single one where one of them carries a dependence, and another one is free."""
    plain = lp.Schedule(lp.cumsum(lp.placeholder((3, 5, 40), "float32", name="x"), axis).named("y"))
    s = cpu(plain, 8)
    assert [s.loop(x).kind for x in s.loops("cumsum")] == kinds
    assert_equivalent(plain, s)


def test_a_loop_along_memory_is_brought_inside() -> None:
    """In a nest of several statements, where normal forms do not reorder."""
    s = lp.Schedule(
        parse("""
def f(A: "float64[20, 20]", B: "float64[20, 33]", C: "inout float64[20, 33]"):
    for i in range(20):
        for j in range(33):
            for k in range(i):
                C[k, j] = sum(B[i, j] * A[i, k], over=i)
        for j1 in range(33):
            C[i, j1] = C[i, j1] * 2.0
""")
    )
    made = cpu(s)
    assert all(made.loop(made.loops(x)[-1]).kind == "vectorize" for x in made.stages)
    assert_equivalent(made.func, s.func)


def test_lanes_that_would_wait_for_the_vector_stored_last_are_not_taken() -> None:
    """A sweep of every other element in place, whose guards make lanes legal."""
    s = lp.Schedule(
        parse("""
def f(A: "inout float64[40, 40]"):
    for c in range(2):
        for i in range(38):
            for j in range(38):
                if (i + j) % 2 == c:
                    A[i + 1, j + 1] = 0.25 * (A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + 2])
""")
    )
    assert inner_vectors(s, "A", lanes=8).func is s.func
    ahead = lp.Schedule(parse('def f(A: "inout float64[40, 41]"):\n    for c in range(2):\n'
                              "        for j in range(40):\n            A[c, j] = A[c, j + 1] * 2.0\n"))  # fmt: skip
    assert "vectorize" in str(inner_vectors(ahead, "A", lanes=8))


@pytest.mark.parametrize(("columns", "copied"), [(32, True), (16, False)])
def test_a_column_that_many_vectors_need_is_copied_once(columns: int, copied: bool) -> None:
    s = lp.Schedule(
        lp.parse(f"""
def f(A: "int32[20, 20]", B: "inout int32[20, {columns}]"):
    for i in range(20):
        for j in range({columns}):
            for k in range(19 - i):
                B[i, j] += A[i + 1 + k, i] * B[i + 1 + k, j]
""")
    )
    t = inner_vectors(normalized(s), "B", lanes=2)
    assert ("A_global" in lp.text(t.func)) == copied
    assert_equivalent(s, t)


RECORDS = """
def f(A: "inout float32[2, 65]"):
    for t in range(5):
        for i in range(32):
            with alloc("float32[]", scope="local") as a, alloc("float32[]", scope="local") as b:
                a[()] = A[t % 2, i]
                b[()] = A[t % 2, i + 32]
                A[(t + 1) % 2, i * 2{first}] = a[()] * 0.5
                A[(t + 1) % 2, i * 2{second}] = b[()] - 1.0
"""


@pytest.mark.parametrize(("first", "second", "whole"), [("", " + 1", True), (" + 1", "", True), ("", " + 2", False)])
def test_records_are_stored_by_vectors(first: str, second: str, whole: bool) -> None:
    """Each statement leaves gaps between its lanes; where the two do not fill them, a vector takes longer."""
    s = lp.Schedule(parse(RECORDS.format(first=first, second=second)))
    made = inner_vectors(s, s.stages[0], lanes=8)
    assert any(made.loop(x).kind == "vectorize" for x in made.loops()) == whole
    x = np.random.default_rng(0).integers(-9, 9, (2, 65)).astype(np.float32)
    got = x.copy()
    made.build("llvm")(got)
    np.testing.assert_array_equal(got, lp.interpret(s.func, {"A": x.copy()})["A"])
