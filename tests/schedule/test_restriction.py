"""A nest that moves runs for what is read there, and folds start all the same."""

import pytest
from meaning import assert_same
from test_placement_cases import BESIDE, nest, same

from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule


def test_a_nest_that_is_not_restricted_moves_as_it_is() -> None:
    """It is the same object in its new place; what goes is the one that stood where it was."""
    f = parse(
        """
def f(A: "float32[9]", B: "out float32[9, 9]"):
    with alloc("float32[3]") as T:
        for i in range(3):
            T[i] = A[i] + A[i + 1]
        for j in range(9):
            for k in range(9):
                B[j, k] = T[0] + T[1] * T[2]
"""
    )
    s = Schedule(f).reverse_compute_at("B", "i")
    assert s.loops("B") == ("i", "j", "k")
    assert s.loops() == ("i", "j", "k")
    assert_same(f, s.func, {})


def test_a_fold_that_starts_outside_starts_all_the_same() -> None:
    s = nest(BESIDE.format(xs="min(m, 3)", hs="min(m, 3)"), 'A: "float32[9]", B: "inout float32[9]"')
    with pytest.raises(ScheduleError, match=r"no iteration of 'x' would compute B"):
        s.reverse_compute_at("B", "x")


def test_a_stage_that_would_run_nowhere_is_missed() -> None:
    s = nest("""
for s in range(3):
    if s < 1:
        for j in range(2):
            A[j] = B[j + 2] * 2.0
    if 2 <= s:
        for h in range(2):
            B[h + 1] = A[h]
""")
    with pytest.raises(ScheduleError, match="would not be computed"):
        s.compute_at("A", "h")


@pytest.mark.parametrize("tail", [None, "guard", "peel"])
def test_what_a_quotient_of_fused_loops_reads_stays_inside(tail: str | None) -> None:
    """`i // 2` becomes `i_j // (2 * m + 6)`, of which the extent is no multiple."""
    s = Schedule(
        parse("""
def f(n: "size", m: "size", A: "float32[n + 6, m + 6]", B: "out float32[n + 3, m + 3]"):
    for i in range(n + 3):
        for j in range(m + 3):
            B[i, j] = A[i // 2, i % 3] + A[i + 1, j // 3]
""")
    )
    fused = s.fuse("i", "j")
    assert "// (m * 2 + 6)" in str(fused)
    same(s, fused if tail is None else fused.split("i_j", 2, tail=tail))
    short = Schedule(parse(str(fused).replace('A: "float32[n + 6', 'A: "float32[(n + 3) // 2')))
    assert find_out_of_bounds(short.func) is not None
