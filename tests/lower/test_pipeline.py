"""Lowering keeps the meaning of any program, for every target, and the CPU gives what the interpreter gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
import schedules
from loopir.ir.grammar import Func, Kernel, Loop
from loopir.ir.traverse.walk import statements
from loopir.lower import pipeline
from loopir.lower.pipeline import PASSES, lower
from loopir.testing.generate.strategies import arguments, funcs, sizes

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Func, dict[str, int], dict[str, Any]]:
    func = draw(funcs())
    values = draw(sizes(func))
    return func, values, draw(arguments(func, values))


def check_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x, err_msg=name)


def lowered_unless_no_kernel_takes_it(func: Func, target: str) -> Func | None:
    """`func` lowered; None for what no GPU takes in a kernel, however it is scheduled."""
    try:
        return lower(func, target)
    except lp.LowerError as error:
        if target != "cuda" or "so its size has to be a constant" not in str(error):
            raise
        return None


@SETTINGS
@given(calls(), st.sampled_from(["cuda", "llvm"]))
def test_lowered_programs_mean_the_same(call: Any, target: str) -> None:
    func, values, arrays = call
    if (lowered := lowered_unless_no_kernel_takes_it(func, target)) is None:
        return
    for domain in ("real", "ring"):
        want = lp.interpret(func, arrays, values, domain=domain)
        check_same(lp.interpret(lowered, arrays, values, domain=domain), want)


@SETTINGS
@given(calls(), st.integers(0, 3))
def test_scheduled_for_a_gpu_they_have_no_races_and_mean_the_same(call: Any, seed: int) -> None:
    func, values, arrays = call
    s = schedules.gpu(lp.Schedule(func), threads=4)
    if (lowered := lowered_unless_no_kernel_takes_it(s.func, "cuda")) is None:
        return
    want = lp.interpret(func, arrays, values, domain="ring")
    check_same(lp.interpret(lowered, arrays, values, domain="ring", seed=seed), want)


OWN = (
    """
    for i in range(2):
        for j in range(X[i * 2 // 2] % 3):
            for k in range(i):
                X[X[i * 3 % 6] % 6] = prod(X[k * 2 // 2])
""",
    """
    for i in range(1):
        for j in range(2):
            for k in range(X[i + j] % 3):
                if k % 2 == 0:
                    X[1 - j] = max(X[1 - k], over=(i, k), init=X[0])
""",
)  # fmt: skip
"""Nests that read what they write, also to know how often they run: found at random."""


@pytest.mark.parametrize("body", OWN)
def test_what_a_nest_makes_of_its_own_memory_is_scheduled_as_it_can_be_run(body: str) -> None:
    func = lp.parse(
        f'def f(X: "inout int32[6]", Y: "out int32[5]"):{body}    for i_1 in range(5):\n        Y[i_1] = X[i_1]'
    )
    lowered = lower(schedules.gpu(lp.Schedule(func), threads=4).func, "cuda")
    x = np.arange(6, dtype=np.int32)[::-1]
    check_same(lp.interpret(lowered, [x], {}), lp.interpret(func, [x], {}))


@settings(SETTINGS, max_examples=40)
@given(calls(), st.booleans())
def test_the_cpu_gives_what_the_interpreter_gives(call: Any, scheduled: bool) -> None:
    func, values, arrays = call
    s = lp.Schedule(func)
    s = schedules.cpu(s, lanes=4) if scheduled else s
    if set(func.sizes) - {d for a in func.args if a.access != "out" for d in map(lp.text, a.buffer.shape)}:
        return  # a size that no array tells
    want = lp.interpret(func, arrays, values)
    copies = {k: v.copy() for k, v in arrays.items()}
    kernel = s.build("llvm", fma=False, threads=2)
    results = kernel(**copies)
    outs = [a.buffer.name for a in func.args if a.access == "out"]
    listed = results if isinstance(results, tuple) else () if results is None else (results,)
    got = {**copies, **dict(zip(outs, listed, strict=True))}
    check_same({n: got[n] for n in want}, want)


def test_the_order_of_passes_holds_what_each_row_asks_for() -> None:
    seen: list[str] = []
    for p in PASSES:
        assert set(p.after) <= set(seen), p.name
        assert p.why
        seen.append(p.name)


def test_time_loops_stay_on_the_host_and_nests_become_kernels() -> None:
    nest = lp.parse(
        """
def f(T: "size", n: "size", a: "inout float32[n + 2]", b: "inout float32[n + 2]", x: "float32[T]"):
    for t in range(T):
        for i in parallel(n):
            b[i + 1] = a[i] + a[i + 2]
        for j in range(n):
            a[j + 1] = b[j + 1]
"""
    )
    (host,) = lower(nest, "llvm").body
    assert isinstance(host, Loop)
    assert all(isinstance(s, Kernel) for s in host.body)
    shown: list[str] = []
    (lowered,) = lp.lower(lp.Schedule(nest), "llvm", show=lambda name, func: shown.append(name))
    assert shown[:4] == ["record_faults", "expand_instructions", "order_folds", "explicit_init"]
    assert sum(isinstance(s, Kernel) for s in statements(lowered.body)) == 2


def test_a_time_loop_of_one_step_is_no_grid() -> None:
    nest = lp.parse(
        """
def f(n: "size", X: "inout float32[n]", T: "inout float32[n]"):
    for s in range(1):
        for j in range(n):
            T[j] = X[j]
        for h in range(n):
            X[h] = T[n - 1 - h]
"""
    )
    lower(schedules.gpu(lp.Schedule(nest), threads=4).func, "cuda")


def test_a_parallel_loop_that_memory_bounds_runs_on_the_cpu() -> None:
    nest = lp.parse(
        """
def f(n: "size", L: "int32[2]", a: "float32[n]", b: "inout float32[n]"):
    for t in range(2):
        for i in parallel(L[t] % 7):
            b[i] = a[i] * 2.0 + b[i]
"""
    )
    lengths, a = np.array([5, 3], np.int32), np.arange(6, dtype=np.float32)
    got, want = a.copy(), a.copy()
    lp.Schedule(nest).build("llvm", threads=2)(lengths, a, got)
    for length in lengths:
        want[:length] += 2 * a[:length]
    np.testing.assert_array_equal(got, want)


def test_memory_that_threads_would_share_is_refused() -> None:
    nest = lp.parse(
        """
def f(a: "float32[8, 8]", b: "out float32[8, 8]"):
    for i in bind("blockIdx.x", 8):
        with alloc("float32[8]") as t:
            for j in bind("threadIdx.x", 8):
                t[j] = a[i, j]
            for k in bind("threadIdx.x", 8):
                b[i, k] = t[7 - k]
"""
    )
    with pytest.raises(lp.LowerError, match=r't is allocated in a kernel .* scope "shared"'):
        lower(nest, "cuda")


def test_a_barrier_that_not_all_threads_reach_is_refused() -> None:
    nest = lp.parse(
        """
def f(a: "float32[8, 8]", b: "out float32[8, 8]", p: "int32[8]"):
    for i in bind("blockIdx.x", 8):
        with alloc("float32[8]", scope="shared") as t:
            for j in bind("threadIdx.x", 8):
                t[j] = a[i, j]
            for z in range(p[i]):
                for k in bind("threadIdx.x", 8):
                    b[i, k] = t[7 - k]
                for l in bind("threadIdx.x", 8):
                    t[l] = b[i, l]
"""
    )
    with pytest.raises(lp.LowerError, match="not all threads of the block come by"):
        lower(nest, "cuda")


def test_stores_before_the_threads_of_one_block_are_in_its_launch() -> None:
    nest = lp.parse(
        """
def f(a: "float32[8]", s: "out float32[1]", t: "out float32[1]"):
    t[0] = 1.0
    for k in bind("threadIdx.x", 8):
        s[0] = sum(a[k], over=k, init=2.0)
    for i in bind("blockIdx.x", 1):
        for j in parallel(1):
            t[j] = s[j]
"""
    )
    for target, count in (("cuda", 2), ("llvm", 5)):
        lowered = lower(nest, target)
        assert sum(isinstance(s, Kernel) for s in statements(lowered.body)) <= count
        assert lp.interpret(lowered, [np.ones(8, np.float32)])["t"] == [10]
    assert sum(isinstance(s, Kernel) for s in lower(nest, "cuda").body) == 2


def test_a_program_is_lowered_once_for_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """`schedules.gpu` asks whether its choice can be lowered, and `build` lowers it again."""
    passes: list[str] = []

    def counted(p: pipeline.Pass) -> pipeline.Pass:
        def rewrite(func: Func, target: Any) -> Func:
            passes.append(p.name)
            return p.rewrite(func, target)

        return replace(p, rewrite=rewrite)

    monkeypatch.setattr(pipeline, "PASSES", tuple(counted(p) for p in pipeline.PASSES))
    A = lp.placeholder((64, 256), name="A")
    s = schedules.gpu(lp.Schedule(lp.softmax(A, axis=1)), arch="sm_90a")
    compared = passes.count("bind_threads")  # once each that it compares
    lp.compile_source(s, "sm_90a")
    lp.compile_source(s, "sm_90a")
    assert passes.count("bind_threads") == compared
    (func,) = lp.lower(s, "llvm")
    assert lp.lower(s, "llvm", show=lambda name, func: None) == (func,)
