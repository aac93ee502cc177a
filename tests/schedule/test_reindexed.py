"""Operands and results by iteration: what is computed where a stage does not run is refused, neighbours stay behind."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from meaning import assert_same

import loopir.intrinsics  # noqa: F401
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.errors import ScheduleError
from loopir.ir.grammar import ValueToIndex
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths_of, loops as loops_of, nodes
from loopir.schedule import Schedule
from loopir.testing.generate.steps import schedules, steps
from loopir.testing.generate.strategies import funcs

GUARDED = """
def f(n: "size", k: "size", X: "float32[n]", W: "float32[n, 4]", Y: "out float32[n]"):
    for i in range(n):
        for r in range(4):
            if i + r < n and r < k:
                Y[i] = sum(X[i + r] * W[i, r], over=r, init=0.0)
"""
NEIGHBOURS = """
def f(n: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as U:
        with alloc("float32[n]") as T:
            for i in range(n):
                T[i] = A[i] * 2.0
            for j in range(n):
                U[j] = T[j] + 1.0
        for k in range(n):
            B[k] = U[k] * U[n - 1 - k]
"""
WINDOWS = """
def f(n: "size", h: "size", X: "float32[n, h, h]", W: "float32[3, 4]", Y: "out float32[n, h, h, 4]"):
    with alloc("float32[n, h, h, 4]") as S:
        for b in range(n):
            for p in range(h):
                for q in range(h):
                    for c in range(4):
                        for r in range(3):
                            S[b, p, q, c] = sum(select(1 <= q + r and q + r < h + 1, X[b, p, q + r - 1], 0.0) * W[r, c], over=r, init=0.0)
        for b_1 in range(n):
            for p_1 in range(h):
                for q_1 in range(h):
                    for c_1 in range(4):
                        Y[b_1, p_1, q_1, c_1] = maximum(S[b_1, p_1, q_1, c_1], 0.0)
"""  # noqa: E501


def test_guards_of_the_loops_named_go_along() -> None:
    s = Schedule(parse(GUARDED))
    made = s.reindex("Y", "X")
    assert "if i_1 + r_1 < n and r_1 < k:" in str(made)
    for sizes in ({"n": 5, "k": 4}, {"n": 3, "k": 0}, {"n": 0, "k": 2}):
        assert_same(s.func, made.func, sizes)


def test_what_has_no_value_where_the_stage_does_not_run_is_refused() -> None:
    copied = GUARDED.replace("X[i + r]", "X[i + 1]").replace("i + r < n", "i + r + 1 < n")
    s = Schedule(parse(copied))
    made = s.reindex("Y", "X", "i")
    assert "if i_1 + 1 < n:" in str(made)
    for sizes in ({"n": 5, "k": 4}, {"n": 3, "k": 0}, {"n": 1, "k": 2}):
        assert_same(s.func, made.func, sizes)
    computed = copied.replace("X[i + 1]", "exp(X[i + 1])")
    with pytest.raises(ScheduleError, match=r"X_at would be computed where Y does not run: .* touches X\[1\]"):
        Schedule(parse(computed)).reindex("Y", "X", "i")


def test_a_copy_where_nothing_runs_divides_by_no_size_that_is_0() -> None:
    """Beside them were a divisor inside a divisor's subscript, and one that the guards kept say is positive."""
    s = Schedule(
        parse("""
def f(n: "size", m: "size", A: "float32[n]", Y: "inout float32[n]"):
    for k in range((n + 3) // 4):
        for i in range(4):
            if k * 4 + i < n:
                Y[k * 4 + i] = select(i < k, A[k * 4 + i] * 2.0, A[n - 1 - (i + 7 // (i // (m + 1) + 1)) % n])
""")
    )
    made = s.reindex("Y", "A", "i")
    assert "if 1 <= n:" in str(made)
    for n in (0, 1, 3, 9):
        assert_same(s.func, made.func, {"n": n, "m": 2})


def test_a_stage_moves_without_what_is_allocated_beside_it() -> None:
    s = Schedule(parse(NEIGHBOURS))
    made = s.compute_at("U", "k")
    assert made.loops("T") == ("i",)
    for n in (0, 1, 5):
        assert_same(s.func, made.func, {"n": n})


def test_windows_of_any_size_become_a_matrix() -> None:
    s = Schedule(parse(WINDOWS))
    made = s.fuse_dims("S", 0, 3)
    for loops in (("p", "q"), ("b", "p_q"), ("p_1", "q_1"), ("b_1", "p_1_q_1")):
        made = made.fuse(*loops)
    assert "S[b_p_q, c]" in str(made)
    made = made.reindex("S", "X", "b_p_q", "r").split("b_1_p_1_q_1", 4).compute_at("S", "b_1_p_1_q_1_o")
    made = made.compute_at("X_at", "b_1_p_1_q_1_o")
    assert 'alloc("float32[4, 3]") as X_at' in str(made)
    for sizes in ({"n": 2, "h": 3}, {"n": 1, "h": 1}, {"n": 0, "h": 2}):
        assert_same(s.func, made.func, sizes)


def test_a_stored_value_read_from_a_buffer_of_another_rank() -> None:
    s = Schedule(
        parse(
            """
def f(n: "size", A: "float32[n]", Y: "out float32[n, 3]"):
    with alloc("float32[]") as T:
        T[()] = 2.0
        for i in range(n):
            for j in range(3):
                Y[i, j] = T[()]
"""
        )
    )
    for n in (0, 1, 4):
        assert_same(s.func, s.reindex("Y", "Y", "j").func, {"n": n})


def test_a_constant_is_kept_where_the_stage_may_not_run() -> None:
    s = Schedule(parse('def f(n: "size", Y: "out float32[n]"):\n    for i in range(n):\n        Y[i] = 1.0\n'))
    for n in (0, 3):
        assert_same(s.func, s.reindex("Y", "Y").func, {"n": n})


RAGGED = """
def f(n: "size", L: "int32[n]", A: "float32[n, 8]", B: "out float32[n]", C: "out float32[n]"):
    for b in range(n * 2):
        if b < n:
            B[b] = A[b, 0]
        else:
            for j in range(L[b - n] % 5):
                C[b - n] = sum(A[b - n, j] * 2.0, over=j, init=0.0)
"""


@pytest.mark.parametrize("at", [None, "b"])
def test_lengths_in_memory_are_asked_under_their_guards(at: str | None) -> None:
    s = Schedule(parse(RAGGED))
    made = s.reindex("C", "A", at=at)
    for n in (0, 1, 4):
        assert_same(s.func, made.func, {"n": n})


def test_a_guard_that_the_copy_lacks_guards_no_length_in_memory() -> None:
    s = Schedule(parse(RAGGED.replace("if b < n:", "if b < n or L[b - n] < 2:")))
    s.reindex("C", "A")
    loose = parse(
        """
def f(n: "size", L: "int32[n]", A: "float32[8]", C: "out float32[n]"):
    for b in range(n * 2):
        if n <= b:
            for j in range(L[b - n] % 5):
                C[b - n] = sum(A[j] * 2.0, over=j, init=0.0)
"""
    )
    with pytest.raises(ScheduleError, match="the extent of 'j' depends on 'b'"):
        Schedule(loose).reindex("C", "A", "j")


@pytest.mark.parametrize("at", [None, "i"])
def test_what_the_nest_writes_before_it_is_read_decides_and_not_its_name(at: str | None) -> None:
    s = Schedule(
        parse(
            """
def f(n: "size", X: "inout float32[n + 4]"):
    for i in range(n // 4):
        for j in range(4):
            X[i * 4 + j + 4] = X[i * 4 + j] * 2.0
"""
        )
    )
    if at is None:
        with pytest.raises(ScheduleError, match=r"X at \(i=0, j=0\) writes X\[4\], which X at \(i=1, j=0\) reads"):
            s.reindex("X", "X")
        return
    for n in (0, 3, 9):
        assert_same(s.func, s.reindex("X", "X", at="i").func, {"n": n})


SELECTED = """
def f(n: "size", A: "float32[n]", X: "float32[n]", Y: "out float32[n]"):
    with alloc("float32[n]") as T:
        for h in range(n):
            if {written}:
                T[h] = X[h] + 1.0
        for i in range(n):
            Y[i] = select(1 <= i, {chosen}, A[i])
"""


@pytest.mark.parametrize("at", [None, "i"])
@pytest.mark.parametrize(
    ("buffer", "chosen", "written"),
    [
        ("X", "X[i - 1]", "0 <= n"),
        ("T", "T[i - 1]", "0 <= n"),
        ("T", "T[i]", "1 <= h"),
        ("X", "X[i] * 2.0", "0 <= n"),
        ("X", "select(i < 3, X[i - 1], A[i] + X[i - 1])", "0 <= n"),
    ],
)
def test_a_copy_of_what_is_selected_reads_only_what_there_is(
    buffer: str, chosen: str, written: str, at: str | None
) -> None:
    s = Schedule(parse(SELECTED.format(chosen=chosen, written=written)))
    made = s.reindex("Y", buffer, at=at)
    for n in (0, 1, 2, 5):
        assert_same(s.func, made.func, {"n": n})


@pytest.mark.parametrize(
    ("buffer", "chosen", "told"),
    [("X", "X[i - 1] * 2.0", "X\\[-1\\]"), ("T", "T[i] * 2.0", "T may not be written there")],
)
def test_a_value_that_is_not_always_selected_is_computed_only_where_it_is_known(
    buffer: str, chosen: str, told: str
) -> None:
    s = Schedule(parse(SELECTED.format(chosen=chosen, written="1 <= h")))
    with pytest.raises(ScheduleError, match=told):
        s.reindex("Y", buffer)


def test_a_value_that_is_selected_and_used_beside_is_always_computed() -> None:
    s = Schedule(parse(SELECTED.format(chosen="T[i] * 2.0", written="0 <= n").replace("A[i])", "A[i]) + T[i] * 2.0")))
    assert_same(s.func, s.reindex("Y", "T").func, {"n": 5})


@given(st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_copy_of_what_is_loaded_stays_inside(data: st.DataObject) -> None:
    """That is not asked when the copy is made: the guards that it gets are what would be asked. Of a loop whose length
    is in memory nobody can tell so where it ends."""
    s = data.draw(schedules(data.draw(funcs()), most=3, primitives=("split", "fuse", "peel", "skew")))
    if any(isinstance(n, ValueToIndex) for x in loops_of(s.func.body) for n in nodes(x.extent)):
        return
    step = data.draw(steps(s.func, ("reindex",)))
    try:
        made = s.apply(step).func
    except ScheduleError:
        return
    new = {p.stmt.label for p in leaf_paths_of(made)} - {p.stmt.label for p in leaf_paths_of(s.func)}
    assert find_out_of_bounds(s.func) is not None or not any(find_out_of_bounds(made, label) for label in new)


LANES = """
def f(A: "float32[8]", B: "out float32[4]"):
    with alloc("float32[5]") as T:
        for j in vectorize(8):
            if j < 4:
                T[j] = A[j]
            else:
                B[j - 4] = T[j - 4]
"""


@pytest.mark.parametrize("buffer", ["B", "T"])
def test_a_copy_in_lanes_reads_nothing_before_another_lane_has_written_it(buffer: str) -> None:
    """Lanes go on statement by statement, so a copy in front reads what the statement behind it has yet to write."""
    error = Schedule(parse(LANES)).why("reindex", "B", buffer, at="j")
    assert error is not None
    assert error.reason.startswith("with the copy, the lanes of 'j' would run together: T at (j=0) writes T[0]")
