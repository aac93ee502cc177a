"""Costs and bounds: formulas against counting, and the access that leaves its buffer."""

from __future__ import annotations

import sympy

import loopir as lp
import loopir.intrinsics
from loopir.analysis.cost.cost import cost, evaluate, symbol
from loopir.analysis.regions.bounds import find_out_of_bounds


def test_matmul_by_its_textbook_formula() -> None:
    func = lp.parse(
        """
def mm(n: "size", m: "size", p: "size", A: "float32[n, p]", B: "float32[p, m]", C: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            for k in range(p):
                C[i, j] = sum(A[i, k] * B[k, j], over=k, init=0.0)
"""
    )
    n, m, p = map(symbol, "nmp")
    c = cost(func)
    assert sympy.simplify(c.flops - 2 * n * m * p) == 0
    assert sympy.simplify(c.compulsory - 4 * (n * p + p * m + n * m)) == 0
    assert sympy.simplify(c.bytes_stored - 4 * (n * m + n * m * p)) == 0
    assert evaluate(c.flops, {"n": 3, "m": 4, "p": 5}) == 120
    assert c.by_buffer["A"] == 4 * n * m * p
    assert sympy.simplify(sum(c.by_buffer.values()) - c.bytes_loaded - c.bytes_stored) == 0


def nest(extent: str, at: str, guard: str = "True", assume: str = "n >= 0") -> lp.Func:
    return lp.parse(
        f"""
def f(n: "size", a: "inout float32[n, 8]", p: "int32[8]"):
    assume({assume})
    for i in range({extent}):
        for j in range(8):
            if {guard}:
                a[{at}] = 1.0
"""
    )


def test_accesses_inside_are_proved_for_all_sizes() -> None:
    assert find_out_of_bounds(nest("n", "i, j")) is None
    assert find_out_of_bounds(nest("n", "n - 1 - i, 7 - j")) is None
    assert find_out_of_bounds(nest("n + 5", "i, j", guard="i < n")) is None
    assert find_out_of_bounds(nest("n // 4", "i * 4 + j // 2, j")) is None
    assert find_out_of_bounds(nest("n", "i, p[j]")) is None  # from memory: the interpreter's to check


def test_the_least_access_outside_is_told() -> None:
    found = find_out_of_bounds(nest("n + 1", "i, j"))
    assert str(found) == "a at (i=0, j=0) touches a[0, 0], and its shape is (0, 8) (at n=0)"
    found = find_out_of_bounds(nest("n", "i, j - 1", assume="n >= 2"))
    assert found is not None
    assert (found.element, found.sizes) == ((0, -1), {"n": 2})
