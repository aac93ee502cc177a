"""Products of a warpgroup whose left operand is made in registers: a prologue of several kinds, and what comes out."""

# ruff: noqa: E501  (nests as they are printed)

from __future__ import annotations

from typing import Any

import ml_dtypes as ml_dtypes  # numpy knows its types by name from here on
import numpy as np

import loopir as lp

NEST = """
def f(A: "{source}[64, 128]", B: "{t}[16, 128]", C: "out {sums}[64, 16]"):
    for block in bind("blockIdx.x", 1):
        with alloc("{sums}[64, 16]", scope="fragment") as acc:
            for ko in range(2):
                with alloc("{source}[64, 64]", scope="shared", layout=strided(80, 1)) as As, alloc("{t}[16, 64]", scope="shared", layout={layout}) as Bs, alloc("{t}[64, 64]", scope="fragment") as left:
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            for v in range(32):
                                As[w * 16 + l // 2, l % 2 * 32 + v] = A[w * 16 + l // 2, ko * 64 + l % 2 * 32 + v]
                    for w1 in bind("warp.x", 4):
                        for l1 in bind("lane", 32):
                            for v1 in range(8):
                                Bs[w1 * 4 + l1 // 8, l1 % 8 * 8 + v1] = B[w1 * 4 + l1 // 8, ko * 64 + l1 % 8 * 8 + v1]
                    for ia in range(64):
                        for ka in range(64):
                            left[ia, ka] = {made}
                    for ki in unroll({steps}):
                        for i in range(64):
                            for j in range(16):
                                for k in range({depth}):
                                    acc[i, j] = sum({sums}(left[i, ki * {depth} + k]) * {sums}(Bs[j, ki * {depth} + k]), over=(ko, ki, k), init=0)
            for ie in range(64):
                for je in range(16):
                    C[ie, je] = acc[ie, je]
"""
KINDS = {
    "bf16": {"t": "bfloat16", "source": "int8", "sums": "float32", "made": "bfloat16(As[ia, ka]) * 2.0"},
    "f16": {"t": "float16", "source": "float16", "sums": "float32", "made": "maximum(As[ia, ka], 0.0)"},
    "s8": {"t": "int8", "source": "int8", "sums": "int32", "made": "maximum(As[ia, ka], 0)"},
    "e4m3": {"t": "float8_e4m3fn", "source": "bfloat16", "sums": "float32", "made": "float8_e4m3fn(As[ia, ka])"},
}


def product(short: str = "bf16") -> lp.Schedule:
    how = KINDS[short]
    size = lp.ir.dtypes.BY_NAME[how["t"]].bytes
    core = 16 // size
    layout = f"mapped(lambda i, k: i // 8 * 512 + k // {core} * {8 * core} + i % 8 * {core} + k % {core})"
    depth = 32 // size
    s = lp.Schedule(
        lp.parse(
            NEST.format(**how, layout=layout, depth=depth, steps=64 // depth).replace(
                "init=0)", "init=0)" if short == "s8" else "init=0.0)"
            )
        )
    )
    return s.tensorize("i", f"wgmma_m64n16k{depth}_{short}_ar_bt")


def given(short: str) -> tuple[Any, Any]:
    rng, how = np.random.default_rng(1), KINDS[short]
    return tuple(rng.integers(-4, 5, (n, 128)).astype(how[t]) for n, t in ((64, "source"), (16, "t")))


def wanted(short: str, a: Any, b: Any) -> Any:
    a, b = a.astype(np.float32), b.astype(np.float32)
    return {"bf16": a * 2, "e4m3": a}.get(short, np.maximum(a, 0)) @ b.T
