"""Fused loops are the two that they were; products of sizes that are no such loops are told."""

from __future__ import annotations

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate

PLAIN = """
def plain(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            B[i, j] = A[i, j] * 2.0
"""


def test_fused_loops_are_proved_as_the_two_that_they_were() -> None:
    s = lp.Schedule(lp.parse(PLAIN)).fuse("i", "j")
    assert s.validate()
    assert validate(s.func, lp.parse(PLAIN))
    assert not validate(
        lp.parse(PLAIN), lp.parse(str(s).replace("= A[i_j // m, i_j % m]", "= A[i_j // m, m - 1 - i_j % m]"))
    )


def test_products_of_sizes_are_not_proved_and_told() -> None:
    found = lp.Schedule(lp.parse(PLAIN)).fuse("i", "j").split("i_j", 4).validate()
    assert found.wrong is None
    assert "is no affine index" in found.unproved[0][1]
