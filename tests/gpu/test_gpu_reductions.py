"""Reductions on a GPU: threads that fold together, atomics, rows in one kernel; every type, sizes from 0 on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.ir.dtypes import ALL_DTYPES, DType

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]
RNG = np.random.default_rng(0)
SIZES = [(0, 5), (1, 1), (3, 7), (5, 0), (17, 31), (2, 1009), (300, 33), (1009, 64), (64, 4096), (3, 100003)]
SIZES += [(2048, 4), (2100, 7), (4099, 61), (2050, 0)]  # rows that are taken in groups


def whole(t: DType, shape: Any, high: int = 5) -> Any:
    """Small whole numbers, whose sums are exact in any order."""
    return RNG.integers(0, 2 if t.kind == "bool" else high, shape).astype(t.numpy)


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums_over_any_axis(size: tuple[int, int], axis: int | None) -> None:
    x = lp.placeholder((lp.symbol("n", min=0), lp.symbol("m", min=0)), "float32", name="x")
    a = RNG.integers(-3, 4, size).astype(np.float32)
    for t in (x.sum(axis=axis), x.max(axis=axis)):
        s = lp.Schedule(t)
        for stage in s.stages:
            s = schedules.reduction(s, stage)
        got = s.build("cuda")(a)
        same(got, a.sum(axis=axis) if "sum" in s.stages else a.max(axis=axis, initial=-np.inf))


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_every_type_and_monoid(t: DType, axis: int | None) -> None:
    x = lp.placeholder((lp.symbol("n"), 77), t, name="x")
    a = whole(t, (41, 77), 3 if t.kind != "bool" else 2)
    folds = ("any", "all", "argmax") if t.kind == "bool" else ("sum", "max", "min", "argmax", "argmin")
    for fold in folds:
        s = lp.Schedule(getattr(x, fold)(axis=axis))
        for stage in s.stages:
            s = schedules.reduction(s, stage, chunk=512)
        got = s.build("cuda")(a)
        want = np.asarray(getattr(a.astype(np.float64) if t.kind != "bool" else a, fold)(axis=axis))
        same(got, want.astype(got.dtype))  # a sum that 16 bits do not hold is rounded once


@pytest.mark.parametrize("threads", [1, 3, 16, 32, 48, 64, 96, 100, 256, 1000, 1024])
@pytest.mark.parametrize("scope", ["shared", "local"])
def test_all_threads_see_the_total(threads: int, scope: str) -> None:
    nest = lp.parse(
        f"""
def f(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
    for i in range(n):
        with alloc("float32[1]", scope="{scope}") as t:
            for k in range(m):
                t[0] = sum(A[i, k], over=k, init=1.0)
            for j in range(m):
                B[i, j] = A[i, j] + t[0]
"""
    )
    s = lp.Schedule(nest).bind("i", "blockIdx.x").split("k", threads).split("j", threads)
    kernel = s.bind("k_i", "threadIdx.x").bind("j_i", "threadIdx.x").build("cuda")
    for n, m in ((1, 1), (5, 333), (7, 2048)):
        a = RNG.integers(-3, 4, (n, m)).astype(np.float32)
        same(kernel(a), a + a.sum(axis=1, keepdims=True) + 1)


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_atomics_of_every_type(t: DType) -> None:
    folds = ("any", "all") if t.kind == "bool" else ("sum", "max", "min")
    ix = RNG.integers(0, 7, 4099).astype(np.int32)
    x = whole(t, 4099, 2)
    for fold in folds:
        nest = lp.parse(
            f"""
def f(n: "size", ix: "int32[n]", x: "{t}[n]", H: "inout {t}[7]"):
    for i in range(n):
        H[ix[i]] = {fold}(x[i])
"""
        )
        s = lp.Schedule(nest).atomic("H").split("i", 256).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")
        h = np.zeros(7, t.numpy)
        want = np.asarray(lp.interpret(nest, [ix, x, h])["H"])
        s.build("cuda")(ix, x, h)
        if t.name in ("float16", "bfloat16") and fold == "sum":
            continue  # sums beyond what the type counts exactly depend on the order
        same(h, want)


def test_split_k_by_atomics_and_by_two_kernels() -> None:
    k = lp.reduce_axis(lp.symbol("p"), name="k")
    A = lp.placeholder((33, lp.symbol("p")), "float32", name="A")
    B = lp.placeholder((lp.symbol("p"), 20), "float32", name="B")
    C = lp.compute((33, 20), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = lp.Schedule(C).split("k", 128)
    one = s.decompose_reduction("C", "i").reorder("k_o", "i", "j", "k_i").atomic("C")
    two = s.reorder("k_o", "i", "j", "k_i").rfactor("C", "k_o")
    two = two.reorder("i_1", "j_1", "k_o_1").bind("i_1", "blockIdx.x").bind("j_1", "threadIdx.x")
    a, b = (RNG.integers(-3, 4, size).astype(np.float32) for size in ((33, 1000), (1000, 20)))
    for t in (one, two):
        t = t.bind("k_o", "blockIdx.y").bind("i", "blockIdx.x").bind("j", "threadIdx.x")
        same(t.build("cuda")(a, b), a @ b)


def layernorm(x: Any) -> Any:
    mean = lp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * lp.rsqrt(lp.var(x, axis=-1, keepdims=True, mean=mean) + 1e-5)


def as_numpy(name: str, a: Any) -> Any:
    a = a.astype(np.float64)
    if name == "layernorm":
        return (a - a.mean(axis=-1, keepdims=True)) / np.sqrt(a.var(axis=-1, keepdims=True) + 1e-5)
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", ["softmax", "online", "layernorm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("m", [1, 7, 32, 100, 1009, 1024, 4096, 10007, None])
def test_rows_in_one_kernel(name: str, dtype: str, m: int | None) -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m") if m is None else m), dtype, name="x")
    made = {"softmax": lp.softmax, "online": lambda x: lp.softmax(x, online=True), "layernorm": layernorm}[name](x)
    kernel = schedules.row_blocks(schedules.inlined(lp.Schedule(made.named("y")))).build("cuda")
    for n, columns in ((1, m or 5), (13, m or 777)):
        a = (RNG.standard_normal((n, columns)) * 4).astype(x.dtype.numpy)
        tolerance = {"float32": 2e-6, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
        got = np.asarray(kernel(a)).astype(np.float64)
        want = as_numpy("softmax" if name == "online" else name, a)
        assert np.abs(got - want).max() <= tolerance * max(1.0, np.abs(want).max())


def test_masked_rows_and_large_means() -> None:
    a = (RNG.standard_normal((8, 3000)) * 9).astype(np.float32)
    a[0, :2000] = -np.inf
    a[1] += 1e4
    x = lp.placeholder((8, 3000), "float32", name="x")
    kernel = schedules.row_blocks(schedules.inlined(lp.Schedule(lp.softmax(x, online=True).named("y")))).build("cuda")
    assert np.abs(np.asarray(kernel(a)) - as_numpy("softmax", a)).max() < 1e-5
    b = (RNG.standard_normal((8, 3000)) + 1e4).astype(np.float32)
    merged = 20 * 1e4 * 2**-24  # Chan et al. 1983: depth of the merges times mean over deviation times unit roundoff
    twice = merged**2 + 40 * 2**-24  # the mean's error counts squared; deviations from it are exact
    for passes, bound in ((1, merged), (2, twice)):
        t = (lp.var(x, axis=1, passes=passes) * 1.0).named("y")
        kernel = schedules.row_blocks(schedules.inlined(lp.Schedule(t))).build("cuda")
        np.testing.assert_allclose(np.asarray(kernel(b)), b.astype(np.float64).var(axis=1), rtol=bound)
