"""Each fused kernel moves what it has to and no more: bytes of its arguments by the cost formulas, with no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import loopir as lp
import schedules

N, M = 4096, 8192
Make = Callable[[lp.Tensor], lp.Tensor]


def wide(x: lp.Tensor) -> Any:
    return lp.cast(x, "float32")


ONCE: dict[str, Make] = {
    "chain": lambda x: lp.relu(lp.sin(wide(x)) * 2.0 + 1.0),
    "transpose": lambda x: wide(x.T),
    "softmax": lambda x: lp.softmax(wide(x)),
    "row sum": lambda x: wide(x).sum(axis=1),
    "column sum": lambda x: wide(x).sum(axis=0),
    "full sum": lambda x: wide(x).sum(),
    "row maximum, scaled": lambda x: wide(x).max(axis=1) * 2.0,
}


@pytest.mark.parametrize("name", sorted(ONCE))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arguments_are_moved_once(name: str, dtype: str) -> None:
    x = lp.placeholder((N, M), dtype, name="x")
    s = schedules.auto(lp.Schedule(ONCE[name](x).astype(dtype).named("y")), "cuda")
    moved = s.cost.by_buffer
    sizes = {a.buffer.name: a.buffer.dtype.bytes for a in s.func.args}
    out = {"softmax": N * M, "chain": N * M, "transpose": N * M, "column sum": M, "full sum": 1}.get(name, N)
    assert moved["x"] == N * M * sizes["x"]
    assert moved["y"] == out * sizes["y"]
    between = sum(n for b, n in moved.items() if b not in sizes and s.buffer(b).scope == "global")
    assert between <= 0.05 * moved["x"], "parts that another kernel folds are few"
