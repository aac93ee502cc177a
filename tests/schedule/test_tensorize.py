"""A nest done by one instruction: what matches, what does not and why, and that the meaning stays everywhere."""

# ruff: noqa: F722  (instructions are nests, never run as Python)

from contextlib import suppress

import numpy as np
import pytest
from meaning import assert_same
from own_instruction import tiled

import loopir as lp
from loopir.errors import ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.parser.parse import parse
from schedules.llvm.auto_cpu import cpu


def test_a_users_instruction_is_matched_and_means_its_nest() -> None:
    s = tiled().tensorize("i_i", "outer4")
    assert "with outer4():\n                    for i_i, j_i in grid(4, 4):" in str(s)
    assert parse(str(s)) == s.func
    a, b = np.random.default_rng(0).random((2, 96)).astype(np.float32)
    a, b = a[:40].reshape(8, 5), b[:60].reshape(5, 12)
    for target in ("interpret", "llvm"):
        assert np.allclose(s.build(target)(a, b), a @ b, atol=1e-5)


def test_an_instruction_is_taken_apart_by_no_later_step() -> None:
    s = tiled().tensorize("i_i", "outer4")
    before = str(s)
    for step in (("split", "i_i", 2), ("bind", "i_i", "threadIdx.x"), ("vectorize", "j_i"), ("fuse", "i_i", "j_i")):
        with pytest.raises(ScheduleError, match=r"outer4|lanes hold serial loops"):
            getattr(s, step[0])(*step[1:])
    assert str(s) == before


def test_steps_around_an_instruction_are_as_free_as_before() -> None:
    s = tiled().tensorize("i_i", "outer4")
    t = s.reorder("j_o", "i_o").bind("j_o", "blockIdx.x").bind("i_o", "threadIdx.x").split("k", 2, tail="peel")
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 9, (8, 5)), rng.integers(0, 9, (5, 12))
    assert np.array_equal(interpret(t.func, [a, b], domain="ring")["C"], a @ b)
    assert str(s.why("parallel", "k")) == str(tiled().why("parallel", "k"))


def test_the_cpu_and_the_interpreter_agree() -> None:
    s = cpu(tiled().tensorize("i_i", "outer4"))
    a, b = np.ones((8, 3), np.float32), np.ones((3, 12), np.float32)
    assert (s.build("llvm")(a, b) == 3).all()


scratch = lp.Memory("scratch", capacity=64)


@lp.instruction()
def scale4(X: "inout float32[4] scratch"):
    """One's own memory and an instruction on it, in six lines."""
    for i in range(4):
        X[i] = X[i] * 2.0


def test_an_instruction_on_a_memory_of_ones_own() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[n, 4]", n: "size", B: "out float32[n, 4]"):
    for i in range(n):
        with alloc("float32[4]") as T:
            for x in range(4):
                T[x] = A[i, x]
            for y in range(4):
                T[y] = T[y] * 2.0
            for z in range(4):
                B[i, z] = T[z]
""")
    )
    error = s.why("tensorize", "y", "scale4")
    assert "its operand X is in scratch memory, and T is in global memory" in str(error)
    assert "set_scope('T', 'scratch')" in str(error)
    t = s.set_scope("T", "scratch").tensorize("y", "scale4")
    assert lp.parse(str(t)) == t.func
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for target in ("interpret", "llvm"):
        assert np.array_equal(t.build(target)(a), a * 2)
    assert "float T[4]" in lp.compile_source(t, "sm_80").source


def test_a_memory_holds_no_more_than_it_has_room_for() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[32]", B: "out float32[32]"):
    with alloc("float32[32]") as T:
        for x in range(32):
            T[x] = A[x]
        for z in range(32):
            B[z] = T[z]
""")
    )
    with pytest.raises(lp.TargetError, match="T take 128 bytes of scratch at once, and it holds 64"):
        s.set_scope("T", "scratch").build("llvm")
    with pytest.raises(ValueError, match="declared twice"):
        lp.Memory("scratch", capacity=1)


COPIES = """
def f(A: "float32[8, 16]", S: "inout float32[4]"):
    for k in range(8):
        with alloc("float32[16]", scope="shared") as T:
            for x in range(4):
                with cp_async_f32():
                    for y in range(4):
                        T[x * 4 + y] = A[k, x * 4 + y]
            with alloc("float32[16]", scope="shared") as U:
                for x_1 in range(4):
                    with cp_async_f32():
                        for y_1 in range(4):
                            U[x_1 * 4 + y_1] = A[7 - k, x_1 * 4 + y_1]
                for i in range(4):
                    S[i] = sum(T[i] * U[0], over=k)
"""
STEPS = (
    *("double_buffer('T', 'k')", "double_buffer('U', 'k')", "double_buffer('T', 'x')", "reuse('U', 'T')"),
    *("pipeline('k', stages=2)", "hoist('T', 'k')", "hoist('U', 'y_1')", "set_scope('T', 'local')"),
    *("cache_read('S', 'T', 'local')", "merge('x', 'x_1')", "fuse_loops('x', 'x_1')", "peel('k')", "peel('y')"),
    *("fuse('x', 'y')", "split('x', 2)", "split('y', 2)", "unroll_and_jam('k', 2)", "distribute('k')", "simplify()"),
    *("compute_root('T')", "privatize('S', 'k')", "fold_storage('T', 0, 8)", "fold_storage('T', 0, 16)"),
)


def after(s: lp.Schedule, step: str) -> lp.Schedule | None:
    """`s` after the step, if it is taken."""
    with suppress(ScheduleError):
        return eval(f"s.{step}", {"s": s})
    return None


@pytest.mark.parametrize("first", STEPS)
def test_steps_around_instructions_are_taken_or_refused(first: str) -> None:
    """None ends in a VerifyError, and what is taken means the same."""
    start = lp.Schedule(lp.parse(COPIES))
    begun = after(start, first)
    for second in STEPS if begun is not None else ():
        if (done := after(begun, second)) is not None:
            assert_same(start.func, done.func, {})
