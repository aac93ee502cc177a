"""The host function in C: its index arithmetic is Python's, or it says that it cannot be; its header is C and C++."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.cuda_on_cpu import needs_compiler

import loopir as lp
from loopir.codegen.c_host import STATUS, c_host
from loopir.lower import pipeline
from loopir.runtime.export import c_compiler

SERIAL_AROUND_PARALLEL = """
def steps(n: "size", A: "inout float32[n, 8]"):
    assume(n // 3 >= 1 or n == 0)
    for t in range(3):
        for i in parallel(n):
            for j in vectorize(8):
                A[i, j] = A[i, j] + 1.0
"""


def hosted(text: str, *, checks: bool = True) -> tuple[str, str]:
    func = lp.Schedule(lp.parse(text)).func
    return c_host(func, pipeline.lower(func, "llvm"), "hosted", checks=checks)


def test_checks_are_left_out_by_the_flag() -> None:
    source, header = hosted(SERIAL_AROUND_PARALLEL)
    bare, warning = hosted(SERIAL_AROUND_PARALLEL, checks=False)
    assert "if (!lp_status && !(n >= INT64_C(0)" not in bare
    assert "lp_fail(HOSTED_BAD_POINTER" not in bare
    assert "lp_fail(HOSTED_BAD_POINTER" in source
    assert "Built without checks" in warning
    assert "Built without checks" not in header


def test_the_header_tells_the_contract() -> None:
    _, header = hosted(SERIAL_AROUND_PARALLEL)
    assert "int hosted(int64_t n, float *A);" in header
    assert "//   A: inout, float32[n, 8]" in header
    assert "// Assumed of the sizes: 1 <= n // 3 or n == 0" in header
    assert all(f"HOSTED_{code} = {n}," in header for n, code in enumerate(STATUS))


@needs_compiler
@pytest.mark.parametrize("language", [("c", "c99"), ("c++", "c++11")])
def test_the_header_is_c_and_cpp(tmp_path: Path, language: tuple[str, str]) -> None:
    (tmp_path / "a.h").write_text(hosted(SERIAL_AROUND_PARALLEL)[1])
    kind, standard = language
    command = [
        "g++",
        "-x",
        kind,
        f"-std={standard}",
        "-Wall",
        "-Werror",
        "-pedantic",
        "-fsyntax-only",
        "-include",
        "a.h",
    ]
    subprocess.run([*command, "-"], cwd=tmp_path, input="", text=True, check=True)


WORDS = st.one_of(st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1))
PYTHON = {
    "lp_add": lambda a, b: a + b,
    "lp_mul": lambda a, b: a * b,
    "lp_div": lambda a, b: a // b if b > 0 else None,
    "lp_mod": lambda a, b: a % b if b > 0 else None,
}


@pytest.fixture(scope="module")
def arithmetic(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The functions of the C host file that count, made visible."""
    folder = tmp_path_factory.mktemp("arithmetic")
    source, header = hosted(SERIAL_AROUND_PARALLEL)
    (folder / "hosted.h").write_text(header)
    text = source[: source.index("int32_t lp_hosted_kernel_0")].replace("static inline ", "")
    (folder / "arithmetic.c").write_text(text)
    compiler = c_compiler()
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", "arithmetic.c", "-o", "a.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "a.so"))


@needs_compiler
@given(name=st.sampled_from(sorted(PYTHON)), a=WORDS, b=WORDS)
def test_index_arithmetic_is_exact_or_fails(arithmetic: ctypes.CDLL, name: str, a: int, b: int) -> None:
    function, status = arithmetic[name], ctypes.c_int(0)
    function.restype = ctypes.c_int64
    result = function(ctypes.c_int64(a), ctypes.c_int64(b), ctypes.byref(status))
    wanted = PYTHON[name](a, b)
    if wanted is None:
        assert list(STATUS)[status.value] == "BAD_SIZE"
    elif -(1 << 63) <= wanted < 1 << 63:
        assert (result, status.value) == (wanted, 0)
    else:
        assert list(STATUS)[status.value] == "TOO_LARGE"


@needs_compiler
@given(extent=st.integers(1, 1 << 62), parts=st.integers(1, 64), part=st.integers(0, 63))
def test_the_parts_of_a_parallel_loop_cover_it(arithmetic: ctypes.CDLL, extent: int, parts: int, part: int) -> None:
    begin = arithmetic.lp_begin
    begin.restype = ctypes.c_int64
    words = [ctypes.c_int64(x) for x in (extent, parts)]
    assert begin(*words, ctypes.c_int64(0)) == 0
    assert begin(*words, ctypes.c_int64(parts)) == extent
    if part < parts:
        length = begin(*words, ctypes.c_int64(part + 1)) - begin(*words, ctypes.c_int64(part))
        assert length in (extent // parts, -(-extent // parts))
