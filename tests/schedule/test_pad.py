"""pad: what a fold goes on with is there, and what nothing may have written is not used."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.testing import assert_equivalent

GOES_ON = """
def f(n: "size", A: "float32[n]", C: "inout float32[n]"):
    for k in range((n + 3) // 4):
        with alloc("float32[4]", scope="local") as own, alloc("float32[4]", scope="local") as X:
            for c in range(4):
                if k * 4 + c < n:
                    own[c] = C[k * 4 + c]
            for x in range(4):
                if k * 4 + x < n:
                    X[x] = A[k * 4 + x]
            for h in range(4):
                for r in range(3):
                    if k * 4 + h < n:
                        own[h] = sum(X[h], over=r, label="S")
            for o in range(4):
                if k * 4 + o < n:
                    C[k * 4 + o] = own[o]
"""


def test_what_a_fold_goes_on_with_is_filled_as_its_inputs_are() -> None:
    s = lp.Schedule(lp.parse(GOES_ON))
    padded = s.pad("S")
    assert "own[c] = select(k * 4 + c < n, C[k * 4 + c], 0.0)" in str(padded)
    for n in range(1, 9):
        assert_same(s.func, padded.func, {"n": n})


def test_a_fold_is_not_padded_where_nothing_may_have_written_what_it_goes_on_with() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[4]", C: "inout float32[4]"):
    for i in range(4):
        with alloc("float32[2]", scope="local") as own:
            if i < 2:
                own[0] = C[i] + 1.0
            for r in range(3):
                if i < 2:
                    own[0] = sum(A[i], over=r, label="S")
            if i < 2:
                C[i] = own[0]
""")
    )
    told = s.why("pad", "S")
    assert told is not None
    assert told.reason == "S, without its guards, would fold into what nothing may have written of own"


AT_ONCE = """
def f(S: "inout float32[8]"):
    for i in {kind}(6):
        with alloc("float32[1]", scope="local") as T:
            if i % 2 == 0:
                T[0] = maximum({read}, S[i + 1])
            if i % 2 == 0:
                S[i + 1] = T[0]
"""


def test_what_is_read_too_much_is_not_what_an_iteration_at_once_writes() -> None:
    """Odd iterations would read what even ones write, though nobody reads what they make of it."""

    def why(kind: str, read: str) -> lp.ScheduleError | None:
        return lp.Schedule(lp.parse(AT_ONCE.format(kind=kind, read=read))).why("pad", "T")

    error = why("parallel", "S[i]")
    assert error is not None
    assert "that runs at once" in error.reason
    assert why("parallel", "S[i + 1]") is None
    assert why("range", "S[i]") is None
    assert why("vectorize", "S[i]") is None


COMPUTED = """
def f(n: "size", A: "float32[n]", M: "out float32[1]"):
    for k in range((n + 3) // 4):
        with alloc("float32[4]", scope="local") as X:
            for x in range(4):
                if k * 4 + x < n:
                    X[x] = select(x < 2, A[k * 4 + x] * 2.0, 1.0)
            for h in range(4):
                if k * 4 + h < n:
                    M[0] = max(X[h], over=(k, h), init=-inf)
"""


def test_what_is_computed_under_guards_is_filled_where_they_do_not_hold() -> None:
    s = lp.Schedule(lp.parse(COMPUTED))
    why = s.why("pad", "M")
    assert why is not None
    assert "M would fold 0.0 where k * 4 + h < n does not hold" in why.reason
    t = s.pad("M", value=float("-inf"))
    assert "X[x] = select(k * 4 + x < n, select(x < 2, A[k * 4 + x] * 2.0, 1.0), -inf)" in str(t)
    for n in range(1, 9):
        assert_same(s.func, t.func, {"n": n})


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 3), st.integers(-1, 1))
def test_selects_of_borders_go_into_the_copies(n: int, taps: int, border: int, off: int) -> None:
    """Only where the select and the guard of the copy agree; else the select stays, and is no guard."""
    inside = f"0 <= i + k - {border} and i + k - {border} < {n}"
    wanted = f"0 <= i + k - {border} and i + k - {border} < {n + off}"
    func = lp.parse(
        f'def f(A: "float32[{n}]", S: "out float32[{n}]"):\n    for i in range({n}):\n'
        f'        with alloc("float32[{taps}]", scope="local") as X:\n            for x in range({taps}):\n'
        f"                if {inside.replace('k', 'x')}:\n                    X[x] = A[i + x - {border}]\n"
        f"            for k in range({taps}):\n"
        f"                S[i] = sum(select({wanted} and {inside}, X[k], 0.0) * 2.0, over=k, init=0.0)\n"
    )
    s = lp.Schedule(func)
    if s.why("pad", "S") is None:
        assert_equivalent(s.func, s.pad("S").func)
    else:
        assert off < 0 or (border == 0 and taps == 1)


POWERS = """
def f(n: "size", A: "float32[n]", S: "out float32[1]", M: "out float32[1]"):
    for k in range((n + 3) // 4):
        with alloc("float32[4]") as X, alloc("float32[1]") as N:
            for x in range(4):
                if k * 4 + x < n:
                    X[x] = A[k * 4 + x]
            for h in range(4):
                if k * 4 + h < n:
                    M[0] = max(X[h], over=(k, h), init=-inf)
            N[0] = {stand_in}
            for j in range(4):
                if k * 4 + j < n:
                    S[0] = sum(exp(X[j] - {less}), over=(k, j), init=0.0)
"""
FINITE = "select(M[0] == -inf, 0.0, M[0])"


def test_powers_of_what_is_padded_with_minus_infinity_are_0() -> None:
    s = lp.Schedule(lp.parse(POWERS.format(stand_in=FINITE, less="N[0]")))
    padded = s.pad("M", value=float("-inf")).pad("S", value=float("-inf"))
    assert str(padded).count("< n") == 1
    for n in range(1, 9):
        assert_same(s.func, padded.func, {"n": n})


@pytest.mark.parametrize(("stand_in", "less"), [("M[0]", "N[0]"), (FINITE, "M[0]")])
def test_powers_are_not_0_where_two_infinities_may_meet(stand_in: str, less: str) -> None:
    s = lp.Schedule(lp.parse(POWERS.format(stand_in=stand_in, less=less))).pad("M", value=float("-inf"))
    assert s.why("pad", "S", value=float("-inf")) is not None


def test_a_stand_in_of_another_time_does_not_tell() -> None:
    """N is that of the fold before it went on, which may be infinite since."""
    text = POWERS.format(stand_in="M[0] * 0.5", less="N[0]").replace("N[0] = M[0] * 0.5", "N[0] = N[0] * 0.5")
    early = text.replace("            for h in", f"            N[0] = {FINITE}\n            for h in", 1)
    s = lp.Schedule(lp.parse(early.replace("            for k in", "            for k in"))).pad(
        "M", value=float("-inf")
    )
    assert s.why("pad", "S", value=float("-inf")) is not None


def test_a_copy_is_filled_by_itself() -> None:
    s = lp.Schedule(lp.parse(GOES_ON))
    assert "X[x] = select(k * 4 + x < n, A[k * 4 + x], 0.0)" in str(s.pad("X"))


CORRECTED = """
def f(n: "size", A: "float32[n, 8]", S: "float32[2, 4]", B: "out float32[n]"):
    assume(1 <= n)
    for io in range((n + 3) // 4):
        with alloc("float32[4]") as T:
            for z in range(4):
                T[z]: "begin" = 0.0
            for ko in range(2):
                for j in range(4):
                    if io * 4 + j < n:
                        T[j]: "correct" = {value}
                for i in range(4):
                    if io * 4 + i < n:
                        for k in range(4):
                            T[i]: "fold" = sum(A[io * 4 + i, ko * 4 + k], over=(ko, k))
            for l in range(4):
                if io * 4 + l < n:
                    B[io * 4 + l] = T[l]
"""


def test_what_is_corrected_in_place_is_padded() -> None:
    """Others that touch the elements make nothing but these elements of them."""
    s = lp.Schedule(lp.parse(CORRECTED.format(value="T[j] * S[ko, j]")))
    t = s.pad("correct")
    assert str(t).count("if io * 4 +") == 2
    for n in (1, 4, 6):
        assert_same(s.func, t.func, {"n": n})


@pytest.mark.parametrize("value", ["T[3 - j]", "select(j == 0, T[3], T[j])", "T[j] + T[0]"])
def test_what_is_moved_to_other_elements_is_not_padded(value: str) -> None:
    s = lp.Schedule(lp.parse(CORRECTED.format(value=value)))
    t = s.pad("correct") if s.why("pad", "correct") is None else None
    for n in (1, 4, 6) if t is not None else ():
        assert_same(s.func, t.func, {"n": n})


def test_a_guard_stays_that_keeps_a_divisor_from_being_0() -> None:
    """At n = 0 nothing may be read, although nobody uses it: what is proved of `i % n` is proved of numbers."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float64[n]", Y: "out float64[3]"):
    with alloc("float64[1]") as T:
        for i in range(3):
            if 1 <= n:
                T[0] = A[n - i % n - 1]
        for j in range(3):
            Y[j] = 0.0
""")
    )
    with pytest.raises(lp.ScheduleError, match="which is not known to be inside A"):
        s.pad("T")
