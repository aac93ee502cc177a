"""cache_inplace: what an iteration updates is copied, updated and copied back; the program means the same."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.errors import ScheduleError

NEST = """
def f(n: "size", A: "float32[8, 8]", S: "inout float32[4, 12, 12]", y: "out float32[4, 8, 8]"):
    for r in range(4):
        for i in range(8):
            for j in range({inner}):
                if {guard}:
                    S[r, {write}] = S[r, {read}] * A[i, j] + 1.0
            for k in range({inner}):
                S[r, {fold}] += A[i, k]
            for m in range(8):
                y[r, i, m] = S[r, {after}]
"""
INDICES = ("i, {x}", "{x}, i", "{x} + 1, 2", "i + 1, {x} + 3", "i + {x} - 3, i", "2 * {x} - 4, {x}", "3, 3")


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.sampled_from(INDICES)] * 4),
    st.sampled_from(("0 <= j", "1 <= i", "i + j < n", "i < j")),
    st.sampled_from(("8", "i + 1", "8 - i")),
    st.sampled_from(("r", "i", "j", "k")),
    st.sampled_from((5, 12)),
)
def test_what_is_taken_means_the_same(at: tuple[str, str, str, str], guard: str, inner: str, loop: str, n: int) -> None:
    names = zip(("write", "read", "fold", "after"), at, ("j", "j", "k", "m"), strict=True)
    indices = {name: index.format(x=x) for name, index, x in names}
    s = lp.Schedule(lp.parse(NEST.format(inner=inner, guard=guard, **indices)))
    if s.why("cache_inplace", "S", "local", loop) is None:
        assert_same(s.func, s.cache_inplace("S", "local", loop).func, {"n": n})


def test_a_state_is_kept_over_all_steps() -> None:
    s = lp.Schedule(
        lp.parse(NEST.format(inner="8", guard="0 <= j", write="i, j", read="j, i", fold="3, 3", after="i, m"))
    )
    t = s.cache_inplace("S", "local", "r")
    assert {a.buffer for x in ("S_local_in", "S_local_out") for a in t.accesses(x)} == {"S", "S_local"}
    assert_same(s.func, t.func, {"n": 3})


FILLED = """
def f(x: "float32[6]", y: "out float32[6]"):
    with alloc("float32[4]") as S:
        for z in range({filled}):
            S[z] = 0.0
        for t in range(6):
            for a in range(4):
                S[a] = S[a] * 0.5 + x[t]
            for b in range(4):
                y[t] = sum(S[b], over=b, init=0.0)
"""


def test_an_intermediate_has_to_be_filled_before() -> None:
    s = lp.Schedule(lp.parse(FILLED.format(filled=4)))
    assert_same(s.func, s.cache_inplace("S", "local", "t").func, {})
    part = lp.Schedule(
        lp.parse(FILLED.format(filled=4).replace("range(4):\n            S[z]", "range(3):\n            S[z]"))
    )
    with pytest.raises(ScheduleError, match="may have no elements yet"):
        part.cache_inplace("S", "local", "t")


@pytest.mark.parametrize(
    ("text", "loop", "said"),
    [
        ("for i in range(8):\n        S[ix[i]] = S[ix[i]] + 1", "i", "is read from memory"),
        ("for i in range(7):\n        S[i + 1] = S[S[i] * 0 + i] + 1", "i", "is read from memory"),
        ("for i in vectorize(8):\n        S[i] = S[i] + 1", "i", "do not run in order"),
        (
            "for i in range(8):\n        for k in range(8):\n            S[i] = sum(ix[k], over=k, init=0)",
            "k",
            "starts",
        ),
        ("for i in range(8):\n        if S[i] < 3:\n            S[i] = 1", "i", "for a subscript, a guard"),
    ],
)
def test_refusals(text: str, loop: str, said: str) -> None:
    s = lp.Schedule(lp.parse(f'def f(ix: "int32[8]", S: "inout int32[8]"):\n    {text}\n'))
    with pytest.raises(ScheduleError, match=said):
        s.cache_inplace("S", "local", loop)
