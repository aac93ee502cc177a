"""Convolutions with batch norm and relu, scheduled for a GPU by the primitives of products: on the interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from convolutions import CONVS, Conv

import loopir as lp
import schedules
from loopir.ir.interpret import interpret

SMALL = [c for c in CONVS if c.layout == "NHWC" or c.name.endswith(("padding", "stride 2", "2 groups", "odd"))]


@pytest.mark.parametrize("conv", SMALL, ids=lambda c: c.name)
def test_they_mean_what_they_say(conv: Conv) -> None:
    given = conv.arrays()
    (found,) = interpret(lp.lower(schedules.auto(conv.schedule(), "cuda"), "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)


@pytest.mark.parametrize("conv", [c for c in CONVS if c.dtype != "float32"], ids=lambda c: c.name)
def test_large_ones_are_done_by_tensor_cores(conv: Conv) -> None:
    large = replace(conv, n=8, h=4 * conv.h, c=4 * conv.c, k=4 * conv.k)
    assert "mma_m16n8k16" in str(schedules.auto(large.schedule(), "cuda"))
