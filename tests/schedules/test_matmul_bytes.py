"""Products of elements of 8 bits on tensor cores, and of weights of 8 bits made where they are multiplied: exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
from loopir.interp.interpret import interpret
from schedules.common.contraction import contraction
from schedules.common.fusion import inlined
from schedules.common.operands import alone, computed
from schedules.cuda.matmul_mma import in_bytes, matmul_mma
from schedules.cuda.matmul_split_k import matmul_split
from schedules.cuda.tiled_products import _along_rows, _in_whole_rows  # pyright: ignore[reportPrivateUsage]


def _numbers(shape: tuple[int, ...], name: str, seed: int) -> Any:
    kind = np.dtype(getattr(ml_dtypes, name, name))
    return np.random.default_rng(seed).integers(0 if name == "uint8" else -3, 4, shape).astype(kind)


@pytest.mark.parametrize(
    ("kind", "layout"), [("int8", "nt"), ("uint8", "nn"), ("float8_e4m3fn", "tn"), ("float8_e5m2", "tt")]
)
def test_each_type_in_each_layout_means_the_product(kind: str, layout: str) -> None:
    m, n, k = 18, 12, 40  # no whole tiles of 32 x 32 x 32
    shapes = (m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k)
    x, y = (lp.placeholder(shape, kind, name=name) for shape, name in zip(shapes, "xy", strict=True))
    wide = "int32" if "int" in kind else "float32"
    left, right = (lp.cast(v if kept else v.T, wide) for v, kept in ((x, layout[0] == "n"), (y, layout[1] == "n")))
    with lp.scheduling_for(lp.machine("sm_89")):
        s = inlined(lp.Schedule((left @ right).named("z")))
        s, stage = alone(s, next(q for q in s.stages if s.reduced(q)))
        c = contraction(s, stage)
        assert c is not None
        assert in_bytes(s, c)
        s = matmul_mma(s, stage, block=(32, 32), warps=(2, 2), depth=32, stages=2)
        (lowered,) = lp.lower(s, "cuda")
    a, b = _numbers(shapes[0], kind, 1), _numbers(shapes[1], kind, 2)
    z = interpret(lowered, {"x": a, "y": b})["z"]
    p, q = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(z, (p if layout[0] == "n" else p.T) @ (q if layout[1] == "n" else q.T))
    assert "mma.sync.aligned.m16n8k32" in lp.compile_source(s, "sm_89").source


def test_floats_of_8_bits_are_left_alone_where_no_tensor_core_takes_them() -> None:
    x, y = (lp.placeholder((32, 32), "float8_e5m2", name=name) for name in "xy")
    s = inlined(lp.Schedule((lp.cast(x, "float32") @ lp.cast(y, "float32").T).named("z")))
    s, stage = alone(s, next(q for q in s.stages if s.reduced(q)))
    c = contraction(s, stage)
    assert c is not None
    for arch, taken in (("sm_80", False), ("sm_86", False), ("sm_89", True), ("sm_120", True)):
        with lp.scheduling_for(lp.machine(arch)):
            assert in_bytes(s, c) == taken


@pytest.mark.parametrize(("m", "k", "n", "parts"), [(5, 160, 40, 2)])
def test_weights_made_in_fragments_at_ragged_edges_and_in_parts(m: int, k: int, n: int, parts: int) -> None:
    x, w = lp.placeholder((m, k), "bfloat16", name="x"), lp.placeholder((n, k), "int8", name="w")
    scale = lp.placeholder((n, 1), "bfloat16", name="scale")
    with lp.scheduling_for(lp.machine("sm_80")):
        s = inlined(lp.Schedule((x @ (lp.cast(w, "bfloat16") * scale).T).named("y")))
        s = computed(s, next(q for q in s.stages if s.reduced(q))) or s
        made = s.stages[0]
        s, stage = alone(s, next(q for q in s.stages if s.reduced(q)))
        options: dict[str, Any] = {"block": (16 if m <= 16 else 32, 32), "warps": (1, 4), "depth": 64, "stages": 3}
        options |= {"within": (made,), "near": True}
        if parts > 1:
            s = matmul_split(s, stage, parts=parts, warpgroups=False, **options)
        else:
            s = matmul_mma(s, stage, **options)
        (lowered,) = lp.lower(s, "cuda")
    a, b, c = _numbers((m, k), "bfloat16", 1), _numbers((n, k), "int8", 2), _numbers((n, 1), "bfloat16", 3)
    wanted = a.astype(np.float64) @ (b.astype(np.float64) * c.astype(np.float64)).T
    np.testing.assert_array_equal(interpret(lowered, {"x": a, "w": b, "scale": c})["y"], wanted.astype(a.dtype))


@pytest.mark.parametrize("kind", ["int8", "float8_e4m3fn"])
@pytest.mark.parametrize(("m", "k", "n"), [(66, 141, 72), (64, 257, 65)])
def test_rows_that_are_no_whole_vectors_are_filled_up_in_copies(kind: str, m: int, k: int, n: int) -> None:
    """Boxes copy what is filled up, where every element was loaded by itself: both copies are one launch."""
    x, y, z = (lp.placeholder(shape, t, name=v) for v, shape, t in zip(
        "xyz", ((m, k), (n, k), (n,)), (kind, kind, "float32"), strict=True))  # fmt: skip
    wide = "int32" if kind == "int8" else "float32"
    with lp.scheduling_for(lp.machine("sm_90a")):
        s = inlined(lp.Schedule((lp.cast(lp.cast(x, wide) @ lp.cast(y, wide).T, "float32") * z).named("o")))
        s = _in_whole_rows(s, next(q for q in s.stages if s.reduced(q)), _along_rows)
        (lowered,) = lp.lower(s, "cuda")
    assert len(s.report(arch="sm_90a").kernels) == 2
    assert "tma_load" in lp.text(s.func)
    a, b, c = _numbers((m, k), kind, 1), _numbers((n, k), kind, 2), np.arange(n, dtype=np.float32)
    found = interpret(lowered, {"x": a, "y": b, "z": c})["o"]
    np.testing.assert_array_equal(found, a.astype(np.float64) @ b.astype(np.float64).T * c)
