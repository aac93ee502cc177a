"""LLVM in this process: what is compiled does what its IR says, and what would end the process is refused before."""

import ctypes
import platform
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.errors import CompileError, TargetError
from loopir.runtime import llvm_jit
from loopir.runtime.llvm_jit import Library, lone_lanes, object_code

ADD = "define i64 @add(i64 %x, i64 %y) {\n  %sum = add i64 %x, %y\n  ret i64 %sum\n}\n"


@pytest.mark.parametrize("left", [True, False])
def test_a_function_is_bound_and_called(left: bool) -> None:
    library = Library(ADD, left=left)
    add = library.bind("add", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    assert (add(40, 2), add(-1, 1)) == (42, 0)
    assert "add:" in library.assembly
    with pytest.raises(CompileError, match="the machine code has no function 'sub'; empty the compile cache"):
        library.address("sub")


def test_what_llvm_refuses_is_told_with_its_source() -> None:
    with pytest.raises(CompileError, match="LLVM refuses the emitted code") as told:
        Library(ADD.replace("ret i64", "ret i32"))
    assert "define i64 @add" in (told.value.source or "")


@pytest.mark.parametrize(("constants", "sums", "apart"), [(40, False, True), (40, True, False), (8, False, False)])
def test_vectors_with_more_constants_than_registers_are_ordered_by_latencies(
    constants: int, sums: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whatever is compiled next is ordered as ever."""
    told = list[str]()
    monkeypatch.setattr(llvm_jit.llvm, "set_option", lambda _, option: told.append(option))
    monkeypatch.setattr(llvm_jit, "vector_unit", lambda: (32, 16))
    lines = [f"  %x{n} = fadd <4 x double> %x, splat (double {n}.5)" for n in range(constants)]
    lines += ["  %sum = phi <4 x double> [ %x, %a ], [ %y, %b ]"] if sums else []
    with llvm_jit._instruction_order("\n".join(lines)):  # pyright: ignore[reportPrivateUsage]
        assert told == ([f"{llvm_jit.PRESSURE}false"] if apart else [])
    assert told[1:] == ([f"{llvm_jit.PRESSURE}true"] if apart else [])


def calling(intrinsic: str) -> str:
    return f"declare void @{intrinsic}()\ndefine void @f() {{\n  call void @{intrinsic}()\n  ret void\n}}\n"


@pytest.mark.parametrize(
    ("intrinsic", "has", "lacks"),
    [
        ("llvm.x86.avx512.vpdpbusd.512", {"avx512bw"}, "avx512vnni"),
        ("llvm.x86.avx512.vpdpbusd.256", {"avx512vnni"}, "avx512vl"),
        ("llvm.x86.avx2.vpdpbssd.256", {"avx2", "avxvnni"}, "avxvnniint8"),
        ("llvm.x86.avx512bf16.dpbf16ps.512", {"avx512bw"}, "avx512bf16"),
        ("llvm.x86.avx512.pmaddw.d.512", {"avx2"}, "avx512bw"),
        ("llvm.x86.avx2.pmadd.wd", {"sse2"}, "avx2"),
        ("llvm.x86.tdpbf16ps", {"amx-tile"}, "amx-bf16"),
        ("llvm.x86.tdpbssd", {"amx-tile"}, "amx-int8"),
        ("llvm.x86.ldtilecfg", set(), "amx-tile"),
    ],
)
def test_an_instruction_that_this_cpu_has_not_is_refused(
    intrinsic: str, has: set[str], lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM would end the process."""
    monkeypatch.setattr(llvm_jit, "cpu_features", lambda: frozenset(has))
    monkeypatch.setattr(llvm_jit, "_require_tiles", lambda: None)
    with pytest.raises(TargetError, match=f"an instruction of {re.escape(lacks)} is asked for, which this CPU"):
        llvm_jit._require_features(calling(intrinsic))
    monkeypatch.setattr(llvm_jit, "cpu_features", lambda: frozenset({*has, lacks}))
    llvm_jit._require_features(calling(intrinsic))


def test_one_of_several_features_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_jit, "cpu_features", lambda: frozenset({"avxvnni"}))
    llvm_jit._require_features(calling("llvm.x86.avx512.vpdpbusd.256"))


def test_tiles_are_exported_to_no_other_process() -> None:
    with pytest.raises(TargetError, match="tiles of AMX cannot be exported"):
        object_code(calling("llvm.x86.ldtilecfg"))
    assert object_code(ADD)


def test_what_the_machine_is_is_told() -> None:
    size, count = llvm_jit.vector_unit()
    first, second, third = llvm_jit.caches()
    assert size in (16, 32, 64)
    assert count in (16, 32)
    assert 0 < first <= second <= third
    assert not llvm_jit.has_vector_function(2 * size, "_ZGVdN4v_sin")
    assert not llvm_jit.has_vector_function(16, "no_such_function")


def test_the_lesser_of_two_numbers_is_no_branch() -> None:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("conditional moves are of x86")
    s = lp.Schedule(
        lp.parse("""
def running(n: "size", x: "int32[n]", least: "inout int32[n + 1]"):
    for i in range(n):
        least[i + 1] = minimum(least[i] + 1, x[i])
""")
    )
    assembly = Library(s.build("llvm").source).assembly
    assert "cmov" in assembly or "pminsd" in assembly


STORE = "call void @llvm.masked.store.v4i16.p0(<4 x i16> %lane.1, ptr align 2 %lane, <4 x i1> {mask})"
KERNEL = (
    "define void @f(ptr %lane, ptr %of) {{\n  %lane.1 = load <4 x i16>, ptr %of, align 2\n  {store}\n  ret void\n}}\n"
)


def mask_of(lanes: tuple[bool, ...]) -> str:
    return f"<{', '.join(f'i1 {str(x).lower()}' for x in lanes)}>"


def test_whether_rows_of_one_matrix_meet_is_asked_of_each_row() -> None:
    s = lp.Schedule(
        lp.parse("""
def update(n: "size", A: "inout float64[n + 1, n + 1]"):
    for i in range(n):
        for j in range(n):
            A[i + 1, j + 1] = A[i + 1, j + 1] - A[i + 1, 0] * A[0, j + 1]
""")
    )
    source = Library(s.build("llvm").source).source
    assert 0 < source.index("%i = phi") < source.index("vector.memcheck:")


def test_a_lone_lane_has_a_name_that_no_loop_has() -> None:
    """Loops called `lane` are `lane`, `lane.1` and so on in LLVM IR."""
    told = lone_lanes(KERNEL.format(store=STORE.format(mask=mask_of((False, False, True, False)))))
    assert "masked" not in told
    llvm.parse_assembly(told).verify()


@settings(max_examples=6)
@given(st.tuples(*[st.booleans()] * 4))
def test_lanes_are_stored_by_their_mask(lanes: tuple[bool, ...]) -> None:
    text = KERNEL.format(store=STORE.format(mask=mask_of(lanes)))
    told = lone_lanes(text)
    assert (told != text) == (sum(lanes) == 1)
    to, source = np.zeros(4, np.int16), np.arange(1, 5, dtype=np.int16)
    declared = "declare void @llvm.masked.store.v4i16.p0(<4 x i16>, ptr, <4 x i1>)\n"
    library = Library(declared + told, left=False)
    library.bind("f", None, ctypes.c_void_p, ctypes.c_void_p)(to.ctypes.data, source.ctypes.data)
    np.testing.assert_array_equal(to, np.where(lanes, source, 0))
