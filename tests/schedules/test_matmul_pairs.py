"""Products of small integers two steps at a time: what the CPU's schedule makes of them, and what it leaves."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

LIMITS = {"int8": 128, "int16": 1 << 15}


def program(rows: int, columns: int, depth: int, dtype: str, turned: bool = False) -> lp.Schedule:
    """C = A B in int32 of operands that are widened to int16 before, if they are int8; B transposed in memory."""
    a = lp.placeholder((rows, depth), dtype, name="A")
    b = lp.placeholder((columns, depth) if turned else (depth, columns), dtype, name="B")
    x, y = a, b
    if dtype == "int8":
        x, y = (lp.compute(t.shape, lambda i, j, t=t: lp.cast(t[i, j], "int16"), name=f"{t.name}16") for t in (a, b))
    k = lp.reduce_axis(depth, name="k")

    def element(i: Any, j: Any) -> Any:
        right = y[j, k] if turned else y[k, j]
        return lp.sum(lp.cast(x[i, k], "int32") * lp.cast(right, "int32"), axis=k, accum_dtype="int32")

    return lp.Schedule(lp.compute((rows, columns), element, name="C"))


def inputs(s: lp.Schedule, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [tuple(d.value for d in p.buffer.shape) for p in s.func.args if p.access == "in"]
    return [rng.integers(-LIMITS[dtype], LIMITS[dtype], shape).astype(dtype) for shape in shapes]


def product(a: np.ndarray, b: np.ndarray, turned: bool) -> np.ndarray:
    """In 64 bits, and what 32 hold of it."""
    return (a.astype(np.int64) @ (b.T if turned else b).astype(np.int64)).astype(np.int32)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", [(48, 64, 80), (30, 32, 64), (20, 96, 130)])
def test_what_runs_is_the_product(size: tuple[int, int, int], dtype: str, turned: bool) -> None:
    s = program(*size, dtype, turned)
    t = schedules.auto(s, "llvm")
    assert "_int16()" in lp.text(t.func)
    arrays = inputs(s, dtype)
    for threads in (1, 2):
        assert np.array_equal(t.build("llvm", threads=threads)(*arrays), product(*arrays, turned))
    small = program(12, 32, 6, dtype, turned)
    few = inputs(small, dtype)
    interpreted = lp.interpret(schedules.matmul_pairs(small, "C").func, few)["C"]
    assert np.array_equal(interpreted, product(*few, turned))


def test_the_largest_products_wrap_as_32_bits_do() -> None:
    s = program(6, 32, 64, "int16")
    least = [np.full(x.shape, -(1 << 15), np.int16) for x in inputs(s, "int16")]
    assert np.array_equal(schedules.auto(s, "llvm").build("llvm")(*least), product(*least, False))


def test_one_instruction_multiplies_a_pair_in_every_lane() -> None:
    kernel = schedules.auto(program(48, 64, 80, "int8"), "llvm").build("llvm")
    assert "pmadd" in kernel.source


@pytest.mark.parametrize("size", [(48, 64, 81), (48, 65, 80), (47, 64, 80)])
def test_what_is_in_no_whole_tiles_is_a_product_as_any_other(size: tuple[int, int, int]) -> None:
    s = program(*size, "int8")
    with pytest.raises(lp.ScheduleError, match="no product of 16-bit integers in whole tiles"):
        schedules.matmul_pairs(s, "C")
    arrays = inputs(s, "int8")
    assert np.array_equal(schedules.auto(s, "llvm").build("llvm")(*arrays), product(*arrays, False))


def test_pairs_have_to_lie_together() -> None:
    source = """
def f(A: "int16[2]", B: "int16[2, 8]", C: "inout int32[8]"):
    with alloc("int32[8]", scope="local") as c:
        for i in range(8):
            c[i] = C[i]
        for j in range(8):
            for k in range(2):
                c[j] += int32(A[k]) * int32(B[k, j])
        for o in range(8):
            C[o] = c[o]
"""
    s = lp.Schedule(lp.parse(source))
    with pytest.raises(lp.ScheduleError, match=r"8 x 2 elements along dimensions .* are not known to lie together"):
        s.tensorize("j", "dot2_8_int16")
