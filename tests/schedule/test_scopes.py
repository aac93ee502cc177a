"""Shared memory is of one block and local memory of one thread, whichever step comes last."""

import pytest

import loopir.intrinsics  # noqa: F401
from loopir.errors import LowerError, ScheduleError
from loopir.ir.parser.parse import parse
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


@pytest.mark.parametrize("scope", ["global", "shared", "local"])
def test_what_lanes_hold_stays_in_a_fragment(scope: str) -> None:
    s = Schedule(parse(TWO_NESTS)).set_scope("T", "fragment").set_layout("T", "fragment(32, 2, lambda t, v: t * 2 + v)")
    with pytest.raises(ScheduleError, match=f"which lane holds which element, and {scope} memory has no lanes"):
        s.set_scope("T", scope)
    assert s.why("set_scope", "T", "fragment") is None
    assert s.set_layout("T", "lambda i: i").set_scope("T", scope).buffers  # a layout that tells of no lanes


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
