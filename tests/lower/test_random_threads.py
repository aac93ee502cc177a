"""Random schedules with memory and threads: in order and as threads they compute what the program does, or are refused.

Copies, layouts, halves, pads and bindings in any order that the primitives accept; what lowering accepts has no race.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from meaning import require_decided

import loopir as lp
from loopir.errors import LowerError, ScheduleError, TargetError
from loopir.lower.gpu import insert_barriers
from loopir.lower.pipeline import lower

PROGRAMS = [
    """
def product(A: "float32[6, 10]", B: "float32[10, 5]", C: "out float32[6, 5]"):
    for i in range(6):
        for j in range(5):
            for k in range(10):
                C[i, j] = sum(A[i, k] * B[k, j], over=k, init=0.0)
""",
    """
def windows(A: "float32[20]", C: "out float32[16]"):
    for i in range(16):
        for k in range(5):
            C[i] = sum(A[i + k], over=k, init=0.0)
""",
    """
def turned(A: "float32[6, 8]", C: "out float32[6, 8]"):
    with alloc("float32[6, 8]") as T:
        for i in range(6):
            for j in range(8):
                T[i, j] = A[i, 7 - j] * 2.0
        for x in range(6):
            for y in range(8):
                C[x, y] = T[5 - x, y] + T[x, 7 - y]
""",
    """
def rounds(A: "inout float32[18]"):
    with alloc("float32[18]") as T:
        for t in range(3):
            for i in range(16):
                T[i + 1] = A[i] + A[i + 1] + A[i + 2]
            for j in range(16):
                A[j + 1] = T[j + 1]
""",
]
AXES = ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.x", "threadIdx.y"]
LAYOUTS = ["lambda i, j: (j, i)", "lambda i: i * 2 + 1", "lambda i, j: (j // 2, i, j % 2)"]
STEPS = [
    *["split", "bind", "cache_read", "cache_write", "bind", "split"],
    *["reorder", "fuse", "set_layout", "set_scope", "vectorize", "double_buffer", "pad", "reuse", "privatize"],
]


def step(data: st.DataObject, s: lp.Schedule) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    def one(of: Any) -> Any:
        return data.draw(st.sampled_from(list(of)))

    name, loops = one(STEPS), s.loops()
    place = {"at": one([None, *loops, *loops])} if name.startswith("cache") else {}
    arguments: dict[str, Any] = {
        "split": lambda: (one(loops), one([2, 3, 4])),
        "bind": lambda: (one(loops), one(AXES)),
        "cache_read": lambda: (one(s.stages), one(s.buffers), one(["shared", "shared", "local", "global"])),
        "cache_write": lambda: (one(s.stages), one(["shared", "local", "local"])),
        "reorder": lambda: (one(loops), one(loops)),
        "fuse": lambda: (one(loops), one(loops)),
        "set_layout": lambda: (one(s.buffers), one(LAYOUTS)),
        "set_scope": lambda: (one(s.buffers), one(["shared", "local"])),
        "vectorize": lambda: (one(loops),),
        "double_buffer": lambda: (one(s.buffers), one(loops)),
        "pad": lambda: (one(s.stages),),
        "reuse": lambda: (one(s.buffers), one(s.buffers)),
        "privatize": lambda: (one(s.buffers), one(loops)),
    }
    return name, arguments[name](), place


@settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_accepted_computes_the_same_without_a_race(data: st.DataObject) -> None:
    base = s = lp.Schedule(lp.parse(data.draw(st.sampled_from(PROGRAMS))))
    for _ in range(data.draw(st.integers(3, 10))):
        name, arguments, place = step(data, s)
        with suppress(ScheduleError):
            s = getattr(s, name)(*arguments, **place)
    rng = np.random.default_rng(0)
    given_ = (a.buffer for a in base.func.args if a.access != "out")
    arrays = [rng.integers(0, 9, [getattr(d, "value", 0) for d in b.shape]).astype(np.float32) for b in given_]
    want = lp.interpret(base.func, arrays)
    check(lp.interpret(s.func, arrays), want)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            insert_barriers, "_in_shared_memory", lambda pairs, _: pairs
        )  # a thread's own memory asks for no barrier
        asked = lowered_text(lp.parse(lp.text(s.func)))
    assert lowered_text(s.func) == asked
    with suppress(LowerError, TargetError):
        lowered = lower(s.func, "cuda")
        for seed in range(2):
            check(lp.interpret(lowered, arrays, seed=seed), want)


def lowered_text(func: lp.Func) -> str:
    try:
        return lp.text(lower(func, "cuda"))
    except (LowerError, TargetError) as error:
        require_decided(error)
        return str(error)


def check(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    for name, x in want.items():
        assert np.array_equal(got[name], x), name
