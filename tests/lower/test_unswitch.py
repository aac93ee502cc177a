"""Tests leave the loops that they are the same in, on a CPU, and what runs stays the same."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func, If, Loop, Select
from loopir.ir.traverse.walk import free_vars, nodes, statements
from loopir.lower.common.unswitch import unswitch
from loopir.lower.target import target

TESTS = ("i * 3 + j < n", "i < 2", "i * 3 + j + r <= n", "j + 4 < n + r", "k + r < 5", "i + j // 2 < 3", "n < 9")
NEST = """
def f(n: "size", A: "float32[4, 6, 5, 2]", C: "inout float32[4, 6, 2]"):
    for i in range(4):
        for j in range(6):
            if {0}:
                for q in unroll(2):
                    C[i, j, q] = 1.0
            for k in range(5):
                prefetch(A[i, j, k, 0])
                if {1}:
                    for r in unroll(2):
                        if {2}:
                            C[i, j, r] += select({3}, A[i, j, k, r], 2.0)
            if {0} and {1}:
                for p in unroll(2):
                    C[i, j, p] = C[i, j, p] * 3.0
"""


def asked(func: Func, loop: str) -> list[frozenset[str]]:
    """By test in the loops that were made of `loop` the variables that it is of."""
    made = [s for s in statements(func.body) if isinstance(s, Loop) and s.var.partition("_")[0] == loop]
    return [free_vars(n.cond) for s in made for n in nodes(s) if isinstance(n, If | Select)]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(TESTS[:2]), *(st.sampled_from(TESTS) for _ in range(2)), st.sampled_from(TESTS))
def test_what_runs_is_the_same(a: str, b: str, c: str, d: str) -> None:
    b = b if "r" not in b and "k" not in b else TESTS[5]
    func = lp.parse(NEST.format(a, b, c, d))
    moved = unswitch(func, target("llvm"))
    assert lp.parse(lp.text(moved)) == moved
    rng = np.random.default_rng(0)
    arrays = [x.astype(np.float32) for x in (rng.integers(0, 9, (4, 6, 5, 2)), rng.integers(0, 9, (4, 6, 2)))]
    for n in (0, 4, 7, 11):
        out = [lp.interpret(f, arrays, {"n": n})["C"] for f in (func, moved)]
        assert np.array_equal(*out)


@pytest.mark.parametrize(("each", "left"), [(TESTS[0], 0), (TESTS[2], 1), (TESTS[4], 2)])
def test_a_loop_tests_only_what_it_changes(each: str, left: int) -> None:
    """Of copies in the loop for when some do not hold; or in both, if iterations differ."""
    func = unswitch(lp.parse(NEST.format(TESTS[0], TESTS[1], each, TESTS[6])), target("llvm"))
    found = [v for v in asked(func, "k") if v & {"i", "j", "k", "k_1"}]
    assert len(found) == left


def test_neighbours_are_under_one_test() -> None:
    func = unswitch(lp.parse(NEST.format(TESTS[0], TESTS[0], TESTS[1], TESTS[6])), target("llvm"))
    whole = [s for s in statements(func.body) if isinstance(s, Loop) and s.var == "j"]
    assert [type(s) for s in whole[0].body] == [If]


def test_a_test_of_memory_stays_where_it_is() -> None:
    func = lp.parse("""
def f(A: "float32[4]", C: "inout int32[4]"):
    for i in range(4):
        for k in range(4):
            if C[0] < 3:
                C[i] += 1
""")
    assert unswitch(func, target("llvm")) == func


LANES = """
def f(x: "int32[4, 2]", a: "inout int32[2, 4]", c: "inout int32[2, 4]"):
    for j in range(4):
        for q in range(2):
            a[q, j] = x[j, q] + 1
            if 2 <= j:
                c[q, j] = a[q, j - 2]
"""


def test_lanes_of_a_vector_are_not_parted_by_their_tests() -> None:
    """A lane reads what another one has written in the same iteration of a loop in both."""
    s = lp.Schedule(lp.parse(LANES)).vectorize("j")
    x = np.arange(8, dtype=np.int32).reshape(4, 2)
    a, c = np.full((2, 4), -7, np.int32), np.zeros((2, 4), np.int32)
    wanted = lp.interpret(s.func, {"x": x, "a": a, "c": c})
    s.build("llvm")(x, a, c)
    assert np.array_equal(a, wanted["a"])
    assert np.array_equal(c, wanted["c"])
