"""Trip counts are formulas: exact for intervals, and never below what runs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
import sympy
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
import loopir.intrinsics
from loopir.analysis.cost.cost import cost, evaluate, symbol
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import If, Loop, Reduce, Stmt, Store
from loopir.ir.traverse.walk import leaf_paths
from loopir.ir.verify.verify import evaluate as evaluated
from loopir.testing.generate.strategies import funcs, sizes as sizes_of


def test_a_triangle_is_summed() -> None:
    func = lp.parse(
        """
def f(n: "size", a: "inout float32[n, n]"):
    for i in range(n):
        for j in range(i):
            a[i, j] = exp(a[i, j]) + 1.0
"""
    )
    c = cost(func)
    for n in range(6):
        count = n * (n - 1) // 2
        assert evaluate(c.by_statement["a"], {"n": n}) == count
        assert evaluate(c.flops, {"n": n}) == count
        assert evaluate(c.special, {"n": n}) == count


def runs(func: lp.Func, sizes: dict[str, int]) -> dict[str, int]:
    """How often each statement runs, counted."""
    found = {p.stmt.label: 0 for p in leaf_paths(func.body)}

    def body(stmts: Iterable[Stmt], env: dict[str, int]) -> None:
        for s in stmts:
            match s:
                case Loop(var, extent, _, inner):
                    for i in range(evaluated(extent, env)):
                        body(inner, {**env, var: i})
                case If(cond, then, orelse):
                    body(then if cond_holds(cond, env) else orelse, env)
                case Store(label) | Reduce(label):
                    found[label] += 1
                case _:
                    body(s.body, env)

    body(func.body, sizes)
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_count_is_below_what_runs(data: st.DataObject) -> None:
    func = data.draw(funcs(memory=False))
    sizes = data.draw(sizes_of(func))
    formulas = cost(func).by_statement
    for label, count in runs(func, sizes).items():
        assert evaluate(formulas[label], sizes) >= count, label


@given(st.integers(0, 2**62))
def test_sums_of_powers_are_evaluated_exactly(size: int) -> None:
    n = symbol("n")
    assert evaluate(n**3 / 3 + n**2 / 2 + n / 6, {"n": size}) == size * (size + 1) * (2 * size + 1) // 6


def test_a_loop_of_length_less_than_none_counts_for_nothing() -> None:
    func = lp.parse("""
def f(n: "size", A: "float32[n]", X: "inout float32[1]"):
    for i in range(n - 1):
        X[0] = min(A[i + 1])
""")
    assert [evaluate(cost(func).by_statement["X"], {"n": n}) for n in (0, 1, 3)] == [0, 0, 2]


ARMS = """
def f(n: "size", m: "size", A: "float32[n + m]", B: "inout float32[n + m]"):
    for b in range(n + m):
        if {}:
            for j in range(b):
                B[b] = sum(exp(A[b]), over=j, label="one")
        else:
            B[b]: "two" = A[b] * 2.0
"""


@pytest.mark.parametrize("cond", ["b < n", "n <= b", "b + 2 <= n", "b < n and 1 <= b", "b == 3", "not b < m"])
def test_both_sides_of_a_condition_are_counted(cond: str) -> None:
    func = lp.parse(ARMS.format(cond))
    c = cost(func)
    for n, m in product((4, 6, 9), (4, 7)):
        at = {"n": n, "m": m}
        want = runs(func, at)
        assert {k: evaluate(v, at) for k, v in c.by_statement.items()} == want
        assert evaluate(c.special, at) == want["one"]


def test_of_two_sides_that_memory_decides_between_the_dearer_is_counted() -> None:
    func = lp.parse(
        """
def f(n: "size", p: "int32[n]", A: "float32[n]", B: "inout float32[n]"):
    for i in range(n):
        if p[i] == 0:
            B[i] = A[i] * 2.0 + 1.0
        else:
            B[i]: "other" = A[i] * 2.0
"""
    )
    c = cost(func)
    assert evaluate(c.flops, {"n": 5}) == 10
    assert evaluate(c.bytes_stored, {"n": 5}) == 20


def test_what_comes_from_memory_is_called_as_it_is_written() -> None:
    f = lp.parse('def f(p: "int32[2]", B: "out float32[8]"):\n    for i in range(index(p[1])):\n        B[i] = 0.0\n')
    assert str(cost(f).by_statement["B"]) == "[p[1]]"


def test_quotients_are_rounded_down_exactly() -> None:
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    assert [evaluate(3 * sympy.floor(n / 3 + sympy.Rational(2, 3)), {"n": k}) for k in range(9)] == [
        0, 3, 3, 3, 6, 6, 6, 9, 9
    ]  # fmt: skip
