"""normalization: powers that their sum divides are found as such, and nothing that only looks like them."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.analysis.dataflow.normalization import is_normalized_power
from loopir.ir.grammar import Op, Store
from loopir.ir.traverse.walk import leaf_paths_of

SOFTMAX = """
def f(X: "{inout}float32[3, 8]", Y: "float32[3, 8]", P: "out float32[3, 8]"):
    with alloc("float32[3]") as M, alloc("float32[3]") as L:
        for i in range(3):
            for j in range(8):
                M[i] = max({largest}, over=j, init=-inf)
        for a in range(3):
            for b in range({count}):
                L[a] = sum({term}, over=b, init={init})
{between}        for i_1 in range(3):
            for k in range(8):
                P[i_1, k] = exp(X[i_1, k] - M[i_1]) / L[i_1]
"""
PLAIN = {"inout": "", "largest": "X[i, j]", "count": "8", "term": "exp(X[a, b] - M[a])", "init": "0.0", "between": ""}
CHANGED = "        for c in range(8):\n            X[0, c] = 1.0\n"


def found(**other: str) -> bool:
    func = lp.parse(SOFTMAX.format(**(PLAIN | other)))
    place = next(p for p in leaf_paths_of(func) if p.stmt.label == "P")
    assert isinstance(place.stmt, Store)
    assert isinstance(place.stmt.value, Op)
    return is_normalized_power(func, place, *place.stmt.value.args)


def test_a_softmax() -> None:
    assert found()


@pytest.mark.parametrize(
    "other",
    [
        {"largest": "Y[i, j]"}, {"largest": "X[i, j] * 0.5"}, {"count": "7"}, {"term": "exp(Y[a, b] - M[a])"},
        {"term": "exp(X[a, b])"}, {"init": "-1.0"}, {"inout": "inout ", "between": CHANGED},
    ],
)  # fmt: skip
def test_what_only_looks_like_one(other: dict[str, str]) -> None:
    assert not found(**other)
