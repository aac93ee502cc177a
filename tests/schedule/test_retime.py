"""retime against brute force on random nests, and by example: memory in turn, few iterations, lowered products."""

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from meaning import assert_same
from random_nests import assert_exact, assert_sound, trees

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Int
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths, loops
from loopir.schedule.primitives.loops.retime import retime
from loopir.testing.generate.candidate_steps import candidate_steps
from loopir.testing.generate.guarded import guarded
from loopir.testing.legality import verdict


@st.composite
def retimings(draw: st.DrawFn, exact: bool, own: bool) -> tuple[Func, str, list[str], int, str | None]:
    """A nest, one of its loops, stages that are to run later, by how much, and before which other one."""
    source = draw(trees(exact=exact, own=own))
    assume(not exact or "max(" not in source)  # of such a length the witness is one, and may not be the least
    f = parse(source)
    loop = draw(st.sampled_from([*loops(f.body)]))
    inside = [p.stmt.label for p in leaf_paths(loop.body)]
    late = draw(st.lists(st.sampled_from(inside), min_size=1, max_size=max(1, len(inside) - 1), unique=True))
    before = draw(st.sampled_from([None, *(x for x in inside if x not in late)]))
    return f, loop.var, late, draw(st.sampled_from((1, 1, 2, 3))), before


@settings(max_examples=30, deadline=None)
@given(retimings(exact=True, own=False))
def test_retime_is_exact(some: tuple[Func, str, list[str], int, str | None]) -> None:
    f, loop, late, by, before = some
    assert_exact("retime", f, loop, *late, by=by, before=before)


@settings(max_examples=15, deadline=None)
@given(retimings(exact=False, own=False))
def test_retime_is_sound_for_what_it_does_not_see(some: tuple[Func, str, list[str], int, str | None]) -> None:
    f, loop, late, by, before = some
    assert_sound("retime", f, loop, *late, by=by, before=before)


VALUES = ("A[i]", "T[0]", "T[1] + 1.0", "U[0]", "B[i]", "B[i + 1]", "C[i] * 2.0", "A[i] + T[0]")
PLACES = ("T[0]", "T[1]", "U[0]", "B[i]", "B[i + 1]", "C[i]", "C[i + 2]")


@st.composite
def chains(draw: st.DrawFn) -> Func:
    """A loop over statements that hand values on through memory of the iteration, and of all."""
    lines = [
        f'            {draw(st.sampled_from(PLACES))}: "s{n}" = {draw(st.sampled_from(VALUES))}'
        for n in range(draw(st.integers(2, 4)))
    ]
    return parse(
        'def f(n: "size", A: "float32[n + 3]", B: "inout float32[n + 3]", C: "inout float32[n + 3]"):\n'
        "    for i in range(n):\n"
        '        with alloc("float32[2]") as T, alloc("float32[1]") as U:\n'
        '            T[0]: "t0" = A[i] + 1.0\n            T[1]: "t1" = A[i + 1]\n            U[0]: "u" = T[0] * T[1]\n'
        + "\n".join(lines)
        + '\n            C[i]: "c" = T[0] + U[0]\n'
    )


@settings(max_examples=40, deadline=None)
@given(chains(), st.integers(1, 3), st.data())
def test_memory_of_an_iteration_is_taken_in_turn(f: Func, by: int, data: st.DataObject) -> None:
    inside = [p.stmt.label for p in leaf_paths(f.body)]
    late = inside[data.draw(st.integers(1, len(inside) - 1)) :]
    before = data.draw(st.sampled_from([None, *(x for x in inside if x not in late)]))
    try:
        new = retime(f, "i", *late, by=by, before=before)
    except ScheduleError:
        return
    for n in range(by + 3):
        assert_same(f, new, {"n": n})


def test_the_last_stages_of_a_chain_may_always_run_later() -> None:
    s = lp.Schedule(
        parse("""
def f(n: "size", A: "float32[n]", B: "out float32[n]"):
    for i in range(n):
        with alloc("float32[1]") as T, alloc("float32[1]") as U:
            T[0] = A[i] * 2.0
            U[0] = T[0] + 1.0
            B[i] = U[0] * T[0]
""")
    )
    t = s.retime("i", "B", by=2)
    assert t.buffer("T").shape == t.buffer("U").shape == (Int(3), Int(1))
    assert s.retime("i", "B", "U").buffer("U").shape == (Int(1),)  # which stays where both stand together
    for n in range(6):
        assert_same(s.func, t.func, {"n": n})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"late": ("B",), "by": 4}, "has only 4 iterations, and stages would run 4 later"),
        ({"late": ("D",)}, "stage 'D' is not in loop 'i'"),
        ({"late": ()}, "no stage of 'i' is named to run later"),
    ],
)
def test_refusals(call: dict[str, object], told: str) -> None:
    f = parse("""
def f(A: "float32[4]", B: "out float32[4]", S: "out float32[1]", D: "out float32[1]"):
    D[0] = 0.0
    for i in range(4):
        B[i] = A[i]
        S[0] = sum(A[i], over=i, init=0.0)
""")
    with pytest.raises(ScheduleError, match=told):
        retime(f, "i", *call["late"], by=call.get("by", 1))  # type: ignore[misc,arg-type]


@pytest.mark.parametrize("late", ["B", "S"])
@pytest.mark.parametrize("by", [1, 3])
def test_a_fold_over_the_loop_starts_in_the_first_part_that_has_it(late: str, by: int) -> None:
    f = parse("""
def f(n: "size", A: "float32[n]", B: "out float32[n]", S: "out float32[1]"):
    for i in range(n):
        B[i] = A[i]
        S[0] = sum(A[i], over=i, init=1.0)
""")
    s = lp.Schedule(f).retime("i", late, by=by)
    assert str(s).count("init=") == 1
    for n in range(by + 3):
        assert_same(f, s.func, {"n": n})


def test_a_fold_that_would_start_after_what_is_read_or_written_there_first_is_refused() -> None:
    f = parse("""
def f(A: "float32[8]", B: "out float32[8]", S: "out float32[1]"):
    for i in range(8):
        S[0] = sum(A[i], over=i, init=1.0)
        B[i] = S[0]
""")
    with pytest.raises(ScheduleError, match=r"S \(its init\) at \(\) writes S\[0\], which B at \(i=0\) reads later"):
        retime(f, "i", "S")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(guarded(), st.data())
def test_folds_that_start_keep_their_values(f: Func, data: st.DataObject) -> None:
    for step in data.draw(st.permutations(candidate_steps(f, "retime")))[:6]:
        found, told = verdict(f, step)
        assert found not in ("accepted, illegal", "crash"), f"{step}\n{told}"


@pytest.mark.parametrize(("stage", "by"), [("X", 1), ("Y", 2)])
def test_a_fold_over_the_loop_whose_element_then_depends_on_it(stage: str, by: int) -> None:
    """The last iteration's element is reached by the loop's own length, which the fold is over; with by=2, so are those
    of X, which runs min(2, i + 1) iterations ahead."""
    s = lp.Schedule(
        lp.parse("""
def triangles(n: "size", A: "float64[n, n]", X: "inout float64[n]", Y: "inout float64[n]"):
    for i in range(n):
        for j in range(i + 1):
            X[j] = sum(A[i, j] * 2.0, over=i)
            Y[j] = Y[j] + A[i, j]
""")
    )
    late = s.retime("j", stage, by=by)
    for n in range(5):
        assert_same(s.func, late.func, {"n": n})


def test_values_that_nobody_looks_at_may_be_others() -> None:
    """What is stored to X in the loop is overwritten after it."""
    source = """
def f(A: "float32[4]", X: "inout float32[1]", Y: "out float32[4]"):
    for i in range(4):
        Y[i] = A[i]
        X[0]: "b" = A[i]
        X[0]: "c" = 1.0
    X[0] = 2.0
"""
    func = parse(source)
    assert_same(func, retime(func, "i", "b"), {})
    with pytest.raises(ScheduleError, match="would reverse two dependent accesses"):
        retime(parse(source.replace("    X[0] = 2.0\n", "")), "i", "b")
