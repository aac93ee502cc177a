"""Fences of the asynchronous proxy stand before barriers of kernels that need them, and nowhere else."""

from hypothesis import given, settings

import loopir as lp
from loopir.ir.grammar import Barrier, Fence, Func
from loopir.ir.traverse.walk import statements
from loopir.lower.gpu.asynchronous.insert_proxy_fences import insert_proxy_fences
from loopir.lower.pipeline import lower
from loopir.lower.target import TARGETS
from loopir.testing.generate.gpu_programs import kernels

PLAIN = """
def f(A: "float32[64]", B: "out float32[64]"):
    with alloc("float32[64]", scope="shared") as S:
        for t in bind("threadIdx.x", 64):
            S[t] = A[t]
        for u in bind("threadIdx.x", 64):
            B[u] = S[63 - u]
"""


def fences(func: Func) -> list[Fence]:
    return [s for s in statements(func.body) if isinstance(s, Fence) and s.kind == "async"]


def test_memory_that_no_instruction_reads_by_itself_needs_none() -> None:
    func = lower(lp.parse(PLAIN), "cuda")
    assert any(isinstance(s, Barrier) for s in statements(func.body))
    assert not fences(func)


@settings(max_examples=15, deadline=None)
@given(kernels())
def test_the_pass_leaves_programs_without_such_instructions_alone(kernel) -> None:
    func = kernel.after.func
    assert insert_proxy_fences(func, TARGETS["cuda"]) == func
