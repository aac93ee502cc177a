"""Products in tiles of AMX: what they mean, what becomes of them for a CPU that has tiles, and here if this one has."""

from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from tile_nest import NEST

import loopir as lp
import schedules
from loopir.codegen.llvm.emit import emit

LEAST = {"int8": (-128, 127), "uint8": (0, 255), "bfloat16": (-9, 9)}
SHAPES = [(64, 32, 64, True, False), (32, 64, 128, False, True), (50, 60, 120, False, False)]


def product(m: int, n: int, k: int, turned: tuple[bool, bool], types: tuple[str, str]) -> lp.Schedule:
    """A product as people write it, of operands that may lie transposed."""
    sums = "float32" if types[0] == "bfloat16" else "int32"
    a = lp.placeholder((k, m) if turned[0] else (m, k), types[0], name="A")
    b = lp.placeholder((n, k) if turned[1] else (k, n), types[1], name="B")
    left, right = (x.T if t else x for x, t in zip((a, b), turned, strict=True))
    return lp.Schedule(left.astype(sums) @ right.astype(sums))


def arrays(s: lp.Schedule) -> list[np.ndarray]:
    """Whole numbers, the least and the largest among them."""
    out: list[np.ndarray] = []
    for p in s.func.args:
        if p.access == "in":
            least, most = LEAST[p.buffer.dtype.name]
            x = np.random.default_rng(len(out)).integers(least, most + 1, [d.value for d in p.buffer.shape])
            x[:, ::3], x[:, 1::3] = least, most
            out.append(x.astype(getattr(ml_dtypes, p.buffer.dtype.name, p.buffer.dtype.name)))
    return out


def expected(given: list[np.ndarray], turned: tuple[bool, bool]) -> np.ndarray:
    left, right = (x.astype(np.int64).T if t else x.astype(np.int64) for x, t in zip(given, turned, strict=True))
    return left @ right


@pytest.mark.parametrize(
    ("left", "right", "code", "turned", "size"),
    [
        ("int8", "int8", "tdpbssd", (False, False), (32, 32, 64)),
        ("int8", "uint8", "tdpbsud", (True, False), (29, 32, 61)),
        ("uint8", "int8", "tdpbusd", (False, True), (32, 30, 60)),
        ("uint8", "uint8", "tdpbuud", (True, True), (32, 32, 64)),
        ("bfloat16", "bfloat16", "tdpbf16ps", (True, True), (31, 31, 31)),
    ],
)
def test_a_product_is_tiles_and_the_same(
    left: str, right: str, code: str, turned: tuple[bool, bool], size: tuple[int, int, int]
) -> None:
    """Lowered, by what the instructions take from where; by the code for one that has them; and here, if it has."""
    s = product(*size, turned, (left, right))
    t = schedules.matmul_amx(s, "matmul")
    given = arrays(s)
    wanted = expected(given, turned)
    lowered = lp.lower(t, "llvm")[0]
    assert np.array_equal(lp.interpret(lowered, given)["matmul"], wanted)
    lp.cpu_features()  # LLVM knows of targets once it was asked
    machine = llvm.Target.from_default_triple().create_target_machine(cpu="sapphirerapids")
    assembly = machine.emit_assembly(llvm.parse_assembly(emit(lowered).source))
    assert (assembly.count(f"\t{code}\t"), assembly.count("tileloadd\t")) == (4, 4)
    assert (
        assembly.index("ldtilecfg") < assembly.index("tilezero") < assembly.index(code) < assembly.index("tilerelease")
    )
    if "amx-tile" in lp.cpu_features():
        for threads in (1, 2):
            assert np.array_equal(t.build("llvm", threads=threads)(*given), wanted)
    else:
        with pytest.raises(lp.TargetError, match=r"amx-tile"):
            t.build("llvm")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_chosen_is_right_here(shape: tuple[Any, ...]) -> None:
    *sizes, one, other = shape
    s = product(*sizes, (one, other), ("int8", "int8"))
    t = schedules.auto(s, "llvm")
    assert ("tile_dot" in lp.text(t.func)) == ("amx-int8" in lp.cpu_features())
    given = arrays(s)
    assert np.array_equal(t.build("llvm")(*given), expected(given, (one, other)))


@pytest.mark.parametrize(("size", "dtype"), [((20, 20, 64), "int8"), ((32, 32, 64), "int16")])
def test_what_does_not_fill_tiles_is_refused(size: tuple[int, int, int], dtype: str) -> None:
    s = product(*size, (False, False), (dtype, dtype))
    with pytest.raises(lp.ScheduleError, match="nor of bfloat16, that fills tiles of AMX"):
        schedules.matmul_amx(s, "matmul")


def test_tiles_are_touched_by_instructions_alone() -> None:
    s = lp.Schedule(lp.parse(NEST))
    given = [np.arange(1024, dtype=np.int8).reshape(16, 64)]
    assert np.array_equal(s.build("llvm")(*given), given[0])  # no instruction: memory as any other
    t = s.tensorize("x", "tile_load_int8")
    with pytest.raises(lp.LowerError, match="C touches T, which is in registers that instructions alone touch"):
        lp.lower(t, "llvm")
    lp.lower(t.tensorize("y", "tile_store_int8"), "llvm")


def test_a_tile_is_no_memory_that_an_instruction_takes_rows_from() -> None:
    s = lp.Schedule(lp.parse(NEST)).cache_read("C", "T", "tiles").set_layout("T_tiles", "lambda x, k: (x // 16, x, k)")
    with pytest.raises(lp.ScheduleError, match="its operand M has an address, and T is in tiles, which have none"):
        s.tensorize("ax0", "tile_load_int8")


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("lambda x, k: (k, x)", "are not known to lie together"),
        ("lambda x, k: (x // 8, k, x % 8)", "are not known to lie together"),
    ],
)
def test_tiles_hold_rows(layout: str, reason: str) -> None:
    s = lp.Schedule(lp.parse(NEST.replace(", layout=mapped(lambda x, k: x * 64 + k)", ""))).set_layout("T", layout)
    with pytest.raises(lp.ScheduleError, match=reason):
        s.tensorize("x", "tile_load_int8")
