"""value_range: no value that an expression has for any operands of its types lies outside."""

from itertools import product

import numpy as np
import pytest

import loopir as lp
from loopir.arith.value_range import fits, value_range
from loopir.ir.dtypes import dtype
from loopir.ir.grammar import Store
from loopir.ir.traverse.walk import statements

EDGES = {"int8": (-128, -127, -1, 0, 1, 100, 127), "uint8": (0, 1, 2, 100, 255)}


@pytest.mark.parametrize(("a", "b"), [*product(EDGES, EDGES)])
@pytest.mark.parametrize(
    "of",
    [
        "int64(A[0]) * int64(B[0])",
        "int16(A[0]) * int16(B[0])",
        "int32(A[0]) - int32(B[0])",
        "-int16(A[0]) + int16(B[0]) * int16(3)",
        "int16(int8(A[0]) + int8(B[0]))",
        "abs(int16(A[0])) * int16(2)",
        "int64(abs(int8(A[0])))",
        "int64(uint8(int8(A[0])))",
        "maximum(int32(A[0]), int32(B[0])) * minimum(int32(A[0]), int32(5))",
        "int64(select(A[0] < 3, int32(B[0]) * 7, int32(-1)))",
    ],
)
def test_all_values_are_inside(a: str, b: str, of: str) -> None:
    func = lp.parse(f'def f(A: "{a}[1]", B: "{b}[1]", C: "out int64[1]"):\n    C[0] = int64({of})\n')
    (store,) = (x for x in statements(func.body) if isinstance(x, Store))
    least, most = value_range(store.value)
    run = lp.Schedule(func).build("interpret")
    for x, y in product(EDGES[a], EDGES[b]):
        assert least <= int(run(np.array([x], a), np.array([y], b))[0]) <= most


def test_what_fits() -> None:
    assert fits((-128, 127), dtype("int8"))
    assert not fits((-128, 128), dtype("int8"))
    assert not fits((-1, 0), dtype("uint64"))
