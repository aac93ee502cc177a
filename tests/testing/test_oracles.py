"""Each oracle fails where it should: transformations that are wrong in one way, and who notices. Right ones pass."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
from loopir.lower import pipeline
from loopir.testing import Case, assert_equivalent
from loopir.testing.generate import nests
from loopir.testing.oracles.oracles import ORACLES, judge


def test_a_missing_barrier_is_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    def case() -> Case:
        func = lp.parse("""
def f(A: "float32[8]", B: "out float32[8]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[8]", scope="shared") as T:
            for i in bind("threadIdx.x", 8):
                T[i] = A[i]
            for j in bind("threadIdx.x", 8):
                B[j] = T[7 - j]
""")
        return Case(func, func, {}, {"A": np.arange(8, dtype=np.float32)})

    assert judge(case(), ORACLES) is None
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p.name != "insert_barriers"))
    found = judge(case(), ORACLES)
    assert found is not None
    assert found[0] == "adversarial threads"
    assert "no barrier between: a race" in found[1]


# ---------------------------------------------------------------- equivalence


def matmul(depth: int = 64) -> lp.Schedule:
    return lp.Schedule(nests.matmul(4, 4, depth))


def test_another_order_of_folds_is_equivalent_exactly_and_within_rounding() -> None:
    s = matmul()
    assert_equivalent(s, s.rfactor("C", "k"), domain="real")
    assert_equivalent(s, s.split("k", 5).reorder("k_i", "k_o"), domain="real")
