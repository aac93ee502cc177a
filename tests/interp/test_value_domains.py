"""The interpreter's domain "field": the laws of a field and of powers hold in it to the bit, and of infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.interp.value_domains import DOMAINS, HIGH, LOW, NAN, P, Q
from loopir.ir.dtypes import DType
from loopir.ir.ops import REGISTRY

FIELD, FLOAT = DOMAINS["field"](), DType("float32", "float", 32)
elements = st.tuples(st.integers(0, P - 1), st.integers(0, Q - 1))
exact = settings(max_examples=50, deadline=None, derandomize=True, database=None)


def op(name: str, *args: Any) -> Any:
    return FIELD.op(REGISTRY[name], FLOAT)(*args)


@pytest.mark.parametrize("n", [P, Q])
def test_the_moduli_are_primes(n: int) -> None:
    assert all(pow(a, n - 1, n) == 1 for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))  # decides below 2^64 with
    odd, twos = n - 1, 0  # the same bases by Miller and Rabin
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(a, odd, n)
        assert x == 1 or any(pow(x, 2**k, n) == n - 1 for k in range(twos))


def test_exponents_are_of_the_second_prime() -> None:
    assert (P - 1) % Q == 0


@exact
@given(elements, elements, elements)
def test_the_laws_of_a_field(x: Any, y: Any, z: Any) -> None:
    assert op("mul", x, op("add", y, z)) == op("add", op("mul", x, y), op("mul", x, z))
    assert op("add", op("sub", x, y), y) == x
    assert op("fma", x, y, z) == op("add", op("mul", x, y), z)
    if 0 not in y:
        assert op("mul", op("div", x, y), y) == x


@exact
@given(elements, elements, st.sampled_from(["exp", "exp_16", "exp2", "exp2_16"]))
def test_the_power_of_a_sum_is_the_product_of_powers(x: Any, y: Any, name: str) -> None:
    assert op(name, op("add", x, y)) == op("mul", op(name, x), op(name, y))
    assert op(name, op("sub", x, y)) == op("div", op(name, x), op(name, y))
    assert op(name, (0, 0)) == (1, 1)


def test_infinities_do_as_among_floats() -> None:
    some = {LOW: -np.inf, HIGH: np.inf, NAN: np.nan, (3, 3): 3.0, (0, 0): 0.0}
    names = ("add", "sub", "mul", "maximum", "minimum")
    with np.errstate(all="ignore"):
        for name in names:
            for x, a in some.items():
                for y, b in some.items():
                    wanted, found = REGISTRY[name].meaning(np.float32(a), np.float32(b)), op(name, x, y)
                    assert {LOW: -np.inf, HIGH: np.inf}.get(found) == (wanted if np.isinf(wanted) else None), (
                        name,
                        a,
                        b,
                    )
                    assert (found == NAN) == bool(np.isnan(wanted)), (name, a, b)
    assert (op("exp", LOW), op("exp", HIGH)) == ((0, 0), HIGH)


def test_a_sum_in_another_order_is_equal_and_a_wrong_one_is_not() -> None:
    text = """
def f(A: "float32[6]", S: "out float32[1]"):
    for i in range(6):
        S[0] = sum(exp(A[{}]), over=i, init=0.0)
"""
    a = np.random.default_rng(0).standard_normal(6).astype(np.float32)
    one, other, wrong = (
        interpret(lp.parse(text.format(ix)), (a,), domain="field")["S"][0] for ix in ("i", "5 - i", "i // 2")
    )
    assert one == other != wrong
