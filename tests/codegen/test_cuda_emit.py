"""What the CUDA emitter spells is turned into machine code by NVRTC, with no GPU in the machine."""

from __future__ import annotations

import pytest
from sass import ROUND_ALONE, ROUND_TWO, opcodes

import loopir as lp
import schedules
from loopir.codegen.cuda.emit import emit
from loopir.lower.pipeline import lower
from loopir.runtime.cuda import nvrtc


def compiled(source: str, *, arch: str = "sm_90a") -> nvrtc.Compiled:
    return lp.compile_source(lp.Schedule(lp.parse(source)), arch)


def test_shared_memory_barriers_guards_and_local_memory() -> None:
    c = compiled(
        """
def f(A: "float32[9, 64]", D: "out float32[9, 64]"):
    for b in bind("blockIdx.x", 9):
        with alloc("float32[64]", scope="shared") as S:
            for t in bind("threadIdx.x", 64):
                S[t] = A[b, t]
            for t in bind("threadIdx.x", 32):
                with alloc("float32[2]", scope="local") as L:
                    for u in unroll(2):
                        L[u] = S[63 - t - u * 32]
                    D[b, t] = L[0]
                    D[b, t + 32] = L[1]
"""
    )
    assert c.source.count("__syncthreads();") == 1
    assert "__shared__" in c.source
    assert c.resources["f_kernel"].shared == 256
    assert c.resources["f_kernel"].registers > 0


def test_more_shared_memory_than_is_static_is_dynamic() -> None:
    source = """
def f(A: "float32[16000]", D: "out float32[16000]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[16000]", scope="shared") as S:
            for i in range(16):
                for t in bind("threadIdx.x", 1000):
                    S[i * 1000 + t] = A[i * 1000 + t]
            for j in range(16):
                for t in bind("threadIdx.x", 1000):
                    D[j * 1000 + t] = S[15999 - j * 1000 - t]
"""
    assert "extern __shared__" in compiled(source).source
    assert emit(lower(lp.parse(source), "cuda")).kernels[0].shared_bytes == 64000


def test_too_much_shared_memory_is_refused_with_the_sum() -> None:
    with pytest.raises(lp.TargetError, match=r"400000 bytes of shared memory .*there are 232448"):
        compiled(
            """
def f(D: "out float32[100000]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[100000]", scope="shared") as S:
            for t in bind("threadIdx.x", 1000):
                for i in range(100):
                    S[t * 100 + i] = 0.0
            for t in bind("threadIdx.x", 1000):
                for i in range(100):
                    D[t * 100 + i] = S[99999 - t * 100 - i]
"""
        )


def test_gathers_data_dependent_loops_selects_and_tuples() -> None:
    c = compiled(
        """
def f(n: "size", p: "int32[n + 1]", x: "float32[n]", m: "out float32[n]", a: "out int64[n]"):
    for i in bind("blockIdx.x", n):
        for k in range(p[i + 1] - p[i]):
            m[i], a[i] = argmax(select(x[p[i] + k] < 0.0, -x[p[i] + k], x[p[i] + k]), int64(k), over=k, init=(-inf, 0))
"""
    )
    assert "lp_c1" in c.source


def test_vectors_are_moved_at_once_where_that_is_aligned() -> None:
    x = lp.placeholder((64, 256), "float16", name="x")
    s = lp.Schedule((x * 2.0).named("y")).split("j", 8).vectorize("j_i").bind("i", "blockIdx.x")
    module = emit(lower(s.func, "cuda"))
    assert module.source.count("*reinterpret_cast<lp_u4*>") == 2
    assert module.kernels[0].wide == {"x", "y"}
    odd = lp.placeholder((64, 255), "float16", name="x")
    s = lp.Schedule((odd * 2.0).named("y")).split("j", 8).vectorize("j_i").bind("i", "blockIdx.x")
    assert "reinterpret_cast<lp_u4*>" not in emit(lower(s.func, "cuda")).source.split('extern "C"')[1]


def test_names_that_c_uses_are_changed() -> None:
    x = lp.placeholder((4,), "float32", name="float")
    c = lp.compile_source(lp.Schedule(lp.compute((4,), lambda auto: x[auto] + 1.0, name="int")))
    assert "float_[auto_]" in c.source


def test_lines_tell_their_loop() -> None:
    x = lp.placeholder((8, 9), "float32", name="x")
    module = emit(lower(lp.Schedule((x + 1.0).named("y")).func, "cuda"))
    lines = module.source.split("\n")
    store = next(n for n, line in enumerate(lines) if "y[" in line)
    assert module.loops[store] == "j"


def test_an_error_of_the_compiler_carries_source_and_log() -> None:
    with pytest.raises(lp.CompileError, match="undefined") as caught:
        nvrtc.compile('extern "C" __global__ void k() { nothing(); }')
    assert "nothing" in caught.value.source
    assert caught.value.log


def test_a_dependence_between_blocks_is_refused_by_name() -> None:
    with pytest.raises(lp.LowerError, match=r"(?s)cannot be one launch.*b at .*different blocks"):
        compiled(
            """
def f(a: "float32[8]", b: "out float32[8]", c: "out float32[8]"):
    for z in bind("blockIdx.y", 1):
        for i in bind("blockIdx.x", 8):
            b[i] = a[i]
        for j in bind("blockIdx.x", 8):
            c[j] = b[7 - j]
"""
        )


def test_too_many_threads_are_refused() -> None:
    with pytest.raises(lp.TargetError, match="4096 threads a block"):
        compiled(
            """
def f(a: "inout float32[64, 64]"):
    for i in bind("threadIdx.x", 64):
        for j in bind("threadIdx.y", 64):
            a[i, j] = 1.0
"""
        )


def test_what_threads_hand_to_one_another_is_not_restricted() -> None:
    """With `__restrict__` the read of T[0] was done before the barrier by threads that do not write it."""
    c = compiled(
        """
def f(A: "float32[4]", B: "out float32[4]"):
    with alloc("float32[1]") as T:
        for b in bind("blockIdx.x", 1):
            T[0] = A[0]
            for i in bind("threadIdx.x", 4):
                B[i] = T[0]
"""
    )
    assert "float* T," in c.source
    assert "float* __restrict__ B" in c.source
    assert "const float* __restrict__ A" in c.source


def test_how_often_a_loop_runs_is_asked_once() -> None:
    """The loop's own stores changed how often it ran."""
    c = compiled(
        """
def f(X: "inout int32[4]"):
    for i in range(X[0] % 3):
        X[i] += X[0]
"""
    )
    assert "const long long lp_end_i = " in c.source
    assert "i < lp_end_i;" in c.source


def test_what_is_rounded_on_the_way_leaves_special_functions_their_unit() -> None:
    x = lp.placeholder((4096,), "bfloat16", name="x")
    s = schedules.gpu(lp.Schedule(lp.exp(x + x) * x))
    used = opcodes(lp.compile_source(s).cubin)
    assert used[ROUND_TWO]
    assert ROUND_ALONE not in used
