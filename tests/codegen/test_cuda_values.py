"""Literals, operations and conversions in CUDA C."""

from __future__ import annotations

import pytest

import loopir as lp
import schedules
from loopir.codegen.cuda.values import literal
from loopir.ir.dtypes import ALL_DTYPES, DType, bool_, float32, float64, int64
from loopir.testing.generate import operation_programs


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_every_operation_and_conversion_compiles(t: DType) -> None:
    for func, _ in (operation_programs.operations(t), operation_programs.conversions(t)):
        compiled = lp.compile_source(schedules.gpu(lp.Schedule(func)))
        assert compiled.cubin[:4] == b"\x7fELF"
        few = 32 if t == float64 else 8  # words of divisions of eight lanes; of inverse functions of the library
        assert all(r.spill_stores <= few for r in compiled.resources.values())


@pytest.mark.parametrize(
    ("value", "t", "spelt"),
    [
        (0.1, float32, "0.10000000149011612f"),
        (-0.0, float32, "(-0.0f)"),
        (float("inf"), float32, "__uint_as_float(2139095040u)"),
        (0.1, float64, "0x1.999999999999ap-4"),
        (-(2**63), int64, "(-9223372036854775807ll - 1)"),
        (True, bool_, "true"),
    ],
)
def test_literals_have_exactly_their_bits(value: float, t: DType, spelt: str) -> None:
    assert literal(value, t) == spelt
