"""Running folds and partial results are the folds that they are of, and what is folded in twice is none."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate


def test_a_fold_of_its_own_earlier_results_has_no_end_of_partial_ones() -> None:
    s = lp.Schedule(
        lp.parse("""
            def f(n: "size", X: "inout float32[n + 2]", Y: "inout float32[n]"):
                for i in range(n):
                    for j in range(n - 1):
                        X[i] = sum(X[j + 1], over=j, init=0.0)
                for k in range(n):
                    Y[k] = X[k]
        """)
    )
    assert s.split("k", 2).validate().wrong is None


SCAN = """
def scan(n: "size", A: "float32[n]", B: "out float32[n]"):
    for i in range(n):
        B[i] = select(1 <= i, B[i - 1], 0.0) + A[i]
"""


BLOCKS = """
def scan(n: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[(n + 7) // 8]") as S, alloc("float32[(n + 7) // 8]") as E:
        for b in range((n + 7) // 8 - 1):
            for k in range(8):
                S[b] = sum(A[b * 8 + k], over=k, init=0.0)
        for c in range((n + 7) // 8 - 1):
            E[c] = select(1 <= c, E[c - 1], 0.0) + S[c]
        for d in range((n + 7) // 8):
            for w in range(8):
                if d * 8 + w < n:
                    B[d * 8 + w] = select(1 <= w, B[d * 8 + w - 1], select(1 <= d, E[d - 1], 0.0)) + A[d * 8 + w]
"""


WRONG_BLOCKS = {
    "a block's last element is left out": ("for k in range(8)", "for k in range(7)"),
    "a block's first element is folded in twice": ("0.0) + S[c]", "0.0) + S[c] + A[c * 8]"),
    "a block goes on from the one before twice": ("E[d - 1], 0.0)", "E[d - 1] + E[d - 1], 0.0)"),
    "a block goes on from itself": ("select(1 <= d, E[d - 1]", "select(d <= (n + 7) // 8 - 2, E[d]"),
    "blocks start at one": ("E[c - 1], 0.0)", "E[c - 1], 1.0)"),
    "the greatest of a block": ("sum(A[b * 8 + k], over=k, init=0.0)", "max(A[b * 8 + k], over=k, init=0.0)"),
    "a product instead of a sum": ("0.0) + S[c]", "0.0) * S[c]"),
    "only the block before": ("select(1 <= c, E[c - 1], 0.0) + S[c]", "S[c] + 0.0"),
}


def test_a_running_fold_in_blocks_is_proved_for_all_sizes() -> None:
    assert validate(lp.parse(SCAN), lp.parse(BLOCKS))
    s = lp.Schedule(lp.parse(SCAN)).scan_blocks("i", 8)
    assert s.validate()
    greatest = SCAN.replace("select(1 <= i, B[i - 1], 0.0) + A[i]", "maximum(select(1 <= i, B[i - 1], A[i]), A[i])")
    assert lp.Schedule(lp.parse(greatest)).split("i", 4).validate()


@pytest.mark.parametrize("name", WRONG_BLOCKS)
def test_a_wrong_scan_is_not_proved(name: str) -> None:
    old, new = WRONG_BLOCKS[name]
    assert BLOCKS.count(old) == 1
    found = validate(lp.parse(SCAN), lp.parse(BLOCKS.replace(old, new)))
    assert not found
    assert found.proved == ()


PARTS = """
def total(A: "float32[4]", C: "inout float32[1]"):
    with alloc("float32[1]") as T:
        for i in range(4):
            T[0] = sum(A[i], over=i, init=0.0)
        C[0] = sum(T[0])
        {again}
"""


WHOLE = """
def total(A: "float32[4]", C: "inout float32[1]"):
    for i in range(4):
        C[0] = sum(A[i], over=i)
"""


def test_a_partial_result_that_is_folded_in_twice_is_not_proved() -> None:
    assert validate(lp.parse(WHOLE), lp.parse(PARTS.format(again="")))
    twice = validate(lp.parse(WHOLE), lp.parse(PARTS.format(again='C[0]: "again" = sum(T[0])')))
    assert not twice
    assert twice.wrong is not None
