"""Products of a warpgroup whose left operand is made in registers: a prologue, and what orders its writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from left_in_registers import KINDS, given, product, wanted

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncCommit, AsyncWait, Const, Fence, Func, Int, RegisterFence, Stmt, Store
from loopir.ir.ops import find_instruction
from loopir.ir.traverse.walk import replace, rewrite, statements


@pytest.mark.parametrize("short", KINDS)
def test_what_is_made_of_it_is_multiplied(short: str) -> None:
    s = product(short)
    args = given(short)
    assert np.array_equal(interpret(lp.lower(s, "cuda")[0], args)["C"], wanted(short, *args))
    assert np.array_equal(s.build("llvm")(*args), wanted(short, *args))


@pytest.mark.parametrize("short", KINDS)
def test_nothing_is_spilled_or_serialised(short: str) -> None:
    (used,) = lp.compile_source(product(short), "sm_90a").resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0


def test_its_registers_are_held_until_the_products_are_done() -> None:
    func = lp.lower(product(), "cuda")[0]
    assert {s.buffer.name for s in statements(func.body) if isinstance(s, RegisterFence)} == {"acc", "left"}


def unfenced(s: Stmt) -> Any:
    return () if s == Fence("registers") else None


def unwaited(s: Stmt) -> Any:
    return replace(s, pending=1) if s == AsyncWait(0, "products") else None


FAULTS: dict[str, tuple[Callable[[Stmt], Any], str]] = {
    "no fence of registers": (unfenced, "gives the register .* to products without a fence since its write"),
    "no wait": (unwaited, "writing by asynchronous products, and has not waited for|products of block .* still read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_order_is_caught(fault: str) -> None:
    func: Func = lp.lower(product(), "cuda")[0]
    change, told = FAULTS[fault]
    with pytest.raises(lp.InterpretError, match=told):
        interpret(replace(func, body=rewrite(func.body, change)), given("bf16"))


def test_registers_that_products_still_read_are_not_written() -> None:
    func: Func = lp.lower(product(), "cuda")[0]
    left = next(s.buffer for s in statements(func.body) if isinstance(s, RegisterFence) and s.buffer.name == "left")
    first = Store("again", left, (Int(0),), Const(0, left.dtype))

    def early(s: Stmt) -> Any:
        return (s, first) if s == AsyncCommit("products") else None

    with pytest.raises(lp.InterpretError, match=r"writes left\[0\], which products of block .* still read"):
        interpret(replace(func, body=rewrite(func.body, early)), given("bf16"))


def test_integers_and_floats_of_8_bits_lie_along_the_sum() -> None:
    assert find_instruction("wgmma_m64n16k32_s8_ar") is None
    assert find_instruction("wgmma_m64n16k16_bf16_ar") is not None
