"""What is unrolled is not unrolled once more, and unrolling is bounded."""

from __future__ import annotations

import numpy as np
from test_llvm_values import source_of

import loopir as lp


def test_what_is_unrolled_is_not_unrolled_once_more() -> None:
    source = """
def f(A: "float32[64, {width}]", C: "inout float32[{width}]"):
    for i in range(64):
        for j in {kind}({width}):
            C[j] += A[i, j]
"""
    for kind in ("unroll", "range"):
        found = source_of(lp.parse(source.format(kind=kind, width=4)))
        assert ("llvm.loop.unroll.disable" in found) is (kind == "unroll")
        assert ("llvm.loop.vectorize.enable" in found) is (kind == "unroll")


def test_unrolling_is_bounded() -> None:
    nest = lp.parse("""
def f(b: "out int32[64, 64, 64]"):
    for i in unroll(64):
        for j in unroll(64):
            for k in unroll(64):
                b[i, j, k] = int32(i + j + k)
""")
    assert len(source_of(nest)) < 100_000
    assert (lp.Schedule(nest).build("llvm")() == np.indices((64, 64, 64)).sum(0)).all()
