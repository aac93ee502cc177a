"""Products of small integers two steps at a time: what the CPU's schedule makes of them, and what it leaves."""

from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.codegen.llvm.emit import emit

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


@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int8", "int16")]
)
def test_integers_of_8_bits_are_widened_in_their_panels(left: str, right: str) -> None:
    """As people write them: each operand converted to what is added up, and something made of the sums."""
    a, b = lp.placeholder((24, 36), left, name="A"), lp.placeholder((36, 64), right, name="B")
    t = schedules.auto(lp.Schedule(a.astype("int32") @ b.astype("int32") + 1), "llvm")
    assert "with dot" in lp.text(t.func)
    assert {b.partition("_")[2] for b in t.buffers if b.startswith("matmul")} == {"local"}  # no others have the sums
    arrays = [extremes((24, 36), left, 0), extremes((36, 64), right, 1)]
    assert np.array_equal(t.build("llvm")(*arrays), product(*arrays, False) + 1)


def test_the_largest_products_wrap_as_32_bits_do() -> None:
    s = program(6, 32, 64, "int16")
    least = [np.full(x.shape, -(1 << 15), np.int16) for x in inputs(s, "int16")]
    assert np.array_equal(schedules.auto(s, "llvm").build("llvm")(*least), product(*least, False))


def test_one_instruction_multiplies_a_pair_in_every_lane() -> None:
    kernel = schedules.auto(program(48, 64, 80, "int8"), "llvm").build("llvm")
    assert "pmadd" in kernel.source


@pytest.mark.parametrize("size", [(48, 64, 81), (47, 65, 80), (7, 129, 33), (13, 17, 5)])
@pytest.mark.parametrize("turned", [False, True])
def test_what_lacks_of_whole_tiles_is_0_in_the_panels(size: tuple[int, int, int], turned: bool) -> None:
    s = program(*size, "int8", turned)
    t = schedules.auto(s, "llvm")
    assert "with dot" in lp.text(t.func)
    arrays = inputs(s, "int8")
    assert np.array_equal(t.build("llvm")(*arrays), product(*arrays, turned))


def test_products_of_what_is_not_small_are_refused() -> None:
    with pytest.raises(
        lp.ScheduleError, match="no product of integers of 8 or 16 bits, nor of bfloat16, of known sizes"
    ):
        schedules.matmul_pairs(mixed(12, 32, 8, "int32", "int32"), "C")


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


def mixed(rows: int, columns: int, depth: int, left: str, right: str) -> lp.Schedule:
    """C = A B of these types in int32, or in float32."""
    sum_ = "float32" if left == "bfloat16" else "int32"
    a, b = lp.placeholder((rows, depth), left, name="A"), lp.placeholder((depth, columns), right, name="B")
    k = lp.reduce_axis(depth, name="k")

    def element(i: Any, j: Any) -> Any:
        return lp.sum(lp.cast(a[i, k], sum_) * lp.cast(b[k, j], sum_), axis=k, accum_dtype=sum_)

    return lp.Schedule(lp.compute((rows, columns), element, name="C"))


def extremes(shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    """Whole numbers, the least and the largest among them."""
    least, most = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-(1 << 15), (1 << 15) - 1)}.get(dtype, (-9, 9))
    x = np.random.default_rng(seed).integers(least, most + 1, shape)
    x[:, ::3], x[:, 1::3] = least, most
    return x.astype(getattr(ml_dtypes, dtype, dtype))


@pytest.mark.parametrize(
    ("left", "right", "code", "needs", "cpu"),
    [
        ("uint8", "int8", "vpdpbusd", "avx512vnni", "sapphirerapids"),
        ("int8", "uint8", "vpdpbusd", "avx512vnni", "sapphirerapids"),
        ("int16", "int16", "vpdpwssd", "avx512bw", "sapphirerapids"),
        ("bfloat16", "bfloat16", "vdpbf16ps", "avx512bf16", "sapphirerapids"),
        ("int8", "int8", "vpdpbssd", "avxvnniint8", "sierraforest"),
        ("uint8", "uint8", "vpdpbuud", "avxvnniint8", "sierraforest"),
    ],
)
def test_what_newer_processors_have_is_one_instruction_and_the_same_product(
    left: str, right: str, code: str, needs: str, cpu: str
) -> None:
    """By the interpreter, by what becomes of it for a processor that has it, and here, if this one has."""
    t = schedules.matmul_pairs(mixed(12, 64, 8, left, right), "C", lanes=8 if cpu == "sierraforest" else 16)
    arrays = [extremes((12, 8), left, 0), extremes((8, 64), right, 1)]
    expected = product(arrays[0], arrays[1], False)
    assert np.array_equal(lp.interpret(t.func, arrays)["C"], expected)
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu)
    assert f"{code}\t" in machine.emit_assembly(llvm.parse_assembly(emit(lp.lower(t, "llvm")[0]).source))
    if needs in lp.cpu_features():
        assert np.array_equal(t.build("llvm")(*arrays), expected)
    else:
        with pytest.raises(lp.TargetError, match=f"an instruction of {needs} is asked for, which this CPU"):
            t.build("llvm")


def test_what_takes_denormal_numbers_for_0_is_not_chosen_by_itself() -> None:
    assert "dot2" not in lp.text(schedules.auto(mixed(24, 64, 64, "bfloat16", "bfloat16"), "llvm").func)


WOVEN = """
def f(A: "{dtype}[8, 64]", C: "out {to}[8, 64]"):
    with alloc("{to}[8, 64]", layout=mapped(lambda k, x: {at})) as T:
        for ko in range({m}):
            for xo in range({w}):
                for k in range({h}):
                    for x in range({n}):
                        T[ko * {h} + k, xo * {n} + x] = {value}
        for y in range(8):
            for z in range(64):
                C[y, z] = T[y, z]
"""


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "to"),
    [
        (4, 16, "int8", ""),
        (2, 16, "int8", "int16"),
        (2, 8, "uint8", "int16"),
        (2, 32, "bfloat16", ""),
        (4, 4, "uint8", ""),
    ],
)
def test_rows_are_woven_by_one_instruction(rows: int, columns: int, dtype: str, to: str) -> None:
    element = f"A[ko * {rows} + k, xo * {columns} + x]"
    at = f"x // {columns} * {columns * 8} + (k // {rows} * {columns} + x % {columns}) * {rows} + k % {rows}"
    parts = {"at": at, "h": rows, "n": columns, "m": 8 // rows, "w": 64 // columns, "dtype": dtype, "to": to or dtype}
    source = WOVEN.format(value=f"{to}({element})" if to else element, **parts)
    s = lp.Schedule(lp.parse(source))
    s = s.tensorize("k", f"weave_{rows}_{columns}_{dtype}" + (f"_{to}" if to else ""))
    given = extremes((8, 64), dtype, 0)
    assert np.array_equal(lp.interpret(lp.lower(s, "llvm")[0], [given])["C"], given)
    assert np.array_equal(s.build("llvm")(given), given)


def test_large_panels_are_known_to_be_what_instructions_take() -> None:
    """By their layout, where trying all of the elements would take long."""
    a, b = (lp.placeholder((1 << 12, 1 << 12), "int8", name=x) for x in "AB")
    text = lp.text(schedules.auto(lp.Schedule(a.astype("int32") @ b.astype("int32")), "llvm").func)
    assert "weave" in text
    assert "dot" in text
