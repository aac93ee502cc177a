"""Chains of few rows in parts of their columns, as decoding is: right in the interpreter, two kernels, K read once."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.errors import InterpretError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Func, Kernel, Stmt
from loopir.ir.traverse.walk import replace, rewrite, statements
from schedules.cuda.chains_in_parts import chain_in_parts

F32 = "float32"


def decoding(
    heads: int,
    group: int,
    rows: int,
    keys: Any,
    depth: int,
    *,
    page: int = 0,
    masked: bool = False,
    dtype: str = "bfloat16",
) -> lp.Schedule:
    """softmax(Q K^T) V, where `group` heads read the same keys; of pages that a table lists; masked by a length."""
    q = lp.placeholder((heads, rows, depth), dtype, name="Q")
    stored = (keys // page, page, heads // group, depth) if page else (heads // group, keys, depth)
    k, v = (lp.placeholder(stored, dtype, name=x) for x in "KV")
    e, j = lp.reduce_axis(depth, name="e"), lp.reduce_axis(keys, name="j")
    table = lp.placeholder((keys // page,), "int32", name="table") if page else None
    length = lp.placeholder((heads,), "int32", name="length") if masked else None

    def at(x: Any, h: Any, y: Any, e: Any) -> Any:
        return x[h // group, y, e] if table is None else x[table[y // page], y % page, h // group, e]

    s = lp.compute(
        (heads, rows, keys), lambda h, x, y: lp.sum(q[h, x, e].astype(F32) * at(k, h, y, e).astype(F32), axis=e)
    )
    if length is not None:
        raw = s
        s = lp.compute((heads, rows, keys), lambda h, x, y: lp.where(y < length[h], raw[h, x, y], -math.inf), name="X")
    p = lp.softmax(s * depth**-0.5)
    o = lp.compute(
        (heads, rows, depth),
        lambda h, x, c: lp.sum(p[h, x, j].astype(dtype).astype(F32) * at(v, h, j, c).astype(F32), axis=j),
    )
    return lp.Schedule(lp.compute((heads, rows, depth), lambda *i: o[i].astype(dtype), name="out"))


def data(heads: int, group: int, rows: int, keys: int, depth: int, dtype: Any = ml_dtypes.bfloat16) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = (heads, rows, depth), *[(heads // group, keys, depth)] * 2
    return [rng.standard_normal(x).astype(dtype) for x in shapes]


def wanted(q: Any, k: Any, v: Any, lengths: Any = None) -> Any:
    group = len(q) // len(k)
    q, k, v = q.astype(float), *(np.repeat(x.astype(float), group, 0) for x in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if lengths is not None:
        s = np.where(np.arange(k.shape[1]) < np.reshape(lengths, (-1, 1, 1)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def in_parts(s: lp.Schedule, **how: Any) -> Func:
    with lp.scheduling_for(lp.machine("sm_90a")):
        return lp.lower(chain_in_parts(s, **how), "cuda")[0]


def off(func: Func, some: list[Any], want: Any) -> float:
    return float(np.abs(interpret(func, some)["out"].astype(np.float64) - want).max())


@pytest.mark.parametrize(("heads", "group", "rows", "keys"), [(2, 2, 1, 64), (1, 1, 3, 75)])
def test_on_tensor_cores(heads: int, group: int, rows: int, keys: int) -> None:
    """Heads that share keys are rows of one product; the last part is shorter, and no whole block."""
    func = in_parts(decoding(heads, group, rows, keys, 16), part=32, keys=16)
    some = data(heads, group, rows, keys, 16)
    assert off(func, some, wanted(*some)) < 0.02


def test_pages_on_tensor_cores() -> None:
    """Rows of pages that heads share are copied to tiles in the order of the table, several pages for a block."""
    func = in_parts(decoding(2, 2, 1, 64, 16, page=8), part=32, keys=16)
    q, k, v = data(2, 2, 1, 64, 16)
    table = np.random.default_rng(0).permutation(8).astype(np.int32)
    stored = [np.empty((8, 8, 1, 16), ml_dtypes.bfloat16) for _ in "KV"]
    for pages, x in zip(stored, (k, v), strict=True):
        pages[table] = x.reshape(8, 8, 1, 16)
    given = {"Q": q, "K": stored[0], "V": stored[1], "table": table}
    assert off(func, [given[a.buffer.name] for a in func.args if a.access != "out"], wanted(q, k, v)) < 0.02


def test_copies_that_are_not_waited_for_are_found() -> None:
    def edit(s: Stmt) -> Stmt | None:
        return replace(s, pending=s.pending + 1) if isinstance(s, AsyncWait) else None

    func = in_parts(decoding(2, 2, 1, 64, 16), part=32, keys=16)
    some = data(2, 2, 1, 64, 16)
    with pytest.raises(InterpretError):
        off(replace(func, body=rewrite(func.body, edit)), some, wanted(*some))


def test_any_length_at_run_time() -> None:
    func = in_parts(decoding(2, 2, 2, lp.symbol("m"), 16), keys=16)
    some = data(2, 2, 2, 17, 16)
    assert off(func, some, wanted(*some)) < 0.02


@pytest.mark.parametrize(("group", "keys", "dtype"), [(8, 4096, "bfloat16"), (1, 4000, "float32")])
def test_two_kernels_read_what_is_there_once(group: int, keys: int, dtype: str) -> None:
    heads, rows, depth = 8, 1, 64
    program = decoding(heads, group, rows, keys, depth, dtype=dtype)
    s = schedules.auto(program, "cuda", arch="sm_90a") if group == 1 else schedules.gpu(program, arch="sm_90a")
    assert len([x for x in statements(lp.lower(s, "cuda")[0].body) if isinstance(x, Kernel)]) == 2
    size = {"bfloat16": 2, "float32": 4}[dtype]
    assert lp.predict(s, "cuda", arch="sm_90a").bytes < 1.2 * size * 2 * (heads // group) * keys * depth
    for used in lp.compile_source(s, "sm_90a").resources.values():
        assert (used.spill_stores, used.spill_loads) == (0, 0)


def test_what_has_no_parts_is_refused() -> None:
    for s, reason in (
        (decoding(2, 1, 1, 32, 16), "columns are no two parts"),
        (decoding(2, 1, 80, 512, 16), "rows of the chain are not few"),
    ):
        with pytest.raises(lp.ScheduleError, match=reason):
            in_parts(s, part=64)
