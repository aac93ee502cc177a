"""A reduction into several buffers finds its element in each of them, whatever their shapes and layouts are."""

import numpy as np
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.lower.common.flatten_buffers import flatten_buffers
from loopir.lower.target import target
from loopir.testing.checking import QUIET

LARGEST = """
@monoid(identity=(-inf, -1))
def argmax(a: "float32", i: "int32", b: "float32", j: "int32"):
    return maximum(a, b), select(a < b, j, i)

def f(A: "float32[{n}, {m}]", Y: "out float32[{m}]", Z: "out int32[{m}]"):
    with alloc("float32[3, {m}]") as V, alloc("int32[{rows}, {m}]") as I:
        for j in {kind}({m}):
            for i in range({n}):
                V[1, j], I[1, j] = argmax(A[i, j], int32(i), over=i, init=(-inf, -1))
        for k in range({m}):
            Y[k] = V[1, k]
            Z[k] = I[1, k]
"""
STEPS = (
    lambda s, b: s,
    lambda s, b: s.set_layout(b, "lambda i, j: (j, i)"),
    lambda s, b: s.align_dim(b, 1, 8),
    lambda s, b: s.align_dim(b, 1, 8).set_layout(b, "lambda i, j: (j, i)"),
    lambda s, b: s.set_scope(b, "local"),
)


@settings(QUIET, max_examples=8)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(2, 4), st.booleans(), st.data())
def test_each_buffer_has_its_own_layout(n: int, m: int, rows: int, parallel: bool, data: st.DataObject) -> None:
    s = lp.Schedule(lp.parse(LARGEST.format(n=n, m=m, rows=rows, kind="parallel" if parallel else "range")))
    for b in ("V", "I"):
        step = data.draw(st.sampled_from(STEPS))
        s = step(s, b)
    a = np.random.default_rng(0).permutation(n * m).reshape(n, m).astype(np.float32)
    largest, place = s.build("llvm")(a)
    assert np.array_equal(largest, a.max(axis=0))
    assert np.array_equal(place, a.argmax(axis=0))


def test_one_offset_stays_one_reduction() -> None:
    s = lp.Schedule(lp.parse(LARGEST.format(n=3, m=4, rows=2, kind="range")))
    for steps, scalars in ((s, False), (s.set_layout("I", "lambda i, j: (j, i)"), True)):
        assert ("V_element" in lp.text(flatten_buffers(steps.func, target("llvm")))) is scalars
