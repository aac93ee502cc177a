"""Products of int8 on tensor cores: the registers are those of the manual, and a lowered tile means the product."""

import numpy as np
from int8_tile import TILE

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.ir.layout.layouts import fragment_elements
from loopir.ir.ops import INSTRUCTIONS


def test_a_tile_means_the_product_and_compiles() -> None:
    s = lp.Schedule(lp.parse(TILE)).tensorize("m", "mma_m16n8k32_s8_bt")
    rng = np.random.default_rng(0)
    args = {"A": rng.integers(-128, 128, (16, 64)), "B": rng.integers(-128, 128, (8, 64))}
    (lowered,) = lp.lower(s, "cuda")
    found = interpret(lowered, {n: x.astype(np.int8) for n, x in args.items()})["C"]
    assert np.array_equal(found, args["A"] @ args["B"].T)
    assert "m16n8k32" in lp.compile_source(s, "sm_80").source


def test_registers_are_those_of_the_manual() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k32": row and column of a_i and b_i by group and thread in group."""
    fn = INSTRUCTIONS["mma_m16n8k32_s8_bt"]
    _, a, b = (x.buffer.layout for x in fn.meaning.args)
    for t in range(32):
        group, thread = t >> 2, t % 4
        for i in range(16):
            row = group if i < 4 or 8 <= i < 12 else group + 8
            column = thread * 4 + (i & 3) + (0 if i < 8 else 16)
            assert tuple(fragment_elements(a)[t, i]) == (row, column)
        for i in range(8):
            assert tuple(fragment_elements(b)[t, i]) == (group, thread * 4 + (i & 3) + (0 if i < 4 else 16))
