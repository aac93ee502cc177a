"""Fragments stored to shared memory by `stmatrix`: the address of each lane, what waits for it, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Alloc, Barrier, Mapped
from loopir.ir.traverse.walk import replace, replace_buffers, rewrite, statements

NEST = """
def f(A: "{t}[{rows}, 32]", C: "out {t}[{shape}]"):
    for b in bind("blockIdx.x", 1):
        with alloc("{t}[{shape}]", scope="shared", layout={layout}) as T:
            for {group} in bind("{kind}", 1):
                with alloc("{t}[{rows}, 32]", scope="fragment") as F:
                    for i in range({rows}):
                        for j in range(32):
                            F[i, j] = A[i, j] + A[i, j]
                    for p in unroll(2):
                        for r in range({rows}):
                            for c in range(16):
                                T[{at}] = F[r, p * 16 + c]
            for w in bind("warp.x", {warps}):
                for l in bind("lane", 32):
                    for e in range({each}):
                        C[{back}] = T[{back}]
"""


def stored(rows: int = 64, turned: bool = False, t: str = "bfloat16", layout: str = "") -> lp.Schedule:
    warps, wide = rows // 16, rows if turned else 32
    flat = f"(e * {32 * warps} + w * 32 + l)"
    source = NEST.format(
        t=t, rows=rows, warps=warps, shape=f"32, {rows}" if turned else f"{rows}, 32", each=rows * 32 // (32 * warps),
        group="g", kind="warpgroup" if rows == 64 else "warp.x", at="p * 16 + c, r" if turned else "r, p * 16 + c",
        back=f"{flat} // {wide}, {flat} % {wide}",
        layout=layout or f"mapped(lambda x, y: x * {wide} + (y // 8 ^ x % {min(4, wide // 8)}) * 8 + y % 8)",
    )  # fmt: skip
    return lp.Schedule(lp.parse(source))


def name(rows: int, turned: bool, short: str = "bf16") -> str:
    return f"stmatrix_{rows}x16_{short}{'_t' if turned else ''}"


def right(func: Any, rows: int, turned: bool, t: str = "bfloat16") -> bool:
    a = np.random.default_rng(0).integers(-9, 9, (rows, 32)).astype(lp.ir.dtypes.BY_NAME[t].numpy)
    return np.array_equal(interpret(func, [a])["C"], (a.T if turned else a) * 2)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [16, 64])
def test_each_lane_tells_of_a_row(rows: int, turned: bool) -> None:
    s = stored(rows, turned).tensorize("r", name(rows, turned))
    assert right(s.func, rows, turned)
    assert right(lp.lower(s, "cuda")[0], rows, turned)
    compiled = lp.compile_source(s, "sm_90a")
    assert "stmatrix.sync.aligned.m8n8.x4" in compiled.source
    assert not any(x.spill_stores or x.stack for x in compiled.resources.values())


def test_other_threads_wait_for_the_rows() -> None:
    func = lp.lower(stored().tensorize("r", name(64, False)), "cuda")[0]
    assert any(isinstance(s, Barrier) for s in statements(func.body))
    none = replace(func, body=rewrite(func.body, lambda s: () if isinstance(s, Barrier) else None))
    with pytest.raises(lp.InterpretError, match=r"a race|nothing has written"):
        right(none, 64, False)


def test_a_layout_that_parts_16_bytes_is_refused() -> None:
    s = stored(layout="mapped(lambda x, y: x * 32 + (y ^ x % 4))")
    with pytest.raises(lp.ScheduleError, match="8 elements along dimension 1 are not known to lie together"):
        s.tensorize("r", name(64, False))


def test_there_is_one_for_each_type() -> None:
    assert stored(t="float16").why("tensorize", "r", name(64, False)) is not None
    assert stored(t="float16").why("tensorize", "r", name(64, False, "f16")) is None


def test_another_layout_of_the_rows_gives_other_values() -> None:
    """Addresses are worked out from the layout alone: exchanged, they go elsewhere."""
    func = stored().tensorize("r", name(64, False)).func
    (shared,) = (s.buffer for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.scope == "shared")
    assert isinstance(shared.layout, Mapped)
    assert right(replace_buffers(func, {"T": replace(shared, layout=None)}), 64, False)
