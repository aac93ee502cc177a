"""Kernels written out for C: a C program calls each, and what it writes is what the interpreter gives."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_on_cpu import needs_compiler

import loopir as lp
from loopir.codegen.c_host import STATUS, c_type
from loopir.runtime import export
from loopir.runtime.llvm_jit import TILES, object_code

CODES = {name: code for code, name in enumerate(STATUS)}
GEMM = """
def gemm(n: "size", A: "int32[n, 4]", B: "int32[4, 2 * n]", C: "out int32[n, 2 * n]", most: "out int32[n]"):
    assume(n % 2 == 0)
    assume(n <= 1000)
    with alloc("int32[n, 4]") as twice:
        for i in parallel(n):
            for k in range(4):
                twice[i, k] = A[i, k] * 2
        for i_1 in parallel(n):
            for j in range(2 * n):
                for k_1 in range(4):
                    C[i_1, j] = sum(twice[i_1, k_1] * B[k_1, j], over=k_1, init=0)
        for i_2 in parallel(n):
            most[i_2] = twice[i_2, 3]
"""


def program(name: str, sizes: Sequence[int], types: Sequence[str], counts: Sequence[int]) -> str:
    """A C program that reads the arrays from `data`, calls `name`, and writes them back; it exits with the status."""
    lines = [f'#include "{name}.h"', "#include <stdio.h>", "int main(void) {", '  FILE *f = fopen("data", "rb");']
    lines += [f"  static {t} x{n}[{max(1, c)}];" for n, (t, c) in enumerate(zip(types, counts, strict=True))]
    lines += [f"  if (fread(x{n}, sizeof *x{n}, {c}, f) != {c}) return 99;" for n, c in enumerate(counts)]
    call = ", ".join([*map(str, sizes), *(f"x{n}" for n in range(len(counts)))])
    lines += ["  fclose(f);", f"  int status = {name}({call});", '  f = fopen("data", "wb");']
    lines += [f"  fwrite(x{n}, sizeof *x{n}, {c}, f);" for n, c in enumerate(counts)]
    return "\n".join([*lines, "  fclose(f);", "  return status;", "}", ""])


def run_in_c(
    s: lp.Schedule, folder: Path, sizes: Sequence[int], arrays: Sequence[Any], *flags: str, checks: bool = True
) -> int:
    """Export `s`, call it from a compiled C program, and update `arrays`; the status that came back."""
    s.build("llvm").export(folder, "exported", checks=checks)
    types = [c_type(a.buffer.dtype) for a in s.func.args]
    (folder / "main.c").write_text(program("exported", sizes, types, [x.size for x in arrays]))
    (folder / "data").write_bytes(b"".join(x.tobytes() for x in arrays))
    strict = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", *flags)
    subprocess.run(["gcc", *strict, "main.c", "exported.c", "exported.o", "-lm", "-o", "main"], cwd=folder, check=True)
    status = subprocess.run(["./main"], cwd=folder, check=False).returncode
    data, at = (folder / "data").read_bytes(), 0
    for x in arrays:
        x[...] = np.frombuffer(data[at : at + x.nbytes], x.dtype).reshape(x.shape)
        at += x.nbytes
    return status


def by_interpreter(s: lp.Schedule, sizes: Sequence[int], arrays: Sequence[Any]) -> list[Any]:
    given = {a.buffer.name: x for a, x in zip(s.func.args, arrays, strict=True) if a.access != "out"}
    results = lp.interpret(s.func, given, dict(zip(s.func.sizes, sizes, strict=True)))
    return [results.get(a.buffer.name, x) for a, x in zip(s.func.args, arrays, strict=True)]


def integers(*shape: int, dtype: str = "int32") -> Any:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(dtype)


@needs_compiler
@pytest.mark.parametrize(("n", "flags"), [(6, ()), (6, ("-fopenmp",)), (0, ()), (0, ("-fopenmp",))])
def test_symbolic_sizes_and_several_outputs(tmp_path: Path, n: int, flags: tuple[str, ...]) -> None:
    s = lp.Schedule(lp.parse(GEMM))
    arrays = [integers(n, 4), integers(4, 2 * n), integers(n, 2 * n), integers(n)]
    wanted = by_interpreter(s, [n], arrays)
    assert run_in_c(s, tmp_path, [n], arrays, *flags) == 0
    for x, y in zip(arrays, wanted, strict=True):
        assert np.array_equal(x, y)


@needs_compiler
@pytest.mark.parametrize("checks", [True, False])
def test_constant_sizes_an_array_in_place_and_names_that_c_reserves(tmp_path: Path, checks: bool) -> None:
    s = lp.Schedule(lp.parse("""
def sweep(free: "inout float32[5, 8]", NULL: "float64[8]", status: "bool[5]", errno: "out int8[5]"):
    for double in range(4):
        for register in vectorize(8):
            free[double + 1, register] = free[double, register] + float32(NULL[register])
    for int64_t in range(5):
        errno[int64_t] = select(status[int64_t], 3, 4)
"""))  # fmt: skip
    arrays = [integers(5, 8, dtype="float32"), integers(8, dtype="float64"), np.arange(5) % 2 == 0, np.zeros(5, "int8")]
    wanted = by_interpreter(s, [], arrays)
    assert run_in_c(s, tmp_path, [], arrays, checks=checks) == 0
    for x, y in zip(arrays, wanted, strict=True):
        assert np.array_equal(x, y)


@needs_compiler
def test_a_serial_loop_and_a_condition_of_the_host(tmp_path: Path) -> None:
    s = lp.Schedule(lp.parse("""
def steps(n: "size", A: "inout int64[n, 8]"):
    for t in range(n - 1):
        if t % 3 != 1 or n == 4:
            for i in parallel(t + 1):
                for j in vectorize(8):
                    A[i, j] = A[i, j] * 3 + t
"""))  # fmt: skip
    arrays = [integers(7, 8, dtype="int64")]
    wanted = by_interpreter(s, [7], arrays)
    assert run_in_c(s, tmp_path, [7], arrays, "-fopenmp") == 0
    assert "for (int64_t t = 0" in (tmp_path / "exported.c").read_text()
    assert np.array_equal(arrays[0], wanted[0])


GATHER = """
def gather(n: "size", at: "int64[n]", A: "int32[4]", C: "out int32[n]"):
    for i in range(n):
        C[i] = A[index(at[i])]
"""


@needs_compiler
@pytest.mark.parametrize("checks", [True, False])
def test_a_subscript_from_memory_is_tested_with_and_without_checks(tmp_path: Path, checks: bool) -> None:
    s = lp.Schedule(lp.parse(GATHER))
    arrays = [np.array([3, 0, 2]), integers(4), integers(3)]
    wanted = by_interpreter(s, [3], arrays)
    assert run_in_c(s, tmp_path, [3], arrays, checks=checks) == 0
    assert np.array_equal(arrays[2], wanted[2])
    arrays[0][1] = 4
    assert run_in_c(s, tmp_path, [3], arrays, checks=checks) == CODES["OUT_OF_BOUNDS"]


@needs_compiler
def test_calls_that_break_the_contract_give_a_code_and_write_nothing(tmp_path: Path) -> None:
    made = lp.Schedule(lp.parse(GEMM)).build("llvm").export(tmp_path)
    assert str(made.library) in str(made)
    assert not made.left_out
    gemm = ctypes.CDLL(str(made.library)).gemm
    a, b, c, most = arrays = [integers(6, 4), integers(4, 12), integers(6, 12), integers(6)]
    before = [x.copy() for x in arrays]
    places = [x.ctypes.data for x in (a, b, c, most)]

    def status(n: int, **moved: int) -> int:
        given = [moved.get(name, place) for name, place in zip("abcm", places, strict=True)]
        return gemm(ctypes.c_int64(n), *map(ctypes.c_void_p, given))

    assert status(-2) == status(5) == status(1002) == CODES["BAD_SIZE"]
    assert status(1 << 61) == status((1 << 63) - 2) == CODES["TOO_LARGE"]
    assert status(6, a=0) == status(6, m=places[3] + 2) == CODES["BAD_POINTER"]
    assert status(6, c=places[0]) == status(6, m=places[2] + 4) == CODES["OVERLAP"]
    assert all(np.array_equal(x, y) for x, y in zip(arrays, before, strict=True))
    assert status(6, a=places[0]) == status(0, a=0, b=0, c=0, m=0) == CODES["OK"]


@needs_compiler
def test_an_index_that_would_overflow_is_refused(tmp_path: Path) -> None:
    s = lp.Schedule(lp.parse("""
def far(n: "size", A: "int32[1]", C: "out int32[1]"):
    for i in range(1):
        if n * n * n % 7 != 3:
            C[i] = A[i]
"""))  # fmt: skip
    assert run_in_c(s, tmp_path, [1 << 20], [integers(1), integers(1)]) == 0
    assert run_in_c(s, tmp_path, [1 << 22], [integers(1), integers(1)]) == CODES["TOO_LARGE"]


@needs_compiler
def test_only_the_function_is_seen_outside_the_library(tmp_path: Path) -> None:
    made = lp.Schedule(lp.parse(GEMM)).build("llvm").export(tmp_path)
    library = ctypes.CDLL(str(made.library))
    assert hasattr(library, "gemm")
    assert not hasattr(library, "lp_gemm_kernel_0")


def small(target: str = "llvm") -> Any:
    return lp.Schedule(lp.parse(GATHER)).build(target)


@pytest.mark.parametrize("name", ["int", "2d", "gr\u00f6\u00dfe", "lp_add", "a-b", "class", "main"])
def test_a_name_that_c_does_not_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a C function"):
        small().export(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["exp", "expf", "malloc"])
def test_a_name_of_the_c_library_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="a function of the C library"):
        small().export(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_other_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        lp.TargetError, match=r'built for interpret, and export writes kernels for the CPU; build\("llvm"\) makes'
    ):
        small("interpret").export(tmp_path)


def test_tiles_are_refused() -> None:
    with pytest.raises(lp.TargetError, match="tiles of AMX cannot be exported"):
        object_code(f"declare void @{TILES}(ptr)")


def test_without_a_compiler_the_library_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "COMPILERS", ("no-such-compiler",))
    folder = tmp_path / "new" / "folder"
    folder.mkdir(parents=True)
    (folder / "libgather.so").write_text("of an earlier export")
    made = small().export(folder)
    assert made.library is None
    assert made.left_out == "Left out: libgather.so. There is no C compiler (no-such-compiler) on the path."
    assert sorted(p.name for p in made.header.parent.iterdir()) == [f"gather.{x}" for x in ("c", "cmake", "h", "o")]


def test_what_the_compiler_refuses_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "c_compiler", lambda: "false")
    with pytest.raises(lp.CompileError, match="refuses the exported program"):
        small().export(tmp_path)
    assert list(tmp_path.iterdir()) == []
