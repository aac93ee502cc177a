"""Each fused kernel moves what it has to and no more, counted with no GPU.

The rows are those that `benchmarks/gpu_memory.py` measures. Bytes of their arguments are counted at their sizes by the
cost formulas, and at small odd sizes, whose tails have guards, access by access as the interpreter runs all threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

import memory_rows
import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import trace_accesses
from loopir.ir.grammar import Func

ROWS = {row.name: row for row in memory_rows.rows()}
LARGEST = {name: row for name, row in ROWS.items() if row.aligned and row.kernel != "jacobi"}
"""Rows whose loops have no tails, and whose elements have one reader."""
PARTS = 0.02
"""Of the bytes that have to move: what the parts of sums are that one kernel leaves to the next."""


@pytest.mark.parametrize("kernel", dict.fromkeys(row.kernel for row in LARGEST.values()))
def test_arguments_are_moved_once(kernel: str) -> None:
    for row in (r for r in LARGEST.values() if r.kernel == kernel):
        s = schedules.gpu(row.ours())
        moved, arrays = s.cost.by_buffer, {a.buffer.name: a.buffer for a in s.func.args}
        once = {n: prod(row.result if a.access == "out" else row.shapes[int(n[1:])]) for n, a in _args(s).items()}
        rows = prod(row.shapes[0][:-1])
        for name, b in arrays.items():
            shared = name != "x0" and len(b.shape) < len(row.shapes[0]) and _args(s)[name].access == "in"
            # what all rows share is read in each, from the cache: a vector, beside a matrix
            assert moved[name] == once[name] * b.dtype.bytes * (rows if shared else 1), (row.name, name)
        between = sum(n for b, n in moved.items() if b not in arrays and s.buffer(b).scope == "global")
        assert between <= PARTS * row.bytes, row.name


def _args(s: lp.Schedule) -> dict[str, Any]:
    return {a.buffer.name: a for a in s.func.args}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_bytes_of_a_row_are_those_of_its_arguments(name: str) -> None:
    """A stencil reads its border, too, which is 0.05 % more."""
    row = ROWS[name]
    assert row.bytes == pytest.approx(float(row.ours().cost.compulsory), rel=6e-4)


SMALL = {"64M": (2077,), "8191x5003": (9, 333), "8192x8192": (9, 256)}


@pytest.mark.parametrize("kernel", dict.fromkeys(row.kernel for row in ROWS.values()))
def test_every_element_is_touched_once_at_odd_sizes(kernel: str) -> None:
    """By one thread, also where loops end inside a vector."""
    for title in SMALL:
        row = next((r for r in ROWS.values() if (r.kernel, r.title, r.dtype) == (kernel, title, "bfloat16")), None)
        if row is not None:
            _touched_once(_small(row, SMALL[title]))


def _small(row: memory_rows.Row, shape: tuple[int, ...]) -> memory_rows.Row:
    return replace(row, shapes=(shape, *((shape[-1:]) for _ in row.shapes[1:])))


def _touched_once(row: memory_rows.Row) -> None:
    s = schedules.gpu(row.ours())
    (func,) = lp.lower(s, "cuda")
    seen: Counter[tuple[str, int, bool]] = Counter()

    def note(memory: object, cell: int, write: bool, here: object) -> None:
        seen[getattr(memory, "name", ""), cell, write] += 1

    trace_accesses(func, _drawn(func), {}, note)
    args = {a.buffer.name: a for a in func.args}
    sizes = {n: prod(getattr(d, "value", 0) for d in a.buffer.shape) for n, a in args.items()}
    for name, a in args.items():
        counts = {
            cell: n for (buffer, cell, write), n in seen.items() if buffer == name and write == (a.access != "in")
        }
        assert len(counts) == sizes[name], (row.name, name)
        if name == "x0" or a.access != "in":
            assert set(counts.values()) <= {1}, (row.name, name)


def _drawn(func: Func) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    wanted = [a.buffer for a in func.args if a.access == "in"]
    shapes = {b.name: [getattr(d, "value", 0) for d in b.shape] for b in wanted}
    return {b.name: rng.integers(0, 4, shapes[b.name]).astype(b.dtype.numpy) for b in wanted}
