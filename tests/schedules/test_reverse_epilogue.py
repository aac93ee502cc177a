"""What follows a product, computed where a tile of its sums is done: by `reverse_compute_at`, in their registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import loopir as lp
from loopir.interp.interpret import interpret

SWIZZLE = "lambda x, y: x * 64 + (y // 8 % 8 ^ x % 8) * 8 + y % 8"


def test_an_epilogue_goes_where_the_sums_are() -> None:
    a, b = lp.placeholder((64, 128), "bfloat16", name="A"), lp.placeholder((32, 128), "bfloat16", name="B")
    s = lp.Schedule(lp.relu(a @ b.T + lp.placeholder((32,), "bfloat16", name="bias")))
    i, j, k = s.loops("matmul")
    s = s.split(i, 64, names=("io", "ii")).split(j, 16, names=("jo", "ji")).split(k, 64, names=("ko", "kk"))
    s = s.split("kk", 16, names=("ki", "kk")).reorder("io", "jo", "ko", "ki", "ii", "ji", "kk")
    s = s.fuse("io", "jo", name="tile").bind("tile", "blockIdx.x")
    s = s.reverse_compute_at("out", "tile").set_scope("matmul", "fragment")
    for operand, rows in (("A", 64), ("B", 16)):
        s = s.cache_read("matmul", operand, "shared", at="ko").set_layout(f"{operand}_shared", SWIZZLE)
        s = s.tensorize(s.loops(f"{operand}_shared")[-2], f"tma_load_{rows}x64_bf16")
    s = s.tensorize("ii", "wgmma_m64n16k16_bf16_bt").unroll("ki").pipeline("ko", stages=2)
    assert s.loops("out")[0] == s.loops("matmul")[0] == "tile"
    assert "wgmma_m64n16k16_bf16_bt" in lp.text(s.func)
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-2, 3, n).astype(ml_dtypes.bfloat16) for n in ((64, 128), (32, 128), (32,)))
    found = interpret(lp.lower(s, "cuda")[0], (x, y, z))["out"]
    want = np.maximum((x.astype(float) @ y.astype(float).T).astype(ml_dtypes.bfloat16) + z, 0)
    assert np.array_equal(found.astype(float), want.astype(float))
    (used,) = lp.compile_source(s, "sm_90a").resources.values()
    assert used.spill_stores == used.stack == 0
