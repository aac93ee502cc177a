"""A kernel is put in place while the one before it ends: it waits for that before it touches memory.

The compiler knows nothing of the wait but that it touches memory. Loads that it takes for ones of what nobody writes
it moved before the wait, in kernels for all sizes above all; so machine code is looked at.
"""

from __future__ import annotations

import memory_rows
import pytest
from sass import GLOBAL, WAIT_FOR_PREVIOUS, sequences

import loopir as lp
import schedules
from loopir.runtime.cuda import nvrtc
from loopir.runtime.cuda.machine_code import kernels_that_wait_first

ROWS = {row.name: row for row in memory_rows.rows()}


@pytest.mark.parametrize(
    "name",
    ["add f32 64M", "softmax bf16 8191x5003", "layernorm bf16 8191x5003", "rmsnorm f32 8191x5003",
     "column sum bf16 8192x8192", "full sum f32 8191x5003", "transpose f32 8191x5003", "jacobi f32 8192x8192"],
)  # fmt: skip
@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "all sizes"])
def test_memory_is_touched_after_the_kernel_before_has_ended(name: str, symbolic: bool) -> None:
    compiled = lp.compile_source(schedules.gpu(ROWS[name].ours(symbolic=symbolic)))
    assert "__ldg" not in compiled.source
    for code in sequences(compiled.cubin):
        assert not GLOBAL & set(code[: code.index(WAIT_FOR_PREVIOUS)])
        assert GLOBAL & set(code)
    assert kernels_that_wait_first(compiled.cubin) == frozenset(compiled.resources)


def test_what_does_not_wait_first_is_told_from_what_does() -> None:
    compiled = lp.compile_source(schedules.gpu(ROWS["add f32 64M"].ours()), arch="sm_80")
    assert not kernels_that_wait_first(compiled.cubin)
    source = """
extern "C" __global__ void early(const volatile float* x, float* y) {
  const float a = x[threadIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  y[threadIdx.x] = a;
}
extern "C" __global__ void late(float* y) { asm volatile("griddepcontrol.wait;" ::: "memory"); y[threadIdx.x] += 1.0f; }
"""
    assert kernels_that_wait_first(nvrtc.compile(source, "sm_90a").cubin) == {"late"}
