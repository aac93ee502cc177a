"""Memory as a choice: scopes that would split one memory in two are refused, whichever step comes last."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.errors import LowerError, ScheduleError
from loopir.ir.interpret import interpret
from loopir.ir.parse import parse
from loopir.lower.pipeline import lower
from loopir.schedule import Schedule
from loopir.schedule.trace import Step
from loopir.testing.strategies import arguments, funcs, sizes

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


def every_step(s: Schedule) -> Iterator[Step]:
    """Every copy that could be asked for: each stage, each buffer, each loop."""
    for stage in s.stages:
        for at in (None, *s.loops(stage)):
            yield Step("cache_write", (stage, "local"), (("at", at),))
            for b in s.buffers:
                yield Step("cache_read", (stage, b, "local"), (("at", at),))
    for b in s.buffers:
        yield Step("set_scope", (b, "local"))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_copies_keep_the_meaning_of_random_programs(data: st.DataObject) -> None:
    func = data.draw(funcs())
    values = data.draw(sizes(func))
    arrays = data.draw(arguments(func, values))
    want = interpret(func, arrays, values, domain="ring")
    s = Schedule(func)
    for _ in range(data.draw(st.integers(1, 3))):
        step = data.draw(st.sampled_from([*every_step(s)] or [Step("set_scope", ("none", "local"))]))
        with suppress(ScheduleError):
            s = s.apply(step)
    got = interpret(s.func, arrays, values, domain="ring")
    for name, x in want.items():
        assert np.array_equal(got[name], x), f"{values}\n{func}\nbecame\n{s}\nby {s.trace}"
    assert parse(str(s)) == s.func
