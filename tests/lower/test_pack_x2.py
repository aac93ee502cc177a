"""The pass `pairs`: what is made of a product's sums is the same by instructions on two lanes."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import InstrCall
from loopir.ir.traverse.walk import statements
from schedules.common.fusion import inlined
from schedules.cuda.matmul_wgmma import matmul_wgmma
from schedules.cuda.product_chains import product_chain

BF = ml_dtypes.bfloat16


def product() -> lp.Schedule:
    a, b = lp.placeholder((64, 64), "bfloat16", name="a"), lp.placeholder((16, 64), "bfloat16", name="b")
    c, d = (lp.placeholder(shape, "bfloat16", name=x) for x, shape in (("c", (16,)), ("d", (64, 16))))
    s = inlined(lp.Schedule(lp.silu(lp.gelu(a @ b.T + c, approximate="tanh") + d)))
    return matmul_wgmma(s, "matmul", block=(64, 16), stages=1)


def test_two_lanes_at_once_are_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    (func,) = lp.lower(product(), "cuda")
    issued = [s.fn.name for s in statements(func.body) if isinstance(s, InstrCall) and s.fn.name.endswith("x2")]
    assert issued == ["add_bf16x2", "gelu_16x2", "add_bf16x2", "silu_16x2"]
    monkeypatch.setattr(import_module("loopir.lower.gpu.pack_x2"), "_multiplies", lambda s: False)
    (plain,) = lp.lower(product(), "cuda")
    assert not any(isinstance(s, InstrCall) and s.fn.name.endswith("x2") for s in statements(plain.body))
    rng = np.random.default_rng(0)
    given = [rng.integers(-2, 3, s).astype(BF) for s in ((64, 64), (16, 64), (16,), (64, 16))]
    one, other = (next(iter(lp.interpret(f, tuple(given)).values())) for f in (func, plain))
    assert np.array_equal(one.view(np.uint16), other.view(np.uint16))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_scores_that_are_rounded_twice_are_in_pairs(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product's sums, rounded, times a scale, rounded: stored where three folds read them, in pairs."""
    q, k, v = (lp.placeholder((n, 16), dtype, name=x) for x, n in zip("QKV", (64, 32, 32), strict=True))
    with lp.scheduling_for(lp.machine("sm_90a")):
        s = product_chain(lp.Schedule(lp.softmax((q @ k.T) * 0.3) @ v), keys=16)
    (func,) = lp.lower(s, "cuda")
    pairs = [x for x in statements(func.body) if isinstance(x, InstrCall) and x.fn.name.startswith("mul_")]
    assert {x.operands[-1].buffer.dtype.name for x in pairs} == {dtype}
    monkeypatch.setattr(import_module("loopir.lower.gpu.pack_x2"), "_multiplies", lambda s: False)
    (plain,) = lp.lower(s, "cuda")
    rng = np.random.default_rng(0)
    some = [rng.standard_normal((n, 16)).astype(np.float16 if dtype == "float16" else BF) for n in (64, 32, 32)]
    one, other = (next(iter(lp.interpret(f, tuple(some)).values())) for f in (func, plain))
    assert np.array_equal(one.view(np.uint16), other.view(np.uint16))


def of(bits: int) -> Fraction:
    """The bfloat16 of these bits."""
    return Fraction(float(np.uint16(bits).view(BF)))


BITS = st.integers(0, (1 << 16) - 1).filter(lambda n: n & 0x7F80 < 0x7E80)  # finite, and so is any sum of two


@settings(max_examples=300, deadline=None)
@given(BITS, BITS)
def test_a_sum_of_bfloat16_rounded_twice_is_rounded_once(a: int, b: int) -> None:
    """Of the neighbours none is nearer, and none as near but to an even one: so `fma.rn.bf16x2` rounds."""
    check_nearest(of(a) + of(b), np.float32(of(a)) + np.float32(of(b)))


DIGITS = st.integers(128, 255)  # of a bfloat16


@settings(max_examples=300, deadline=None)
@given(DIGITS, DIGITS, st.integers(-170, 20))
def test_a_product_of_bfloat16_rounded_twice_is_rounded_once(a: int, b: int, e: int) -> None:
    """Also of products that are no normal numbers, and of those that are 0."""
    x, y = a * Fraction(2) ** (e // 2), b * Fraction(2) ** (e - e // 2)
    check_nearest(x * y, np.float32(x) * np.float32(y))


def check_nearest(exact: Fraction, single: np.float32) -> None:
    """That `single`, rounded to bfloat16, is what `exact` is rounded to."""
    rounded = np.asarray(single).astype(BF)
    bits = int(rounded.view(np.uint16))
    off = abs(exact - of(bits))
    for n in (bits - 1, bits + 1):
        if n & 0x7FFF < 0x7F80 and of(n) != of(bits):
            assert off < (far := abs(exact - of(n))) or (off == far and bits % 2 == 0)
