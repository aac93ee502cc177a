"""Floats of 8 bits: every number of them, every tie between two, and what is too large, as ml_dtypes has them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from sass import HGMMA, QGMMA, opcodes

import loopir as lp
from loopir.ir.dtypes import dtype, promote
from schedules.cuda.matmul_wgmma import matmul_wgmma

EIGHT = ("float8_e4m3fn", "float8_e5m2")


def numbers(t: str) -> Any:
    """Every float of type `t`, halfway between any two, just beside that, and some beyond all of them."""
    every = np.arange(256, dtype=np.uint8).view(t).astype(np.float32)
    finite = np.unique(every[np.isfinite(every)])
    half = (finite[:-1] + finite[1:]) / 2
    last = np.array([464, 465, 500, 61439, 61440, 61441, 1e9, 1e38, np.inf, np.nan, 1e-9, 1e-40, 0], np.float32)
    x = np.concatenate([every, half, np.nextafter(half, np.float32(9e9)), np.nextafter(half, np.float32(-9e9)), last])
    return np.concatenate([x, -x])


def bits(x: Any) -> Any:
    """Of a NaN only that it is one."""
    return np.where(np.isnan(x.astype(np.float32)), np.uint8(0xFF), x.view(np.uint8))


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("t", EIGHT)
def test_conversions_round_as_ml_dtypes(t: str, vectors: bool) -> None:
    n = lp.symbol("n")
    s = lp.Schedule(lp.placeholder((n,), "float32", name="x").astype(t).named("y"))
    s = s.split(s.loops()[0], 8).vectorize(f"{s.loops()[0]}_i") if vectors else s
    x = numbers(t)
    with np.errstate(all="ignore"):
        want = x.astype(t)
    assert (bits(s.build("llvm")(x)) == bits(want)).all()
    assert (bits(lp.interpret(s.func, [x])["y"]) == bits(want)).all()
    back = lp.Schedule(lp.placeholder((n,), t, name="x").astype("float32"))
    assert np.array_equal(back.build("llvm")(want), want.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("t", EIGHT)
def test_every_operation_is_rounded(t: str) -> None:
    a, b = (lp.placeholder((256, 256), t, name=x) for x in "ab")
    s = lp.Schedule(((a + b) * a).named("y"))
    x, y = np.meshgrid(*(np.arange(256, dtype=np.uint8).view(t),) * 2)
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    with np.errstate(all="ignore"):
        want = (x.astype(np.float32) + y.astype(np.float32)).astype(t).astype(np.float32) * x.astype(np.float32)
        assert (bits(s.build("llvm")(x, y)) == bits(want.astype(t))).all()


def test_of_two_types_the_one_that_holds_both() -> None:
    def of(a: str, b: str) -> str:
        assert promote(dtype(a), dtype(b)) == promote(dtype(b), dtype(a))
        return str(promote(dtype(a), dtype(b)))

    assert of("e4m3", "bf16") == "bfloat16"
    assert of("e5m2", "f16") == "float16"
    assert of("e4m3", "e5m2") == of("bf16", "f16") == "float32"
    assert of("e4m3", "f64") == "float64"
    assert of("e4m3", "int32") == "float8_e4m3fn"
    assert dtype(ml_dtypes.float8_e5m2).name == "float8_e5m2"
    assert str((lp.placeholder((4,), "e4m3", name="x").sum()).dtype) == "float8_e4m3fn"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("t", EIGHT)
def test_kernels_convert_them_on_every_architecture(t: str, arch: str) -> None:
    x = lp.placeholder((4096,), "float32", name="x")
    s = lp.Schedule((x.astype(t).astype("float32") + 1.0).astype(t).named("y"))
    i = s.loops()[0]
    s = s.split(i, 128).bind(f"{i}_o", "blockIdx.x").bind(f"{i}_i", "threadIdx.x")
    (used,) = lp.compile_source(s, arch).resources.values()
    assert used.spill_stores == used.stack == 0


@pytest.mark.parametrize("t", EIGHT)
def test_products_of_warpgroups(t: str) -> None:
    a, b = (lp.placeholder((256, 256), t, name=x) for x in "AB")
    product = lp.relu(lp.cast(a, "float32") @ lp.cast(b, "float32").T).astype("bfloat16")
    s = matmul_wgmma(lp.Schedule(product), "matmul", block=(128, 128))
    compiled = lp.compile_source(s)
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    assert opcodes(compiled.cubin)[QGMMA] >= 4
    assert HGMMA not in opcodes(compiled.cubin)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("t", EIGHT)
def test_extremes_start_from_what_the_type_has(t: str, sign: int) -> None:
    """float8_e4m3fn has no infinity, and minus infinity as one of it would be NaN."""
    x = (sign * np.array([[448, 3, 448], [0.5, 2, 1]], np.float32)).astype(t)
    a, wide = lp.placeholder((lp.symbol("n"), 3), t, name="x"), x.astype(np.float32)
    for fold in ("max", "min", "argmax", "argmin"):
        s = lp.Schedule(getattr(a, fold)(axis=1))
        want = getattr(wide, fold)(axis=1)
        loop = s.loops()[-1]
        for made in (s, s.split(loop, 2).rfactor(s.stages[0], f"{loop}_o") if fold == "max" else s):
            assert np.array_equal(np.asarray(made.build("llvm")(x)).astype(np.float32), want)
            assert np.array_equal(next(iter(lp.interpret(made.func, [x]).values())).astype(np.float32), want)


def test_there_is_no_infinity_where_the_type_has_none() -> None:
    x = lp.placeholder((4,), "e4m3", name="x")
    with pytest.raises(lp.VerifyError, match=r"-inf does not fit float8_e4m3fn, which has no infinities.* 448"):
        lp.Schedule(lp.maximum(x, -float("inf")))
    assert lp.Schedule(lp.maximum(lp.placeholder((4,), "e5m2", name="x"), -float("inf")))
