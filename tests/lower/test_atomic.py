"""Atomic reductions: any order of threads gives the same, on the CPU and interpreted; races that remain are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.ir.dtypes import ALL_DTYPES, DType
from loopir.lower.pipeline import lower
from loopir.runtime.cuda import nvrtc

RNG = np.random.default_rng(0)

FOLDS = ["sum", "prod", "max", "min", "any", "all"]
CASES = [
    (fold, t) for t in ALL_DTYPES for fold in FOLDS
    if (fold in ("any", "all")) == (t.kind == "bool")
]  # fmt: skip


def scatter(fold: str, t: DType) -> lp.Schedule:
    return lp.Schedule(
        lp.parse(
            f"""
def f(n: "size", ix: "int32[n]", x: "{t}[n]", H: "inout {t}[7]"):
    for i in range(n):
        H[ix[i]] = {fold}(x[i], atomic=True)
"""
        )
    )


def arrays(t: DType, n: int) -> tuple[Any, Any, Any]:
    """Numbers whose sums and products are exact in any order, in 8 bits, too."""
    high = 2 if t.kind == "bool" or (t.kind == "float" and t.bits == 8) else 4
    x = RNG.integers(0, high, n).astype(t.numpy)
    return RNG.integers(0, 7, n).astype(np.int32), x, RNG.integers(0, high, 7).astype(t.numpy)


@pytest.mark.parametrize(("fold", "t"), CASES, ids=str)
def test_every_monoid_and_type_on_many_threads(fold: str, t: DType) -> None:
    s = scatter(fold, t).parallel("i")
    kernel = s.build("llvm", threads=4)
    ix, x, h = arrays(t, 20 if fold == "prod" else 40 if t.bits == 8 else 200)
    want = lp.interpret(s.func, [ix, x, h])["H"]
    kernel(ix, x, h)
    np.testing.assert_array_equal(h, want)


@pytest.mark.parametrize("fold", FOLDS)
def test_every_type_compiles_for_a_gpu_and_races_with_nothing(fold: str) -> None:
    for t in ALL_DTYPES:
        if (fold in ("any", "all")) != (t.kind == "bool"):
            continue
        s = scatter(fold, t).split("i", 8).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")
        lowered = lower(s.func, "cuda")
        nvrtc.compile(emit(lowered).source, "sm_90a", fma=True)
    given = arrays(t, 21)
    for seed in range(3):
        got = lp.interpret(lowered, list(given), seed=seed)["H"]
        np.testing.assert_array_equal(got, lp.interpret(s.func, list(given))["H"])


def test_the_hardware_has_updates_of_its_own() -> None:
    int32, float32 = (next(t for t in ALL_DTYPES if t.name == n) for n in ("int32", "float32"))
    for fold, t, spelling in (
        ("sum", float32, "atomicAdd(&H["),
        ("max", int32, "atomicMax(&H["),
        ("max", float32, "CAS"),
    ):
        source = lp.compile_source(scatter(fold, t).bind("i", "blockIdx.x")).source
        assert spelling in source


SPLIT_K = """
def f(n: "size", A: "float32[3, n]", C: "out float32[3]"):
    for i in range(3):
        for k in range(n):
            C[i] = sum(A[i, k], over=k, init=5.0)
"""


def test_split_k_by_atomics() -> None:
    s = (
        lp.Schedule(lp.parse(SPLIT_K))
        .decompose_reduction("C", "i")
        .split("k", 4)
        .reorder("k_o", "i", "k_i")
        .atomic("C")
    )
    s = s.bind("k_o", "blockIdx.x").bind("i", "threadIdx.y").bind("k_i", "threadIdx.x")
    lowered = lower(s.func, "cuda")
    a = RNG.integers(0, 9, (3, 21)).astype(np.float32)
    for seed in range(3):
        np.testing.assert_array_equal(lp.interpret(lowered, [a], seed=seed)["C"], a.sum(1) + 5)
    assert lp.text(lowered).count("lane_xor") == 2  # the threads of a block fold together first
    nvrtc.compile(emit(lowered).source, "sm_90a", fma=True)


def test_without_it_the_refusal_says_so() -> None:
    s = lp.Schedule(lp.parse(SPLIT_K))
    with pytest.raises(lp.ScheduleError, match=r"instead: rfactor\('C', 'k'\), or atomic\('C'\), or a loop over which"):
        s.parallel("k")
    assert s.atomic("C").why("parallel", "k") is None
    assert s.atomic("C").why("vectorize", "k") is not None


def test_what_reads_the_element_still_clashes() -> None:
    s = lp.Schedule(
        lp.parse(
            """
def f(n: "size", A: "float32[n]", C: "inout float32[1]", B: "out float32[n]"):
    for i in range(n):
        C[0] = sum(A[i], atomic=True)
        B[i] = C[0]
"""
        )
    )
    with pytest.raises(lp.ScheduleError, match=r"C at \(i=0\) writes C\[0\], which B at \(i=1\) reads"):
        s.parallel("i")


def test_two_folds_by_one_monoid_meet_and_by_two_clash() -> None:
    nest = """
def f(n: "size", A: "float32[n]", C: "inout float32[2]"):
    for i in range(n):
        C[i % 2] = sum(A[i], atomic=True)
        C[0] = {fold}(A[i], atomic=True)
"""
    assert lp.Schedule(lp.parse(nest.format(fold="sum"))).why("parallel", "i") is None
    clash = lp.Schedule(lp.parse(nest.format(fold="max"))).why("bind", "i", "blockIdx.x")
    assert clash is not None
    assert "C at (i=0) writes C[0], which C_1 at (i=1) reads" in str(clash)


def kernel(body: str) -> lp.Func:
    separator = "\n            "
    return lp.parse(
        f"""
def f(A: "float32[4]", C: "inout float32[1]", B: "inout float32[4]"):
    with kernel("f_kernel"):
        for i in bind("threadIdx.x", 4):
            {separator.join(body.split("; "))}
"""
    )


GIVEN = [np.ones(4, np.float32), np.zeros(1, np.float32), np.zeros(4, np.float32)]


RACES = {
    "C[0] = sum(A[i])": "a race",
    "C[0] = sum(A[i], atomic=True); B[i] = C[0]": "C.0. in .* which .* (read|updated), no barrier between",
    "B[i] = C[0]; C[0] = sum(A[i], atomic=True)": "C.0. in .* which .* (read|updated), no barrier between",
    "C[0] = sum(A[i], atomic=True); C[0] = max(A[i], atomic=True)": "updates C.0. in .* which .* updated",
    "C[0] = sum(A[i], atomic=True); C[0] = 1.0": "C.0. in .* which .* (wrote|updated), no barrier between",
}


@pytest.mark.parametrize("body", sorted(RACES))
def test_the_interpreter_knows_what_an_update_races_with(body: str) -> None:
    with pytest.raises(lp.InterpretError, match=RACES[body]):
        lp.interpret(kernel(body), GIVEN)


@pytest.mark.parametrize(
    "body", ["C[0] = sum(A[i], atomic=True)", "C[0] = sum(A[i], atomic=True); barrier(); B[i] = C[0]"]
)
def test_updates_race_with_no_other_and_a_barrier_orders_them(body: str) -> None:
    assert lp.interpret(kernel(body), GIVEN)["C"] == [4]


def test_blocks_that_start_what_others_fold_are_refused() -> None:
    s = lp.Schedule(lp.parse(SPLIT_K)).atomic("C").bind("i", "blockIdx.y").bind("k", "blockIdx.x")
    with pytest.raises(lp.LowerError, match="in different blocks, which nothing orders"):
        lower(s.func, "cuda")
