"""Memory as a choice: scopes that would split one memory in two are refused, whichever step comes last."""

import pytest

import loopir.intrinsics  # noqa: F401
from loopir.errors import LowerError, ScheduleError
from loopir.ir.parse import parse
from loopir.lower.pipeline import lower
from loopir.schedule import Schedule

TWO_NESTS = """
def f(A: "float32[8, 64]", B: "out float32[8, 64]"):
    for i in range(8):
        with alloc("float32[64]", scope="shared") as T:
            for j in range(64):
                T[j] = A[i, j] + 1.0
            for k in range(64):
                B[i, k] = T[63 - k]
"""


def test_a_block_axis_does_not_go_inside_shared_memory() -> None:
    with pytest.raises(ScheduleError, match="no block sees another's shared memory"):
        Schedule(parse(TWO_NESTS)).bind("k", "blockIdx.x")


def test_a_thread_axis_does_not_go_around_shared_memory() -> None:
    with pytest.raises(ScheduleError, match="each thread would have its own"):
        Schedule(parse(TWO_NESTS)).bind("i", "threadIdx.x")


def test_shared_memory_around_blocks_is_not_lowered() -> None:
    nest = parse(
        """
def f(A: "float32[8]", B: "out float32[8]"):
    with alloc("float32[8]", scope="shared") as T:
        for i in bind("blockIdx.x", 8):
            T[i] = A[i]
        for j in bind("blockIdx.x", 8):
            B[j] = T[7 - j]
"""
    )
    with pytest.raises(LowerError, match="T is shared memory, allocated outside a loop bound to blocks"):
        lower(nest, "cuda")
