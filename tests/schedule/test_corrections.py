"""Statements that correct a fold: what they keep from before, and what stands in for a fold of nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from attention_programs import attention, blocked, exact, flash

import loopir as lp


def test_without_a_finite_stand_in_blocks_of_nothing_spoil_a_row() -> None:
    t = flash(lp.Schedule(attention(2, 8, 4, mask=lambda i, j: i <= j)), 4, 4)
    bad = re.sub(r"select\(M\[(.*?)\] == -inf, 0.0, M\[.*?\]\)", r"M[\1]", lp.text(t.func))
    some = np.random.default_rng(2).standard_normal((3, 2, 8, 4)).astype(np.float32)
    assert np.isnan(lp.Schedule(lp.parse(bad)).build("interpret")(*some)).any()
    assert np.isfinite(t.build("interpret")(*some)).all()


def test_two_folds_are_followed_at_once() -> None:
    """Shares are made before they are multiplied: the result is corrected as the maximum and the sum go on."""
    s = lp.Schedule(attention(1, 8, 4))
    text = lp.text(blocked(s, 8, 4).func)
    text = text.replace(
        "A[0, i_4, e] = sum(P[0, i_4, ao * 4 + ab] *", "A[0, i_4, e] = sum(P[0, i_4, ao * 4 + ab] / (L[0, i_4] + 0.5) *"
    )
    text = text.replace("A[0, ii, e_1] / L[0, ii]", "A[0, ii, e_1]")
    u = lp.Schedule(lp.parse(text))
    shapes = dict.fromkeys("QKV", (1, 8, 4))
    v = u.rolling_update(("P", "L", "A"), "jo")
    assert "/ (L[" in lp.text(v.func)
    assert exact(v, shapes) == exact(u, shapes)


def test_a_mask_on_the_maximum_alone_is_refused() -> None:
    """Terms that it leaves out count: in blocks before the first score that it lets through, they would stay as made
    with 0 in place of the maximum."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", S: "out float32[1]", M: "out float32[1]"):
    for jo in range(4):
        for j in range(2):
            M[0] = max(select(3 <= jo * 2 + j, A[jo * 2 + j], -inf), over=(jo, j), init=-inf)
    for ko in range(4):
        for k in range(2):
            S[0] = sum(exp(A[ko * 2 + k] - M[0]), over=(ko, k), init=0.0)
""")
    )
    told = s.why("rolling_update", ("S",), "jo")
    assert told is not None
    assert "what is made of that counts" in told.reason
    both = lp.parse(str(s).replace("exp(A[ko * 2 + k]", "exp(select(3 <= ko * 2 + k, A[ko * 2 + k], -inf)"))
    x = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    one, other = (
        y.build("interpret")(x)[0] for y in (lp.Schedule(both), lp.Schedule(both).rolling_update(("S",), "jo"))
    )
    np.testing.assert_allclose(other, one, rtol=1e-6)


def test_memory_of_a_block_stays_where_it_is() -> None:
    """What a block makes of the fold may be held by memory that is in the block already."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", S: "out float32[1]", M: "out float32[1]"):
    for jo in range(4):
        for j in range(2):
            M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
    for ko in range(4):
        for k in range(2):
            with alloc("float32[1]") as copy:
                copy[0] = M[0]
                S[0] = sum(exp(A[ko * 2 + k] - copy[0]), over=(ko, k), init=0.0)
""")
    )
    done = s.rolling_update(("S",), "jo")
    assert exact(done, {"A": (8,)}) == exact(s, {"A": (8,)})


@pytest.mark.parametrize(
    ("store", "inner", "taken"),
    [("for g in range(m): S[0] = A[0, g]", "m", False), ("S[0] = 2.0", "m", True), ("S[0] = A[0, 0]", "2", True)],
)
def test_what_a_correction_reads_is_written_wherever_the_fold_starts(store: str, inner: str, taken: bool) -> None:
    """S may be written by no iteration, and is asked by no term then; a correction would ask it."""
    lines = store.replace(": ", ":\n            ")
    s = lp.Schedule(
        lp.parse(f"""
def f(n: "size", m: "size", A: "float32[n, m + 2]", T: "out float32[1]"):
    assume(1 <= n)
    with alloc("float32[1]") as M, alloc("float32[1]") as S:
        {lines}
        for jo in range(n):
            for j in range({inner}):
                M[0] = sum(exp(A[jo, j]), over=(jo, j), init=0.0)
        for ko in range(n):
            for k in range({inner}):
                T[0] = sum(exp(A[ko, k]) / (M[0] + S[0] * S[0] + 0.5), over=(ko, k), init=0.0)
""")
    )
    told = s.why("rolling_update", ("T",), "jo")
    assert (told is None) == taken
    if taken:
        t = s.rolling_update(("T",), "jo")
        for m in (0, 3):
            x = np.random.default_rng(0).standard_normal((2, m + 2)).astype(np.float32)
            np.testing.assert_allclose(t.build("interpret")(x), s.build("interpret")(x), rtol=1e-5)
