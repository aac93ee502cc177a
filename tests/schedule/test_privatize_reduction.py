"""privatize_reduction: folds keep their meaning for every monoid, guard and loop; refusals by message."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

from loopir.errors import ScheduleError
from loopir.ir.grammar import Arg, Reduce
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths_of
from loopir.schedule import Schedule
from loopir.schedule.primitives.reduction.privatize_reduction import privatize_reduction

FOLDS = ("{h} += {v}", "{h} = max({v})", "{h} = min({v})", "{h} = prod({v})")


@st.composite
def scatters(draw: st.DrawFn) -> str:
    """A nest that folds into elements that memory, or loops, choose, under a guard perhaps."""
    t = draw(st.sampled_from(("int32", "float32")))
    element = draw(st.sampled_from(("h[x[i, j] % 3, k]", "h[i % 3, j % 2]", "h[2, k]")))
    line = draw(st.sampled_from(FOLDS)).format(h=element, v=f"{t}(x[i, j] + k)")
    head = f'def f(n: "size", x: "uint8[n, 4]", h: "inout {t}[3, 2]"):'
    guard = ["            if x[i, j] < 9 + k:"] if draw(st.booleans()) else []
    loops = ["    for i in range(n):", "        for j in range(4):", "          for k in range(2):"]
    return "\n".join([head, *loops, *guard, f"                {line}"])


@settings(max_examples=25, deadline=None)
@given(scatters(), st.sampled_from("ijk"), st.integers(0, 9))
def test_folds_into_a_copy_are_the_same(source: str, at: str, seed: int) -> None:
    before = parse(source)
    after = privatize_reduction(before, "h", at, "global")
    for n in (0, 1, 3):
        assert_same(before, after, {"n": n}, seed)


@settings(max_examples=25, deadline=None)
@given(scatters(), st.sampled_from("ijk"), st.booleans(), st.integers(0, 9))
def test_folds_into_partial_results_and_after_a_fill_are_the_same(
    source: str, at: str, filled: bool, seed: int
) -> None:
    """By rfactor, whose loop then is independent; into an array of the caller, or one that a nest before has filled."""
    if filled:
        head, rest = source.split("\n", 1)
        fill = '    for p in range(3):\n        for q in range(2):\n            h[p, q]: "fill" = 5\n'
        source = f"{head.replace('inout', 'out')}\n{fill}{rest}"
    before = parse(source)
    private = privatize_reduction(before, "h", at, "global")
    for n in (0, 1, 3):
        assert_same(before, private, {"n": n}, seed)
    s = Schedule(before)
    if "x[i, j] % 3" in source:
        parts = s.rfactor("h", at)
        for n in (0, 1, 3):
            assert_same(before, parts.func, {"n": n}, seed)
        assert parts.why("parallel", at) is None


def test_a_result_may_be_written_whole_by_split_loops() -> None:
    f = parse('def f(x: "uint8[8]", h: "out int32[4]"):\n    for p in range(4):\n        h[p]: "fill" = 0\n'
              "    for i in range(8):\n        if x[i] < 4:\n            h[x[i]] += 1\n")  # fmt: skip
    after = Schedule(f).split("p", 3).privatize_reduction("h", "i", "global")
    assert_same(f, after.func, {})


def test_a_result_that_is_not_whole_is_refused() -> None:
    head = 'def f(x: "uint8[8]", h: "out int32[4]"):\n    for p in range(3):\n        h[p]: "fill" = 0\n'
    f = parse(head + "    for i in range(8):\n        if x[i] < 3:\n            h[x[i]] += 1\n")
    with pytest.raises(ScheduleError, match="h is no array that the caller gives, nor seen to be written whole before"):
        privatize_reduction(f, "h", "i")


def test_folds_stay_atomic_in_the_result_alone() -> None:
    f = parse(
        'def f(x: "uint8[8]", h: "inout int32[9]"):\n    for i in range(8):\n        h[x[i]] = sum(1, atomic=True)'
    )
    after = privatize_reduction(f, "h", "i")
    atomic = {p.stmt.label: p.stmt.atomic for p in leaf_paths_of(after) if isinstance(p.stmt, Reduce)}
    assert atomic == {"h_local": False, "h": True}
    assert any(isinstance(p, Arg) and p.buffer.name == "h" for p in after.params)


@pytest.mark.parametrize(
    ("line", "at", "scope", "why"),
    [
        ("for k in range(2):\n            h[x[k]] += h[0]", "i", "local", "h .* h in the same iteration of 'i'"),
        ("h[x[i]] += 1\n        g[i] = h[1]", "i", "local", "g reads h in the same iteration of 'i'"),
        ('h[x[i]] += 1\n        h[0]: "s" = 3', "i", "local", "s writes h in the same iteration of 'i'"),
        ("if h[1] < 4:\n            h[x[i]] += 1", "i", "local", "reads h in the same iteration of 'i'"),
        ("g[x[i]] = sum(1, init=0)\n        h[0] = 3", "i", "local", "stage 'h' is no reduction"),
        ("h[x[i]] += 1", "i", "near", "there is no scope 'near'"),
    ],
)
def test_refusals(line: str, at: str, scope: str, why: str) -> None:
    head = 'def f(x: "uint8[8]", h: "inout int32[256]", g: "inout int32[256]"):\n    for i in range(8):\n'
    with pytest.raises(ScheduleError, match=why):
        privatize_reduction(parse(f"{head}        {line}"), "h", at, scope)


def test_memory_that_nothing_has_filled_is_not_read() -> None:
    f = parse(
        'def f(x: "uint8[8]", y: "out int32[8]"):\n    with alloc("int32[256]") as h:\n        for i in range(8):\n'
        "            h[x[i]] += 1\n        for j in range(8):\n            y[j] = h[j]"
    )
    with pytest.raises(ScheduleError, match="h is no array that the caller gives"):
        privatize_reduction(f, "h", "i")


def test_memory_of_the_iterations_own_is_not_folded_into_around_its_allocation() -> None:
    f = parse(
        'def f(A: "int32[8]", S: "inout int32[2]"):\n    for i in range(8):\n'
        '        with alloc("int32[2]") as T:\n            for x in range(2):\n                T[x] = S[x]\n'
        "            T[0] += A[i]\n            for y in range(2):\n                S[y] = T[y]"
    )
    with pytest.raises(ScheduleError, match="T is allocated in 'i', so that each of its iterations has its own"):
        privatize_reduction(f, "T_1", "i")


def test_others_may_touch_other_elements_and_earlier() -> None:
    """C reads an element of its own iteration, before which those lie that are folded into; one is stored before."""
    before = parse("""
def f(n: "size", A: "int32[n]", B: "inout int32[n + 1]", C: "out int32[n]"):
    for i in range(n):
        B[0]: "start" = A[i]
        for k in range(i):
            B[k] += A[i]
        C[i] = B[i]
        B[n]: "s" = 3
        B[0] += 1
""")
    after = privatize_reduction(before, "B", "i")
    for n in range(4):
        assert_same(before, after, {"n": n})
    with pytest.raises(ScheduleError, match=r"B at \(i=0, k=0\) writes B\[0\], which C at \(i=0\) reads later"):
        privatize_reduction(parse(str(before).replace("range(i)", "range(i + 1)")), "B", "i")
