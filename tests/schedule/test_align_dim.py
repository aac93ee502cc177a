"""align_dim: memory grows, and the loop of a copy with it only where it is all that the loop does."""

import numpy as np

import loopir as lp
from loopir.ir.parser.parse import parse
from loopir.testing.oracles.brute_force import first_violation, small_sizes

BESIDE = """
def copied(n: "size", X: "float64[n + 1]", S: "inout float64[1]"):
    for i in range(n):
        with alloc("float64[1]", scope="local") as T:
            for x in range(1):
                T[x] = X[i]
                S[x] = sum(T[x], over=i)
"""
UNUSED = """
def f(A: "float32[4]", B: "out float32[4]"):
    for i in range(4):
        with alloc("float32[4]") as T:
            pass
        B[i] = A[i]
"""
ASKED = """
def ragged(L: "int32[3]", A: "float32[3]", B: "out float32[3]"):
    with alloc("float32[3]") as T:
        for i in range(3):
            for k in range(L[i] % 4):
                if L[i] < 9:
                    T[i] = A[i]
        for j in range(3):
            B[j] = select(1 <= L[j] % 4, T[j], 0.0)
"""


def test_lengths_and_guards_are_read_where_they_were() -> None:
    after = lp.Schedule(parse(ASKED)).align_dim("T", 0, 4)
    lengths = np.array([1, 2, 5], np.int32)
    assert np.array_equal(after.build("interpret")(lengths, np.ones(3, np.float32)), np.ones(3))


def test_a_loop_that_does_more_than_the_copy_stays() -> None:
    func = parse(BESIDE)
    after = lp.Schedule(func).align_dim("T", 0, 3).func
    assert "float64[3]" in str(lp.Schedule(after))
    assert first_violation(func, after, small_sizes(func)) is None


def test_memory_that_nothing_writes_grows() -> None:
    assert 'alloc("float32[5]")' in str(lp.Schedule(parse(UNUSED)).align_dim("T", 0, 5))
