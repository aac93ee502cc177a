"""Reductions over threads: every monoid, every shape of block, every kind of memory; exact, in any order of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.ir.grammar import Func
from loopir.lower.pipeline import lower
from loopir.runtime.cuda import nvrtc

RNG = np.random.default_rng(0)


def check(func: Func, *arrays: Any, seeds: int = 2, domain: str = "ring") -> Func:
    """The lowered program gives what the program means, however its threads are interleaved."""
    lowered = lower(func, "cuda")
    want = lp.interpret(func, arrays, domain=domain)
    for seed in range(seeds):
        got = lp.interpret(lowered, arrays, domain=domain, seed=seed)
        for name, x in want.items():
            np.testing.assert_array_equal(got[name], x, err_msg=f"{name}\n{lp.text(lowered)}")
    return lowered


def ints(*shape: int, dtype: str = "float32") -> Any:
    t = np.dtype(bool) if dtype == "bool" else np.dtype(np.uint8 if dtype == "uint8" else dtype)
    return RNG.integers(0, 2 if dtype == "bool" else 9, shape).astype(t)


def rows(fold: str, t: str = "float32", out: str = "") -> str:
    return f"""
def f(n: "size", m: "size", A: "{t}[n, m]", S: "out {out or t}[n]"):
    for i in range(n):
        for k in range(m):
            S[i] = {fold}
"""


FOLDS = {
    "sum": ("sum(A[i, k], over=k, init=0)", "float32 float64 int32 int64 uint8"),
    "prod": ("prod(A[i, k], over=k, init=1)", "float32 int32"),
    "max": ("max(A[i, k], over=k, init=0)", "float32 float64 int32 uint8"),
    "min": ("min(A[i, k], over=k, init=100)", "float32 int64"),
    "any": ("any(A[i, k], over=k, init=False)", "bool"),
    "all": ("all(A[i, k], over=k, init=True)", "bool"),
}


@pytest.mark.parametrize(("fold", "t"), [(f, t) for f, (_, types) in FOLDS.items() for t in types.split()])
def test_every_monoid_and_type(fold: str, t: str) -> None:
    source = FOLDS[fold][0]
    if t.startswith("float"):
        source = source.replace("init=0", "init=0.0").replace("init=1", "init=1.0")
    s = lp.Schedule(lp.parse(rows(source, t))).bind("i", "blockIdx.x").split("k", 64).bind("k_i", "threadIdx.x")
    lowered = check(s.func, ints(2, 100, dtype=t))
    nvrtc.compile(emit(lowered).source, "sm_90a", fma=True)


@pytest.mark.parametrize("inner", [1, 2, 4, 16, 32, 5])
@pytest.mark.parametrize("rows_a_block", [2, 3])
def test_several_rows_a_block(inner: int, rows_a_block: int) -> None:
    s = lp.Schedule(lp.parse(rows("max(A[i, k], over=k, init=0.0)"))).split("i", rows_a_block).split("k", inner)
    s = s.bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.y").bind("k_i", "threadIdx.x")
    for n in (1, rows_a_block, 2 * rows_a_block + 1):
        check(s.func, ints(n, 21))


TUPLE = """
def f(n: "size", m: "size", A: "float32[n, m]", V: "out float32[n]", I: "out int32[n]"):
    for i in range(n):
        for k in range(m):
            V[i], I[i] = argmax(A[i, k], int32(k), over=k, init=(-inf, 2147483647))
"""


@pytest.mark.parametrize("threads", [4, 6, 32, 64, 96])
def test_tuples_fold_as_one(threads: int) -> None:
    s = lp.Schedule(lp.parse(TUPLE)).bind("i", "blockIdx.x").split("k", threads).bind("k_i", "threadIdx.x")
    check(s.func, ints(3, 101))
    lowered = check(s.func, ints(3, 101), domain="real")
    nvrtc.compile(emit(lowered).source, "sm_90a", fma=True)


@pytest.mark.parametrize("scope", ["shared", "local"])
@pytest.mark.parametrize("threads", [3, 16, 32, 64, 96])
@pytest.mark.parametrize("fold", ["sum", "max"])
def test_all_threads_see_the_total(scope: str, threads: int, fold: str) -> None:
    """A row over its sum: the total lies in memory of the block, or in registers of every thread."""
    f = lp.parse(
        f"""
def f(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
    for i in range(n):
        with alloc("float32[1]", scope="{scope}") as t, alloc("float32[]", scope="{scope}") as u:
            for k in range(m):
                t[0] = {fold}(A[i, k], over=k, init=1.0)
            u[()] = t[0] * 3.0
            for j in range(m):
                B[i, j] = A[i, j] / u[()] + t[0]
"""
    )
    s = lp.Schedule(f).bind("i", "blockIdx.x").split("k", threads).split("j", threads)
    s = s.bind("k_i", "threadIdx.x").bind("j_i", "threadIdx.x")
    lowered = check(s.func, ints(2, 70))
    assert ("shared" in lp.text(lowered)) == (scope == "shared" or threads not in (16, 32))


def test_rows_that_not_all_threads_have_are_folded_where_all_come_by() -> None:
    f = lp.parse(
        """
def f(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]", S: "out float32[n, 3]"):
    for i_o in bind("blockIdx.x", (n + 1) // 2):
        for i_i in bind("threadIdx.y", 2):
            if i_o * 2 + i_i < n:
                with alloc("float32[1]", scope="local") as t:
                    for k_o in range((m + 7) // 8):
                        for k in bind("threadIdx.x", 8):
                            if k_o * 8 + k < m:
                                t[0] = sum(A[i_o * 2 + i_i, k_o * 8 + k], over=(k_o, k), init=0.0)
                    for h_o in range((m + 7) // 8):
                        for h in bind("threadIdx.x", 8):
                            if h_o * 8 + h < m:
                                B[i_o * 2 + i_i, h_o * 8 + h] = t[0]
                    for c in range(3):
                        for x_o in range((m + 7) // 8):
                            for x in bind("threadIdx.x", 8):
                                if x_o * 8 + x < m:
                                    S[i_o * 2 + i_i, c] = max(A[i_o * 2 + i_i, x_o * 8 + x] + t[0],
                                                              over=(x_o, x), init=0.0)
"""
    )
    for n, m in ((1, 3), (3, 20), (4, 8)):
        check(f, ints(n, m))


def test_elements_kept_inside_the_reduced_loop() -> None:
    f = lp.parse(
        """
def f(n: "size", A: "float32[n, 4]", S: "out float32[4]", P: "out float32[n]"):
    for k_o in range((n + 15) // 16):
        for k in bind("threadIdx.x", 16):
            for j in range(4):
                if k_o * 16 + k < n:
                    S[j] = sum(A[k_o * 16 + k, j], over=(k_o, k), init=2.0)
    for p_o in range((n + 15) // 16):
        for p in bind("threadIdx.x", 16):
            if p_o * 16 + p < n:
                P[p_o * 16 + p] = A[p_o * 16 + p, 0] + S[1]
"""
    )
    for n in (0, 1, 40):
        check(f, ints(n, 4))


def test_a_partial_result_that_is_read_is_there() -> None:
    """The running total after each step of the outer loop: threads fold in every step."""
    f = lp.parse(
        """
def f(n: "size", A: "float32[n, 8]", S: "out float32[1]", R: "out float32[n]"):
    for b in bind("blockIdx.x", 1):
        S[0]: "S_0" = 0.0
        for k_o in range(n):
            for k in bind("threadIdx.x", 8):
                S[0] = sum(A[k_o, k], over=(k_o, k), label="S")
            for z in bind("threadIdx.x", 1):
                R[k_o] = S[0]
"""
    )
    check(f, ints(5, 8))


def test_ragged_rows() -> None:
    f = lp.parse(
        """
def f(n: "size", L: "int32[n]", A: "float32[n, 50]", S: "out float32[n]"):
    for i in bind("blockIdx.x", n):
        for k_o in range((L[i] + 15) // 16):
            for k in bind("threadIdx.x", 16):
                if k_o * 16 + k < L[i]:
                    S[i] = sum(A[i, k_o * 16 + k], over=(k_o, k), init=0.0)
"""
    )
    check(f, np.array([0, 50, 17, 1], np.int32), ints(4, 50))


@st.composite
def nests(draw: st.DrawFn) -> tuple[Func, dict[str, int]]:
    """A reduction over two loops, split and bound anyhow, with other threads around it."""
    fold = draw(st.sampled_from(["sum", "max", "prod"]))
    f = lp.parse(
        f"""
def f(n: "size", m: "size", p: "size", A: "float32[n, m, p]", S: "out float32[n]", T: "out float32[n]"):
    for i in range(n):
        for k in range(m):
            for h in range(p):
                S[i] = {fold}(A[i, k, h], over=(k, h), init=1.0)
        T[i] = S[i] * 2.0
"""
    )
    s = lp.Schedule(f)
    axes = draw(st.permutations(["threadIdx.x", "threadIdx.y", "threadIdx.z"]))
    split = draw(st.lists(st.sampled_from("ikh"), min_size=1, max_size=3, unique=True))
    for loop, axis in zip(split, axes, strict=False):
        factor, tail = draw(st.sampled_from([1, 2, 3, 4, 8])), draw(st.sampled_from(["guard", "guard", "peel"]))
        if s.why("split", loop, factor, tail=tail) is not None:  # threads that fold together do not fold a part each
            continue
        s = s.split(loop, factor, tail=tail)
        if s.why("bind", f"{loop}_i", axis) is None:
            s = s.bind(f"{loop}_i", axis)
    outer = draw(st.sampled_from(["i", "i_o"]))
    if outer in s.loops() and s.why("bind", outer, "blockIdx.x") is None:
        s = s.bind(outer, "blockIdx.x")
    if "k_o" in s.loops() and "k_i" in s.loops() and draw(st.booleans()) and s.why("reorder", "k_i", "k_o") is None:
        s = s.reorder("k_i", "k_o")
    return s.func, {v: draw(st.integers(0, 5)) for v in "nmp"}


def test_threads_that_fold_together_do_not_fold_a_part_each() -> None:
    f = lp.parse(
        """
def f(p: "size", A: "float32[8, p]", S: "out float32[1]"):
    for k in range(8):
        for h in range(p):
            S[0] = sum(A[k, h], over=(k, h), init=1.0)
"""
    )
    s = lp.Schedule(f).split("k", 4).bind("k_i", "threadIdx.x")
    with pytest.raises(lp.ScheduleError, match=r"then iterations of 'k_i' are not independent.*\n *instead: this step"):
        s.split("h", 2, tail="peel")
    assert s.why("split", "h", 2) is None


@settings(max_examples=40, deadline=None)
@given(nests(), st.integers(0, 9))
def test_any_two_loops_bound_anyhow(case: tuple[Func, dict[str, int]], seed: int) -> None:
    func, sizes = case
    lowered = lower(func, "cuda")
    array = np.random.default_rng(seed).integers(0, 5, (sizes["n"], sizes["m"], sizes["p"])).astype(np.float32)
    want = lp.interpret(func, [array], sizes, domain="ring")
    got = lp.interpret(lowered, [array], sizes, domain="ring", seed=seed)
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)


GUARDED = """
def f(A: "float32[32]", S: "inout float32[4]"):
    for i in range(32):
        for e in range(4):
            if {guard}:
                S[{at}] = sum(A[i] + {e}.0, over=({over}))
"""


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_bind_takes_is_lowered(data: st.DataObject) -> None:
    """Threads fold together where guards that speak of them no longer hold blocks and other threads apart."""
    guard = data.draw(st.sampled_from(["i + 2 < 4 - i", "e + 2 < 4 - e", "i + e < 1", "i < 4", "i == 5 * e"]))
    at, over = data.draw(st.sampled_from([("e", "i,"), ("0", "i, e"), ("e // 2", "i,")]))
    s = lp.Schedule(lp.parse(GUARDED.format(guard=guard, at=at, over=over, e=data.draw(st.integers(0, 2)))))
    s = s.split("i", 8).split("i_i", 2)
    if data.draw(st.booleans()):
        s = s.reorder("e", "i_o")
    axes = data.draw(st.permutations(["blockIdx.x", "threadIdx.x", "threadIdx.y", "blockIdx.y"]))
    for loop, axis in zip(data.draw(st.permutations(["i_o", "i_i_o", "i_i_i", "e"])), axes, strict=True):
        if s.why("bind", loop, axis) is None:
            s = s.bind(loop, axis)
    check(s.func, ints(32), ints(4))


def test_a_guard_that_holds_blocks_apart_is_lost_where_threads_fold() -> None:
    guarded = GUARDED.format(guard="i + 2 < 4 - i", at="e", over="i,", e=0)
    s = lp.Schedule(lp.parse(guarded)).split("i", 8).bind("i_i", "threadIdx.x")
    with pytest.raises(lp.ScheduleError, match=r"folded by threads together wherever.*\n.*S at .*i_o=0"):
        s.bind("i_o", "blockIdx.x")
    s = lp.Schedule(lp.parse(guarded)).split("i", 8).bind("i_o", "blockIdx.x")
    with pytest.raises(lp.ScheduleError, match="atomic"):
        s.bind("i_i", "threadIdx.x")
    check(s.atomic("S").bind("i_i", "threadIdx.x").func, ints(32), ints(4))


def test_launches_of_a_host_loop_are_in_order() -> None:
    """One launch was taken to clash with the next, in another block."""
    f = lp.parse("""
def f(T: "size", n: "size", A: "float32[T, n]", a: "inout float32[T + 1, n + 2]"):
    for t in range(T):
        for i in range(n):
            a[t + 1, i + 1] = a[t, i] + a[t, i + 2] + A[t, i]
""")
    s = lp.Schedule(f).split("i", 4).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")
    lowered = check(s.func, ints(3, 9), ints(4, 11))
    assert "barrier" not in lp.text(lowered)


AFTER = {
    "the same fold": ("S[i] = sum(A[i, 64 + 32 * m + l], over=(m, l))", 1),
    "of some threads": ("if l < 9: S[i] = sum(A[i, 64 + 32 * m + l], over=(m, l))", 1),
    "of some rows": ("if i > 0: S[i] = sum(A[i, 64 + 32 * m + l], over=(m, l))", 2),
    "another monoid": ("S[i] = max(A[i, 64 + 32 * m + l], over=(m, l))", 2),
    "another element": ("T[i] = sum(A[i, 64 + 32 * m + l] * S[i], over=(m, l), init=0.0)", 2),
}


@pytest.mark.parametrize(("fold", "trees"), AFTER.values(), ids=AFTER)
def test_loops_that_fold_alike_are_folded_once(fold: str, trees: int) -> None:
    source = f"""
def f(n: "size", A: "float32[n, 128]", S: "out float32[n]", T: "out float32[n]"):
    for i in bind("blockIdx.x", n):
        for k in range(2):
            for t in bind("threadIdx.x", 32):
                S[i] = sum(A[i, k * 32 + t], over=(k, t), init=0.0)
        for m in range(2):
            for l in bind("threadIdx.x", 32):
                {fold}
        for z in bind("threadIdx.x", 1):
            if {"i > n" if "T[i]" in fold else "i < n"}:
                T[i]: "T_z" = 1.0
"""
    lowered = check(lp.parse(source), ints(3, 128))
    assert lp.text(lowered).count("lane_xor_16(") == trees
