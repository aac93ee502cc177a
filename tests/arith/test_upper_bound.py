"""upper_bound: no iteration has a larger value, and the bound speaks of sizes alone."""

from itertools import product

from hypothesis import given, strategies as st

from loopir.arith.upper_bound import max_trip_count, upper_bound
from loopir.ir.grammar import Int, Loop, Var, maximum
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.free_vars import free_vars
from loopir.testing.generate.trees import indices

n, i = Var("n"), Var("i")
EXTENTS = (Int(0), Int(1), Int(4), n, n - 2, i, 3 - i, maximum(i - 1, n), -1 * n)
"""Of a loop inside that of i: also empty ones, and those whose length falls."""


@given(indices(["n", "i", "j"]), st.sampled_from(EXTENTS), st.sampled_from([Int(3), n, n - 1]))
def test_no_iteration_has_more(ix, inner, outer) -> None:
    bound = upper_bound(ix, {"i": outer, "j": inner})
    if bound is None:
        return
    assert free_vars(bound) <= {"n"}
    for size in range(4):
        most = evaluate(bound, {"n": size})
        for a in range(evaluate(outer, {"n": size})):
            for b in range(evaluate(inner, {"n": size, "i": a})):
                assert evaluate(ix, {"n": size, "i": a, "j": b}) <= most


@given(st.sampled_from(EXTENTS), st.sampled_from([Int(3), n]))
def test_no_loop_runs_more_often(inner, outer) -> None:
    count = max_trip_count(Loop("j", inner, "serial", ()), {"i": outer})
    assert count is not None
    for size, a in product(range(4), range(4)):
        if a < evaluate(outer, {"n": size}):
            assert max(0, evaluate(inner, {"n": size, "i": a})) <= max(0, evaluate(count, {"n": size}))


def test_what_comes_of_constants() -> None:
    loops = {"i": n, "j": Int(8)}
    assert upper_bound(i * 8 + Var("j"), loops) == (n - 1) * 8 + 7
    assert upper_bound(n - i, loops) == n
    assert upper_bound(i * Var("j"), loops) is None
    assert max_trip_count(Loop("k", Int(-1), "serial", ()), {}) == Int(0)
