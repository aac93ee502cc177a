"""trim: what is left out changes nothing, to the bit; what counts is not left out."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.errors import ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse

KEY = "(ko * 3 + ki)"
TESTS = (
    "{k} <= i", "{k} < i", "i <= {k}", "i - 2 <= {k} and {k} <= i", "{k} + i < n", "not i + 1 < {k}", "2 * {k} <= i",
    "{k} <= i or i < 2", "{k} == i", "i // 2 < {k}", "{k} <= i and 1 <= ki", "3 <= {k} + i and {k} < 7",
)  # fmt: skip
NOTHING = {"sum": "0.0", "max": "-inf", "min": "inf", "prod": "1.0"}


@st.composite
def masked(draw: st.DrawFn) -> Func:
    """Folds of what a test of places lets through, of which some count what it does not."""
    test = draw(st.sampled_from(TESTS)).format(k=KEY)
    fold = draw(st.sampled_from([*NOTHING]))
    other = draw(st.sampled_from([NOTHING[fold], NOTHING[fold], "0.0", "1.0", f"A[i, {KEY}]"]))
    value = f"select({test}, A[i, {KEY}], {other})"
    value = draw(st.sampled_from([value, value, f"{value} * A[{KEY}, i]", f"{value} + B[i]", f"-({value})"]))
    line = f"C[i] = {fold}({value}, over=(ko, ki), init={NOTHING[fold]})"
    inner = draw(st.sampled_from(["", f"if {test}:\n                    "]))
    guarded = f"{inner}{'    ' if inner else ''}" and inner
    return parse(f"""
def f(n: "size", A: "float32[18, 18]", B: "float32[18]", C: "out float32[n]"):
    for i in range(n):
        for ko in range(6):
            for ki in range(3):
                {guarded}{line}
""")


def given_to(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.integers(-3, 4, size).astype(np.float32) for size in ((18, 18), (18,))]


def assert_same_bits(before: Func, after: Func, n: int) -> None:
    one, other = (interpret(f, given_to(n), {"n": n})["C"] for f in (before, after))
    np.testing.assert_array_equal(one, other)


@settings(max_examples=60, deadline=None)
@given(masked(), st.sampled_from(["ko", "ki", "i"]))
def test_what_is_left_out_changes_nothing(f: Func, loop: str) -> None:
    s = lp.Schedule(f)
    if s.why("trim", loop) is None:
        for n in (1, 2, 5, 18):
            assert_same_bits(f, s.trim(loop).func, n)


ONLINE = """
def f(n: "size", A: "float32[18, 18]", B: "float32[18]", C: "out float32[n]"):
    for i in range(n):
        with alloc("float32[1]") as M, alloc("float32[1]") as S:
            for ko in range(6):
                for k in range(3):
                    M[0] = max(select({test}, A[i, ko * 3 + k], -inf), over=(ko, k), init=-inf)
            for lo in range(6):
                for k in range(3):
                    S[0] = sum(exp(select({test}, A[i, {l}], -inf) - M[0]) * B[{l}], over=(lo, k), init=0.0)
            C[i] = S[0]
"""


@pytest.mark.parametrize("test", ["{k} <= i", "i - 4 <= {k} and {k} <= i", "i <= {k}"])
def test_blocks_of_an_online_fold_are_left_out(test: str) -> None:
    def lines() -> str:
        out = ONLINE.replace("{l}", "lo * 3 + k").replace("{test}", test.replace("{k}", "ko * 3 + k"), 1)
        return out.replace("{test}", test.replace("{k}", "lo * 3 + k"), 1)

    s = lp.Schedule(parse(lines())).rolling_update(("S",), "ko")
    t = s.trim("ko")
    assert t.loop("ko").extent != s.loop("ko").extent
    for n in (1, 4, 18):
        assert_same_bits(s.func, t.func, n)


def refused(line: str) -> str:
    f = parse(f"""
def f(A: "float32[8, 8]", B: "inout float32[8]", M: "inout float32[8]", C: "inout float32[8]"):
    for i in range(8):
        for k in range(8):
            {line}
""")
    with pytest.raises(ScheduleError) as caught:
        lp.Schedule(f).trim("k")
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "C[i] = sum(select(k <= i, A[i, k], 1.0), over=k)",
            "C is not proved to have no effect where k <= i is false",
        ),
        ("C[i] = A[i, k]", "no condition in 'k' masks its first or its last iterations"),
        ("C[i] = sum(select(i < 4, A[i, k], 0.0), over=k)", "no condition in 'k'"),
        ("C[i] = sum(select(k == i, A[i, k], 0.0), over=k)", "no condition in 'k'"),
        ("C[i] = sum(tanh(select(k <= i, A[i, k], -inf)), over=k)", "C is not proved to have no effect"),
        ("C[i] = sum(select(k <= i, A[i, k], 0.0), over=k, init=0.0)\n            M[k] = 0.0", "M is not proved"),
    ],
)
def test_refusals(line: str, told: str) -> None:
    assert told in refused(line)


GUARDED = """
def f(n: "size", A: "float32[n, n]", S: "out float32[n]"):
    assume(1 <= n)
    for i in range(n):
        S[i]: "start" = 0.0
    for io in range((n + 7) // 8):
        for k in range(n):
            with alloc("float32[8]") as P:
                for p in range(8):
                    if io * 8 + p < n:
                        P[p] = select(k <= io * 8 + p, A[io * 8 + p, k], 0.0)
                for r in range(8):
                    if io * 8 + r < n:
                        S[io * 8 + r] = sum(P[r], over=k)
"""


def test_memory_of_an_iteration_may_be_stored_under_guards() -> None:
    """What is read of it has been stored."""
    s = lp.Schedule(lp.parse(GUARDED))
    t = s.trim("k")
    assert "for k in range(min(n, io * 8 + 8))" in str(t)
    for n in (1, 7, 8, 11):
        assert_same(s.func, t.func, {"n": n})
