"""Memory that decides where or how often something is done, which steps give the iteration or take from it."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing import assert_equivalent
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.families import forms
from loopir.testing.generate.steps import arguments_of
from loopir.testing.legality import JUDGED, verdict
from loopir.testing.oracles.brute_force import first_violation, small_sizes

OWN = """
def own(n: "size", A: "int32[n + 1]", B: "float32[n]", Y: "inout float32[5]"):
    for i in range(n):
        with alloc("int32[2]") as T:
            for k in range(2):
                T[k] = A[i + k]
            Y[T[1] % 5] = sum(B[i], over=i)
"""
STEPS = {
    "distribute": ("i", "T"), "compute_root": ("T",), "double_buffer": ("T", "i"), "unroll_and_jam": ("i", 2),
    "compute_inline": ("T",), "reverse_compute_inline": ("Y",),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_an_element_that_comes_to_depend_on_the_loop_is_not_folded_over_it(name: str) -> None:
    s = lp.Schedule(lp.parse(OWN))
    assert_equivalent(s, s.apply(Step(name, STEPS[name], ())))


UNWRITTEN = """
def f(n: "size", A: "int32[n]", S: "inout int32[4]"):
    with alloc("int32[1]") as T:
        for h in range(min(1, n)):
            T[0] = A[h]
        for i in range(n):
            for j in range(2):
                S[T[0] % 4] = sum(A[i], over=(i, j))
"""


TOLD = """
def f(n: "size", A: "int32[n + 3]", X: "int32[4]", Y: "inout int32[n + 1]"):
    with alloc("int32[1]") as T:
        {loop}T[0] = A[0]
        for i in range(n):
            for j in range({extent}):
                {body}
"""


@pytest.mark.parametrize("loop", ["i", "j"])
def test_an_element_is_not_asked_for_where_nothing_folds(loop: str) -> None:
    """With n = 0 no iteration asks T, which is not written; nor may the fold of the partial results, of j."""
    s = lp.Schedule(lp.parse(UNWRITTEN))
    why = s.why("rfactor", "S", loop)
    assert (why is None) == (loop == "i")
    assert why is None or "ask T where to" in why.reason
    assert first_violation(s.func, s.rfactor("S", "i").func, small_sizes(s.func)) is None


@pytest.mark.parametrize("body", ["Y[i] = X[T[0] % 4] * 2 + j", "Y[i] = sum(X[T[0] % 4] * A[i], over=j)"])
@pytest.mark.parametrize("filled", [False, True])
def test_an_element_is_copied_only_where_what_tells_it_is_written(body: str, filled: bool) -> None:
    s = lp.Schedule(lp.parse(TOLD.format(loop="" if filled else "for h in range(min(1, n)): ", extent=2, body=body)))
    why = s.why("cache_read", "Y", "X", "local")
    assert (why is None) == filled, why
    assert why is None or "read from T, also where Y never runs" in why.reason


@pytest.mark.parametrize("name", ["reorder", "wavefront"])
@pytest.mark.parametrize("filled", [False, True])
def test_an_extent_is_read_only_where_it_is_written(name: str, filled: bool) -> None:
    fill = "" if filled else "for h in range(min(1, n)): "
    s = lp.Schedule(lp.parse(TOLD.format(loop=fill, extent="T[0] % 3", body="Y[i] = sum(A[i] + j, over=j)")))
    why = s.why(name, *(("j", "i") if name == "reorder" else ("i", "j")))
    assert (why is None) == filled, why
    assert why is None or "would be read from T where it is not now" in why.reason


@pytest.mark.parametrize("name", ["local", "fragment"])
@pytest.mark.parametrize("filled", [False, True])
def test_an_element_is_copied_in_and_out_only_where_it_is_told(name: str, filled: bool) -> None:
    """Nothing is folded with n = 0, and T, which tells where to, is not written: nor may it be asked what to copy."""
    source = (
        UNWRITTEN if not filled else UNWRITTEN.replace("for h in range(min(1, n)):\n            T[0] = A[h]", "pass")
    )
    source = source.replace("pass", "T[0] = 2")
    s = lp.Schedule(lp.parse(source))
    why = s.why("cache_write", "S", name)
    assert (why is None) == filled, why
    assert why is None or "read from T, also where S never folds" in why.reason
    inner = s.cache_write("S", name, at="j")  # each iteration folds, and asks
    assert first_violation(s.func, inner.func, small_sizes(s.func)) is None


MASKED = """
def f(n: "size", A: "float32[n + 3]", L: "int32[n + 3]", Y: "inout float32[n + 3]"):
    with alloc("int32[1]") as T:
        {fill}T[0] = L[0]
        for i in range(n):
            for j in range(T[0] % 3 + n - 1):
                if n - i - 1 <= j and j < T[0] % 3 + n - i - 1:
                    Y[i] = sum(A[i], over=j)
"""


@pytest.mark.parametrize("filled", [False, True])
def test_bounds_are_tightened_by_lengths_that_are_there(filled: bool) -> None:
    s = lp.Schedule(lp.parse(MASKED.format(fill="" if filled else "for h in range(min(1, n)): ")))
    why = s.why("trim", "i")
    assert (why is None) == filled, why
    assert why is None or "would be read from T where it is not now" in why.reason
    if filled:
        assert first_violation(s.func, s.trim("i").func, small_sizes(s.func)) is None


def test_bounds_are_not_tightened_by_a_length_that_the_loop_changes() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(Z: "inout int32[1]"):
    for i in range(9):
        for j in range(Z[0]):
            if i - j < 3:
                Z[0] = 7
""")
    )
    why = s.why("trim", "i")
    assert why is not None
    assert "would be read from Z where it is not now" in why.reason


PADDED = """
def f(n: "size", A: "float32[n]", L: "int32[n]", S: "out float32[1]"):
    S[0]: "start" = 0.0
    for i in range((n + 1) // 2):
        with alloc("float32[2]", scope="local") as T, alloc("int32[2]", scope="local") as K:
            for x in range(2):
                if i * 2 + x < n:
                    T[x] = A[i * 2 + x]
            for y in range(2):
                {filled}K[y] = 1
            for k in range(2):
                if i * 2 + k < n:
                    {control}
                        S[0] = sum(T[k], over={over})
"""


@pytest.mark.parametrize("control", ["if {} < 2:", "for j in range({} % 3):"])
@pytest.mark.parametrize("asked", ["L[i * 2 + k]", "K[k]", "L[0]"])
@pytest.mark.parametrize("filled", [False, True])
def test_a_guard_that_is_dropped_kept_others_from_asking(control: str, asked: str, filled: bool) -> None:
    """Of n = 1 a tile has two elements, and what decides about the second one is not there."""
    over = "(i, k, j)" if control.startswith("for") else "(i, k)"
    fill = "" if filled else "if i * 2 + y < n: "
    s = lp.Schedule(lp.parse(PADDED.format(filled=fill, control=control.format(asked), over=over)))
    why = s.why("pad", "S")
    there = asked != "L[i * 2 + k]" and (asked != "K[k]" or filled)
    assert (why is None) == there, why
    told = "which need not be written there" if asked == "K[k]" else "outside of L"
    assert why is None or told in why.reason
    if why is None:
        assert first_violation(s.func, s.pad("S").func, small_sizes(s.func)) is None


def test_a_guard_that_jamming_moves_inwards_kept_a_length_from_being_read() -> None:
    """L has an element for the rows that the guard lets run, and the loop over j would stand outside of that."""
    source = """
def f(A: "int32[3]", L: "int32[SIZE]", S: "inout int32[1]"):
    for o in range(3):
        for i in range(2):
            if o * 2 + i < 3:
                for j in range(L[o * 2] % 3):
                    S[0] = sum(A[j], over=(o, i, j))
"""
    step = Step("unroll_and_jam", ("i", 2))
    with pytest.raises(lp.ScheduleError, match="how often 'j' runs would be read from L where it is not now"):
        lp.Schedule(lp.parse(source.replace("SIZE", "3"))).apply(step)
    found, told = verdict(lp.parse(source.replace("SIZE", "5")), step)
    assert found == "accepted", told


@settings(max_examples=40, deadline=None)
@given(forms(("scattered", "asking", "deciding")), st.data())
def test_every_step_keeps_the_meaning_or_refuses(func: lp.Func, data: st.DataObject) -> None:
    for name in data.draw(st.lists(st.sampled_from(JUDGED), min_size=1, max_size=6)):
        if listed := candidate_steps(func, name) if name in TABLE else []:
            step = data.draw(st.sampled_from(listed))
        else:
            args, kwargs = data.draw(arguments_of(PRIMITIVES[name], func))
            step = Step(name, args, tuple(kwargs.items()))
        found, told = verdict(func, step)
        assert found not in ("accepted, illegal", "crash"), f"{step}\n{told}"
