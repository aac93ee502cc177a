"""Placement by example: what other compilers get wrong, what is refused and why, and what must not be refused."""

import importlib
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from meaning import assert_same, require_decided
from stages import programs

import loopir as lp
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.errors import InterpretError, ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.testing.generate import nests
from loopir.testing.generate.candidate_steps import candidate_steps
from loopir.testing.generate.families import forms
from loopir.testing.legality import verdict

GRID = [{"n": n, "m": m} for n, m in ((0, 0), (1, 1), (2, 3), (5, 4), (6, 1))]


def nest(body: str, scope: str = 'A: "inout float32[9]", B: "inout float32[9]"') -> Schedule:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return Schedule(parse(f'def f(n: "size", m: "size", {scope}):\n    assume(n <= 6 and m <= 6)\n{lines}\n'))


CHAIN = """
with alloc("float32[9]") as T, alloc("float32[9]") as U:
    for i in range(9):
        T[i] = A[i] * 2.0
    for j in range(8):
        U[j] = T[j] + T[j + 1]
    for k in range(8):
        B[k] = U[k] * 3.0
"""


def same(before: Schedule, after: Schedule) -> None:
    assert find_out_of_bounds(after.func) is None
    for sizes in GRID:
        assert_same(before.func, after.func, {k: v for k, v in sizes.items() if k in before.func.sizes})


# ---------------------------------------------------------------- what goes wrong elsewhere


def test_a_loop_that_holds_a_stage_is_vectorized_only_if_lanes_agree() -> None:
    s = nest(CHAIN)
    own = s.compute_at("T", "j").split("j", 4).vectorize("j_i")
    same(s, own)
    window = s.compute_at("T", "j", store="root").split("j", 4)
    same(s, window.vectorize("j_i"))
    with pytest.raises(ScheduleError, match="the lanes of 'j_i' would run together"):
        window.fold_storage("T", 0, 2).vectorize("j_i")


def test_a_stage_does_not_move_past_what_reads_it() -> None:
    s = nest(CHAIN)
    with pytest.raises(ScheduleError, match="U runs before 'k'"):
        s.reverse_compute_at("U", "k")
    shared = nest("""
with alloc("float32[9]") as T:
    for i in range(9):
        T[i] = A[i] * 2.0
    for j in range(9):
        B[j] = T[j] + A[j]
    for k in range(9):
        A[k] = B[8 - k]
""")
    with pytest.raises(ScheduleError, match="the other way round"):
        shared.reverse_compute_at("A", "j")


def test_a_stage_with_two_readers_is_not_folded_into_its_store() -> None:
    s = nest(CHAIN.replace("U[k] * 3.0", "U[k] * T[k]"))
    with pytest.raises(ScheduleError, match="B reads T, too"):
        s.reverse_compute_inline("U")


# ---------------------------------------------------------------- refusals


REFUSED = {
    ("compute_at", "T", "j", "T is written by T and T_1"): CHAIN.replace("    for j", "    T[0] = 1.0\n    for j"),
    ("compute_at", "T", "j", "T is computed from T itself"): CHAIN.replace("A[i] * 2.0", "T[i] + A[i]"),
    ("compute_at", "T", "j", "more than one iteration of 'j' would compute T at"): CHAIN.replace(
        "A[i] * 2.0", "sum(A[i])"
    ),
    ("compute_at", "T", "k", "nothing in 'k' reads T"): CHAIN,
    ("compute_at", "T", "j", "writes A, and would move with it"): CHAIN.replace(
        "        T[i] = A[i] * 2.0", "        T[i] = A[i] * 2.0\n        A[i] = 1.0"
    ),
    ("compute_at", "T", "k", r"B at \(k=0\) writes A\[1\]|the other way round"): """
with alloc("float32[9]") as T:
    for i in range(9):
        T[i] = A[i] * 2.0
    for k in range(8):
        A[k + 1] = T[k] + T[k + 1]
""",
    ("reverse_compute_at", "U", "i", "no iteration of 'i' would compute U"): CHAIN.replace("range(9)", "range(5)", 1),
    ("reverse_compute_at", "B", "i", "B reads nothing that 'i' writes"): CHAIN,
    ("reverse_compute_at", "B", "x", "in 'x', where B starts would depend on k, which it folds over"): """
for k in range(3):
    with alloc("float32[6]") as T:
        for x in range(8):
            if k <= x and x < k + 6:
                T[x - k] = A[x]
        for y in range(6):
            B[0] = max(T[y], over=k, init=A[y])
""",
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused(case: tuple[str, str, str, str]) -> None:
    primitive, stage, loop, message = case
    s = nest(REFUSED[case])
    with pytest.raises(ScheduleError, match=message):
        getattr(s, primitive)(stage, loop)


def test_an_epilogue_needs_all_that_is_folded() -> None:
    s = Schedule(nests.symbolic("matmul")).split("k", 4)
    tiled = lp.Schedule(s.func).reorder("k_o", "i", "j", "k_i")
    assert tiled.why("compute_at", "C", "k_o") is not None


# ---------------------------------------------------------------- what must not be refused


@settings(max_examples=30, deadline=None)
@given(forms(("sheared",)), st.data())
def test_a_fold_that_starts_outside_moves_with_its_start_or_stays(func: lp.Func, data: st.DataObject) -> None:
    listed = [
        step
        for name in ("reverse_compute_at", "reverse_compute_inline", "compute_at", "compute_inline", "compute_root")
        for step in candidate_steps(func, name)
    ]
    step = data.draw(st.sampled_from(listed))
    found, told = verdict(func, step)
    assert found not in ("accepted, illegal", "refused, legal", "crash"), f"{step}\n{told}"


def refused_though_legal(name: str, checks: tuple[str, ...], s: Schedule, args: tuple[Any, ...]) -> bool:
    """Whether a step is refused by one of `checks` alone, and yet means the same at every size tried, and at those that
    the refusal names."""
    module = importlib.import_module(f"loopir.schedule.primitives.placement.{name}")
    refused = s.why(name, *args)
    if refused is None:
        return False
    require_decided(refused)
    named = [(int(n), int(m)) for n, m in re.findall(r"\(at n=(\d+), m=(\d+)\)", str(refused))]
    with pytest.MonkeyPatch.context() as patch:
        for check in checks:
            patch.setattr(module, check, lambda *_: None)
        try:
            forced = getattr(s, name)(*args)
        except ScheduleError:
            return False
    try:
        for n, m in [*named, *product(range(5), repeat=2), (12, 0), (0, 12)]:
            assert_same(s.func, forced.func, {"n": n, "m": m})
    except (AssertionError, InterpretError):
        return False
    return True


LOST_FROM_FOUR_ON = """
def f(n: "size", m: "size", A: "float32[n + 6, m + 6]", W: "float32[m + 7]", S2: "out float32[n + 1]"):
    with alloc("float32[m + 4, n + 4]") as S0, alloc("float32[n + 4]") as S1:
        for i0 in range(m + 4):
            for j0 in range(n + 4):
                S0[i0, j0] = W[i0] * 2.0
        for i1 in range(n + 4):
            S1[i1] = S0[min(i1, m + 3), i1] + S0[0, i1] * 2.0
        for i2 in range(n + 1):
            S2[i2] = S0[min(2 * i2, m + 3), i2] * 2.0
"""
"""S0 in i1 has n + 4 rows, and S2 reads row 2 * n: an element is lost at n = 4, m = 5 for the first time."""


@settings(max_examples=8, deadline=None)
@given(programs(3))
@example(LOST_FROM_FOUR_ON)
def test_no_legal_placement_is_refused_for_order_or_coverage(source: str) -> None:
    s = Schedule(parse(source))
    for stage in s.stages:
        for loop in s.loops():
            assert not refused_though_legal("compute_at", ("_require_order", "_require_all"), s, (stage, loop))


@pytest.mark.parametrize("program", ["blur", "layernorm", "attention", "stencils", "conv2d", "matmul"])
def test_each_stage_goes_to_the_rows_of_the_last(program: str) -> None:
    s = base = Schedule(nests.symbolic(program))
    row = s.loops(s.stages[-1])[0]
    for stage in reversed(s.stages[:-1]):
        s = s.compute_at(stage, row)
    assert all(row in s.loops(stage) for stage in s.stages)
    assert base.func is s.func or len(s.trace) == len(base.stages) - 1


def test_a_loop_with_nothing_in_it_is_no_place() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[1]"):
    with alloc("float32[1]") as T:
        for h in range(1):
            T[h] = A[h]
        for i in range(1):
            for j in range(4):
                pass
""")
    )
    with pytest.raises(ScheduleError, match="nothing in 'i' reads T"):
        s.compute_at("T", "i")


def test_a_stage_of_fused_loops_that_is_moved_is_refused_with_an_element() -> None:
    """What is missing was asked for its least value, and a quotient by a size has no end that is seen."""
    s = Schedule(
        parse("""
def f(n: "size", m: "size", Y: "out int32[n + 1, m + 1]", T: "out int32[1]"):
    for i in range(m + 1):
        for j in range(n + 1):
            Y[n - j, m - i]: "update" = -1
    for i_1 in range(min(m, 3)):
        T[0]: "update_1" = Y[min(i_1 + 1, n), min(i_1 + 1, m)]
""")
    )
    with pytest.raises(ScheduleError, match=r"would not be computed"):
        s.fuse("i", "j").compute_at("update", "i_1")


def test_a_stage_on_the_other_side_of_a_condition_is_refused() -> None:
    s = nest("""
for r in range(3):
    if r < 2:
        with alloc("float32[9]") as T:
            for i in range(9):
                T[i] = A[i]
            B[r] = T[8]
        with alloc("float32[9]") as U:
            for j in range(9):
                U[j] = A[j] * 2.0
            B[r + 3] = U[8]
    else:
        for k in range(9):
            B[k] = A[k]
""")
    with pytest.raises(ScheduleError, match="on two sides of a condition"):
        s.compute_at("T", "k")


ACCUMULATED = """
for i in range(9):
    for k in range(3):
        B[i] = sum(A[i] * 2.0, over=k)
for r in range(9):
    D[{at}] = B[r] + 1.0
"""
THREE = 'A: "float32[9]", B: "inout float32[9]", D: "inout float32[9]"'


def test_a_fold_into_what_is_there_is_computed_where_each_element_is_once() -> None:
    s = nest(ACCUMULATED.format(at="8 - r"), THREE)
    same(s, s.compute_at("B", "r"))


@pytest.mark.parametrize("read", ["B[r // 2]", "B[r] + B[8 - r]", "B[max(r - 1, 0)]"])
def test_a_fold_into_what_is_there_is_not_computed_again_nor_left_out(read: str) -> None:
    s = nest(ACCUMULATED.format(at="r").replace("B[r]", read), THREE)
    with pytest.raises(ScheduleError, match="iteration of 'r' would compute B at"):
        s.compute_at("B", "r")


BESIDE = """
for k in range(n):
    with alloc("float32[3]") as X:
        for x in range({xs}):
            X[x] = A[k + x]
        for h in range({hs}):
            B[0] = sum(X[h], over=(k, h), init=0.0)
"""


def test_a_fold_that_starts_outside_moves_beside_what_it_reads() -> None:
    s = nest(BESIDE.format(xs=3, hs=3), 'A: "float32[9]", B: "inout float32[9]"')
    same(s, s.reverse_compute_at("B", "x"))
    same(s, s.reverse_compute_inline("B"))
