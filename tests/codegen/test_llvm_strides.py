"""Lanes that read elements at a distance: whole vectors are loaded, and nothing beside the first and the last."""

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.codegen.llvm.emit import emit

Array = np.ndarray[Any, Any]


def picked(stride: int, lanes: int, dtype: str, count: int = 3) -> tuple[lp.Schedule, Array, Array]:
    """Every so manieth element, the first or the last of which is the array's last one, in vectors."""
    n = count * lanes
    size = abs(stride) * (n - 1) + 1
    first = 0 if stride > 0 else size - 1
    x = lp.placeholder((size,), dtype, name="x")
    s = lp.Schedule(lp.compute((n,), lambda i: x[i * stride + first], name="y"))
    given = np.random.default_rng(0).integers(0, 100, size).astype(lp.placeholder((1,), dtype, name="p").dtype.numpy)
    return s.split("i", lanes).vectorize("i_i"), given, given[first::stride] if stride > 0 else given[::stride]


@pytest.mark.parametrize("stride", [-4, -3, -2, -1, 2, 3, 4, 5, -7])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "bfloat16"])
def test_elements_at_a_distance(stride: int, lanes: int, dtype: str) -> None:
    s, given, expected = picked(stride, lanes, dtype)
    np.testing.assert_array_equal(s.build("llvm")(given), expected)


@pytest.mark.parametrize("stride", [-4, -3, -2, -1, 2, 3, 4])
def test_loads_are_of_vectors_between_the_first_and_the_last(stride: int) -> None:
    s, _, _ = picked(stride, 8, "float32", count=1)
    (program,) = lp.lower(s, "llvm")
    source = emit(program).source
    assert source.count("load <8 x float>") == abs(stride)
    assert "load float" not in source


@pytest.mark.parametrize("index", ["(i + 1) // 2", "7 - i // 3", "i % 4", "min(i, 3)", "max(2, i) * 1"])
def test_a_pattern_of_lanes_is_picked_from_one_vector(index: str) -> None:
    """What lies where a number of the lane says is loaded with all between, and nothing outside."""
    s = lp.Schedule(lp.parse(
        f'def f(x: "float32[3, 8]", y: "out float32[3, 8]"):\n    for j in range(3):\n        for i in range(8):\n'
        f"            y[j, i] = x[j, {index}]\n"
    )).vectorize("i")  # fmt: skip
    given = np.arange(24, dtype=np.float32).reshape(3, 8)
    at = [eval(index, {"i": i, "min": min, "max": max}) for i in range(8)]
    np.testing.assert_array_equal(s.build("llvm")(given), given[:, at])
    (program,) = lp.lower(s, "llvm")
    assert "load float" not in emit(program).source


def test_a_guard_is_one_mask_where_rows_are_no_whole_vectors() -> None:
    x = lp.placeholder((5, 43), "float32", name="x")
    s = schedules.cpu(lp.Schedule(lp.compute((5, 43), lambda i, j: x[i, 42 - j], name="y")), lanes=8)
    assert lp.text(s.func).count(" if ") == 1
    assert "for j_o in range(5):" in lp.text(s.func)
    given = np.arange(215, dtype=np.float32).reshape(5, 43)
    np.testing.assert_array_equal(s.build("llvm")(given), given[:, ::-1])


def before_a_gap(values: Array) -> Array:
    """`values` in memory whose next byte no one may read."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0)
    out = np.frombuffer(memory, values.dtype, values.size, page - values.nbytes)
    out[:] = values
    return out


@pytest.mark.parametrize(("index", "lanes"), [("i * 2", 8), ("i // 2", 16), ("i // 4", 8), ("i * 3", 4), ("31 - i", 8)])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
def test_a_lane_that_is_masked_reads_nothing(index: str, lanes: int, dtype: str) -> None:
    size = 11
    s = lp.Schedule(
        lp.parse(f"""
def f(x: "{dtype}[{size}]", y: "{dtype}[32]", c: "uint8[32]", out: "out {dtype}[32]"):
    for i in range(32):
        out[i] = select(c[i] > 0, x[{index}], y[i])
""")
    )
    s = s.split("i", lanes).vectorize("i_i")
    rng = np.random.default_rng(lanes)
    at = np.array([eval(index, {"i": i}) for i in range(32)])
    x, y = (rng.integers(1, 100, n).astype(dtype) for n in (size, 32))
    c = ((at < size) & (rng.random(32) < 0.7)).astype(np.uint8)
    np.testing.assert_array_equal(s.build("llvm")(before_a_gap(x), y, c), np.where(c, x[np.minimum(at, size - 1)], y))


def test_what_is_woven_of_two_arrays_is_loaded_by_vectors() -> None:
    x, y = (lp.placeholder((16,), "float32", name=v) for v in "xy")
    s = lp.Schedule(lp.stack((x, y), axis=1).reshape(32).named("z")).split("i", 16).vectorize("i_i")
    (program,) = lp.lower(s, "llvm")
    assert "load float" not in emit(program).source
    a, b = np.random.default_rng(0).random((2, 16), np.float32)
    np.testing.assert_array_equal(s.build("llvm")(a, b), np.stack((a, b), 1).ravel())


@pytest.mark.parametrize(
    ("index", "groups"),
    [
        ("i % 2 * 40 + i // 2", 2),
        ("100 - i % 2 * 60 - i // 2 + j", 2),
        ("i // 6 * 70 + j", 3),
        ("i % 4 * 33 + min(i, 9) // 4", 4),
        ("i * (i - 8) * 3 + 48", 0),
        ("i % 6 * 25 + j", 0),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "float16"])
def test_lanes_that_read_in_a_few_places_load_a_vector_at_each(index: str, groups: int, dtype: str) -> None:
    at = np.array([[eval(index, {"i": i, "j": j, "min": min}) for i in range(16)] for j in range(3)])
    s = lp.Schedule(lp.parse(
        f'def f(x: "{dtype}[{at.max() + 1}]", y: "out {dtype}[3, 16]"):\n    for j in range(3):\n'
        f"        for i in range(16):\n            y[j, i] = x[{index}]\n"
    )).vectorize("i")  # fmt: skip
    given = np.random.default_rng(0).integers(0, 100, at.max() + 1).astype(dtype)
    np.testing.assert_array_equal(s.build("llvm")(given), given[at])
    (program,) = lp.lower(s, "llvm")
    loads = sum(line.split(" = ")[-1].startswith("load") for line in emit(program).source.splitlines())
    assert loads == groups or (groups == 0 and loads in (0, 16))


def test_a_fault_in_some_lanes_is_recorded_by_one_store() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", x: "float32[n]", p: "int32[16]", y: "out float32[16]"):
    for i in vectorize(16):
        y[i] = x[p[i]]
""")
    )
    (program,) = lp.lower(s, "llvm")
    assert emit(program).source.count("store i64 1,") == 2  # in one version for small sizes, and in one for all
    kernel, x, p = s.build("llvm"), np.arange(20, dtype=np.float32), np.arange(16, dtype=np.int32)
    np.testing.assert_array_equal(kernel(x, p), x[:16])
    for lane in (0, 7, 15):
        wrong = p.copy()
        wrong[lane] = 20
        with pytest.raises(lp.BoundsError):
            kernel(x, wrong)
