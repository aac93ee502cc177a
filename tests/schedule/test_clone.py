"""clone: some readers of a stage get it computed once more, for themselves; the program means the same."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from meaning import assert_same

import loopir as lp

CHAIN = """
def f(n: "size", A: "float32[n, 4]", B: "out float32[n]", C: "out float32[n]", D: "out float32[n]"):
    assume(1 <= n)
    with alloc("float32[n]") as S:
        for i in range(n):
            for k in range(4):
                S[i] = sum(A[i, k], over=k, init=0.0)
        for b in range(n):
            B[b] = S[b]
        for c in range(n):
            C[c] = S[n - 1 - c] * 2.0
        for d in range(n):
            D[d] = S[d] + B[d]
"""


@given(st.sets(st.sampled_from("BCD"), min_size=1), st.sampled_from([1, 3]))
def test_any_readers_read_a_fold_of_their_own(readers: set[str], n: int) -> None:
    s = lp.Schedule(lp.parse(CHAIN))
    t, own = s.clone("S", *sorted(readers)).with_stage
    made = {a.buffer for a in t.accesses(own) if a.write}
    assert {x for x in "BCD" if made & {a.buffer for a in t.accesses(x)}} == readers
    assert_same(s.func, t.func, {"n": n})


def test_a_clone_is_placed_by_itself() -> None:
    s = lp.Schedule(lp.parse(CHAIN))
    t, own = s.clone("S", "C").with_stage
    t = t.compute_at(own, "c").reorder("k", "i") if t.why("reorder", "k", "i") is None else t.compute_at(own, "c")
    assert_same(s.func, t.func, {"n": 3})


@pytest.mark.parametrize(
    ("stage", "readers", "told"),
    [
        ("S", (), "no reader of S is named"),
        ("B", ("D",), "B is an argument"),
        ("S", ("S",), "S does not read S"),
    ],
)
def test_refusals_say_what_is_asked(stage: str, readers: tuple[str, ...], told: str) -> None:
    why = lp.Schedule(lp.parse(CHAIN)).why("clone", stage, *readers)
    assert why is not None
    assert told in why.reason


TWICE = """
def f(A: "float32[4]", B: "out float32[4]"):
    with alloc("float32[4]") as T:
        for i in range(4):
            T[i] = A[i]
        for j in range(4):
            T[j]: "U" = T[j] * 2.0
        for k in range(4):
            B[k] = T[k]
"""


def test_what_several_nests_write_is_not_cloned() -> None:
    why = lp.Schedule(lp.parse(TWICE)).why("clone", "U", "B")
    assert why is not None
    assert "written by T and U, in several nests" in why.reason
