"""`^` in the analysis: exact where one side has few bits, and never wrong where it has not."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.arith.bits import greatest_value, xor_by_divisions
from loopir.arith.simplify import EMPTY, interval, poly, simplify
from loopir.ir.grammar import Index, Int, Var, Xor, maximum, minimum
from loopir.ir.layout.layouts import evaluate
from loopir.ir.printer import text

A, B = Var("a"), Var("b")


@pytest.mark.parametrize("few", [B % 8, B // 4 % 5, B % 3 * 4 + B % 4, Int(6), B % 4 ^ B % 16, minimum(B % 3, B % 9)])
def test_divisions_say_what_the_bits_do(few: Index) -> None:
    for x in (Xor(A, few), Xor(few, A)):
        divided = xor_by_divisions(x)
        assert divided is not None
        for a, b in product(range(-70, 70), range(-9, 40)):
            at = {"a": a, "b": b}
            assert evaluate(divided, at) == evaluate(x, at)


def test_a_greatest_value_is_not_exceeded() -> None:
    for ix in (B % 8 * 2 + 1, B % 6 ^ 9, maximum(B % 4, B % 7) // 2, B % 5 // 3 * 4):
        most = greatest_value(ix)
        assert most is not None
        assert all(0 <= evaluate(ix, {"b": b}) <= most for b in range(-40, 40))


def test_sides_of_many_bits_are_left_alone() -> None:
    assert xor_by_divisions(Xor(A, B)) is None
    assert xor_by_divisions(Xor(A, B % 1000)) is None
    assert xor_by_divisions(Xor(A - 1, Int(-1))) is None


def test_all_but_the_low_bits_come_out() -> None:
    assert text(simplify((A * 8 + 5) ^ (B % 8), EMPTY)) == "a * 8 + (b % 8 ^ 5)"
    assert text(simplify((A * 8 + B % 4) ^ (B % 8) ^ 12, EMPTY)) == text(
        simplify(((A * 8 + B % 4) ^ B % 8) ^ 12, EMPTY)
    )
    assert simplify(Xor(A + 1, A + 1), EMPTY) == Int(0)


def test_a_swizzled_transposition_is_parallel() -> None:
    """Chunks are exchanged within a row by a bijection, so no two iterations meet; without the row's part some do."""

    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n, 32]", B: "out float32[n, 32]"):
    for i in range(n):
        for j in range(32):
            B[i, (j // 4 ^ i % 8) * 4 + j % 4] = A[i, j]
""")
    )
    assert s.why("parallel", "i") is None
    assert s.why("parallel", "j") is None
    wrong = lp.Schedule(
        lp.parse("""
def g(n: "size", A: "float32[n, 32]", B: "out float32[n, 32]"):
    for i in range(n):
        for j in range(32):
            B[i, (j // 8 ^ i % 8) * 4 + j % 4] = A[i, j]
""")
    )
    refused = wrong.why("parallel", "j")
    assert refused is not None
    assert refused.witness is not None


def test_the_extent_of_a_loop_tells_how_many_bits_it_has() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[8, 8]", B: "out float32[8, 8]"):
    for i in range(8):
        for j in range(8):
            B[i, i ^ j] = A[i, j]
""")
    )
    assert s.why("parallel", "j") is None
    assert s.why("reorder", "j", "i") is None


indices = st.recursive(
    st.sampled_from([A, B, A * 8 + B, Int(5), Int(12)]),
    lambda x: st.one_of(
        st.tuples(x, x).map(lambda p: p[0] ^ p[1]),
        st.tuples(x, x).map(lambda p: p[0] - p[1]),
        st.tuples(x, st.sampled_from([2, 3, 8, 16])).map(lambda p: p[0] % p[1]),
        st.tuples(x, st.sampled_from([2, 4, 6])).map(lambda p: p[0] // p[1]),
        st.tuples(x, st.sampled_from([-1, 2, 8])).map(lambda p: p[0] * p[1]),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(indices)
def test_what_is_simplified_is_the_same(ix: Index) -> None:
    square, triangle = EMPTY.loop("a", Int(12)).loop("b", Int(8)), EMPTY.loop("a", Int(4)).loop("b", A + 1)
    points = [(square, a, b) for a in range(12) for b in range(8)]
    points += [(triangle, a, b) for a in range(4) for b in range(a + 1)]
    for ctx, a, b in points:
        at = {"a": a, "b": b}
        value = evaluate(ix, at)
        low, high = interval(poly(ix, ctx), ctx)
        assert evaluate(simplify(ix, ctx), at) == value
        assert low is None or low <= value
        assert high is None or value <= high


def test_a_swizzled_intermediate_means_the_same_everywhere() -> None:
    x = lp.placeholder((24, 64), "float32", name="x")
    t = lp.compute((24, 64), lambda i, j: x[i, j] + 1.0, name="t")
    s = lp.Schedule(lp.compute((64, 24), lambda i, j: t[j, i] * 2.0, name="y"))
    s = s.set_layout("t", "lambda r, c: (r, c // 8 ^ r % 8, c % 8)")
    s = s.split(s.loops("t")[-1], 8, tail="exact")
    s = s.vectorize(s.loops("t")[-1])
    data = np.random.default_rng(0).random((24, 64), np.float32)
    for target in ("interpret", "llvm"):
        assert (s.build(target)(data) == (data + 1).T * 2).all()
    assert " ^ " in lp.compile_source(s.bind(s.loops("y")[0], "blockIdx.x"), arch="sm_90a").source
