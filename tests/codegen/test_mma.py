"""Tensor cores in compiled code: NVRTC takes what is spelt, ptxas makes HMMA and LDSM of it, and nothing spills."""

# ruff: noqa: E501  (nests as they are printed)

import pytest
from sass import HMMA, LDGSTS, LDSM, opcodes

import loopir as lp
import schedules
from schedules.cuda.matmul_mma import matmul_mma

NEST = """
def mm(K: "size", A: "bfloat16[128, K]", B: "bfloat16[K, 64]", C: "out float32[128, 64]"):
    assume(K % 32 == 0)
    for jo in bind("blockIdx.x", 1):
        with alloc("bfloat16[128, 32]", scope="shared", layout=strided(40, 1)) as As, alloc("bfloat16[32, 64]", scope="shared", layout=strided(72, 1)) as Bs, alloc("float32[128, 64]", scope="fragment") as acc:
            for ko in range(K // 32):
                for t in range(4):
                    for y in bind("warp.y", 2):
                        for x in bind("warp.x", 2):
                            for l in bind("lane", 32):
                                for v in vectorize(8):
                                    As[t * 32 + y * 16 + x * 8 + l // 4, l % 4 * 8 + v] = A[t * 32 + y * 16 + x * 8 + l // 4, ko * 32 + l % 4 * 8 + v]
                for t in range(2):
                    for y in bind("warp.y", 2):
                        for x in bind("warp.x", 2):
                            for l in bind("lane", 32):
                                for v in vectorize(8):
                                    Bs[t * 16 + y * 8 + x * 4 + l // 8, l % 8 * 8 + v] = B[ko * 32 + t * 16 + y * 8 + x * 4 + l // 8, l % 8 * 8 + v]
                for wm in bind("warp.y", 2):
                    for wn in bind("warp.x", 2):
                        for ki in unroll(2):
                            with alloc("bfloat16[64, 16]", scope="fragment") as a, alloc("bfloat16[16, 32]", scope="fragment") as b:
                                for m in unroll(4):
                                    for i in range(16):
                                        for k in range(16):
                                            a[m * 16 + i, k] = As[wm * 64 + m * 16 + i, ki * 16 + k]
                                for n in unroll(2):
                                    for k in range(16):
                                        for j in range(16):
                                            b[k, n * 16 + j] = Bs[ki * 16 + k, wn * 32 + n * 16 + j]
                                for m in unroll(4):
                                    for n in unroll(4):
                                        for i in range(16):
                                            for j in range(8):
                                                for k in range(16):
                                                    acc[wm * 64 + m * 16 + i, wn * 32 + n * 8 + j] = sum(float32(a[m * 16 + i, k]) * float32(b[k, n * 8 + j]), over=(ko, ki, k), init=0.0)
            for wm in bind("warp.y", 2):
                for wn in bind("warp.x", 2):
                    for i in range(64):
                        for j in range(32):
                            C[wm * 64 + i, wn * 32 + j] = maximum(acc[wm * 64 + i, wn * 32 + j], 0.0)
"""


def product(t: str, short: str) -> lp.Schedule:
    s = lp.Schedule(lp.parse(NEST.replace("bfloat16", t)))
    s = s.tensorize(s.loops("acc")[-3], f"mma_m16n8k16_{short}")
    return s.tensorize(s.loops("a")[-2], f"ldmatrix_a_{short}").tensorize(s.loops("b")[-2], f"ldmatrix_b_{short}")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("t", "short"), [("bfloat16", "bf16"), ("float16", "f16")])
def test_a_tile_is_done_by_tensor_cores(arch: str, t: str, short: str) -> None:
    compiled = lp.compile_source(product(t, short), arch)
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    found = opcodes(compiled.cubin)
    assert found[HMMA] % 32 == 0  # 4 x 4 tiles, two steps of k
    assert found[LDSM] * 32 == found[HMMA] * 12
    assert "__syncthreads();" in compiled.source


def test_dp4a_is_spelt() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "int8[256, 32]", B: "int8[32]", C: "out int32[256]"):
    for i in bind("threadIdx.x", 256):
        for ko in range(8):
            for ki in range(4):
                C[i] = sum(int32(B[ko * 4 + ki]) * int32(A[i, ko * 4 + ki]), over=(ko, ki), init=0)
""")
    )
    assert "dp4a.s32.s32" in lp.compile_source(s.tensorize("ki", "dp4a"), "sm_80").source


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_batched_product_scheduled_by_primitives_fits_its_registers(arch: str, stages: int) -> None:
    b, m = lp.symbol("b"), lp.symbol("m", multiple_of=128)
    n, k = lp.symbol("n", multiple_of=128), lp.symbol("k", multiple_of=32)
    x, y = lp.placeholder((b, m, k), "bfloat16", name="A"), lp.placeholder((b, k, n), "bfloat16", name="B")
    compiled = lp.compile_source(matmul_mma(lp.Schedule(x @ y), "matmul", stages=stages), arch)
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    assert used.registers <= 128  # two blocks of 256 threads a multiprocessor
    found = opcodes(compiled.cubin)
    assert found[HMMA] % 32 == 0
    assert (LDGSTS in found) == (stages > 1)


@pytest.mark.parametrize("right", ["n", "t"])
def test_tf32_is_chosen_where_the_program_asks(right: str) -> None:
    a, b = (lp.placeholder((256, 256), "float32", name=x) for x in "AB")
    s = schedules.gpu(lp.Schedule(lp.relu(lp.tf32(a) @ lp.tf32(b.T if right == "t" else b))))
    compiled = lp.compile_source(s, "sm_80")
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    assert {HMMA, LDSM, LDGSTS} <= opcodes(compiled.cubin).keys()
    assert "mma_" not in str(schedules.gpu(lp.Schedule(a @ b)))
