"""Bank conflicts of shared memory, counted from addresses: what a layout is for, seen without a GPU.

How the banks serve a warp is said in `loopir.analysis.cost.transactions`. Here warps are sampled and nothing is run,
so that kernels of any size are counted; `memory_report` runs all threads of a small call, and names those that clash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loopir.analysis.cost.transactions import BANK_WORD, words_per_bank
from loopir.ir.grammar import (
    LANES,
    LAUNCH_AXES,
    Body,
    Buffer,
    Func,
    If,
    Index,
    InstrCall,
    Int,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
)
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.walk import child_stmts, free_vars, loops, nodes

SIZE = 64
"""What a symbolic size is taken for."""
Key = tuple[str, str]
"""What makes an access, a label or an instruction, and the buffer in shared memory."""


def bank_conflicts(lowered: Func, *, samples: int = 16, seed: int = 0) -> dict[Key, float]:
    """By statement or instruction and buffer in shared memory, the turns a part of a warp takes: 1.0 without conflicts.

    `lowered` is what `lp.lower(s, "cuda")` gives. Warps and iterations are sampled, and guards taken to hold. Buffers
    are taken to start at a multiple of 128 bytes.
    """
    rng = np.random.default_rng(seed)
    counted: dict[Key, list[int]] = {}
    for kernel in _kernels(lowered.body):
        for _ in range(samples):
            for key, turns, parts in _Warp(kernel, rng).accesses():
                total = counted.setdefault(key, [0, 0])
                total[0] += turns
                total[1] += parts
    return {key: turns / parts for key, (turns, parts) in counted.items()}


def _kernels(body: Body) -> Iterator[Kernel]:
    for s in body:
        if isinstance(s, Kernel):
            yield s
        else:
            yield from _kernels(tuple(child_stmts(s)))


class _Warp:
    """A warp of a kernel in some iteration of each loop: by variable a number, or one for each lane."""

    def __init__(self, kernel: Kernel, rng: Any) -> None:
        self.kernel, self.rng = kernel, rng
        self.env: dict[str, Any] = {}
        dims = {
            s.kind: s.extent.value for s in loops(kernel.body) if s.kind in LAUNCH_AXES and isinstance(s.extent, Int)
        }
        x, y, z = (dims.get(axis, 1) for axis in LAUNCH_AXES)
        first = int(rng.integers(0, max(1, x * y * z // LANES))) * LANES
        thread = np.minimum(first + np.arange(LANES), x * y * z - 1)
        self.threads = {"threadIdx.x": thread % x, "threadIdx.y": thread // x % y, "threadIdx.z": thread // (x * y)}

    def accesses(self) -> Iterator[tuple[Key, int, int]]:
        """Each access of the warp, with the turns and the parts that it takes."""
        return self._visit(self.kernel.body)

    def _visit(self, body: Body) -> Iterator[tuple[Key, int, int]]:
        for s in body:
            if isinstance(s, Loop):
                self.env[s.var] = self.threads[s.kind] if s.kind in LAUNCH_AXES else self._iteration(s.extent)
                lanes = s.extent.value if s.kind == "vectorize" and isinstance(s.extent, Int) else 1
                if lanes > 1 and all(isinstance(x, Store) for x in s.body):
                    self.env[s.var] = 0
                    for x in s.body:
                        yield from self._touched(x, lanes)
                else:
                    yield from self._visit(s.body)
            elif isinstance(s, If):
                yield from self._visit(s.then)
            elif isinstance(s, Store | InstrCall):
                yield from self._touched(s, 1)
            else:
                yield from self._visit(tuple(child_stmts(s)))

    def _iteration(self, extent: Index) -> int:
        return int(self.rng.integers(0, max(1, int(np.max(self._value(extent))))))

    def _touched(self, s: Stmt, lanes: int) -> Iterator[tuple[Key, int, int]]:
        if isinstance(s, InstrCall):
            for a, operand in zip(s.fn.meaning.args, s.operands, strict=True):
                aim = s.fn.pointers.get(a.buffer.name)
                yield from self._access(s.fn.name, operand.buffer, operand.at, 1 if aim is None else aim.run)
        elif isinstance(s, Store):
            yield from self._access(s.label, s.buffer, s.at, lanes)
            for n in nodes(s.value):
                if isinstance(n, Load):
                    yield from self._access(s.label, n.buffer, n.at, lanes)

    def _access(self, by: str, b: Buffer, at: tuple[Index, ...], count: int) -> Iterator[tuple[Key, int, int]]:
        if b.scope != "shared":
            return
        size = count * b.dtype.bytes
        start = np.broadcast_to(self._value(at[0]), LANES) * b.dtype.bytes
        words = start[:, None] // BANK_WORD + np.arange(max(1, size // BANK_WORD))
        turns = words_per_bank(np.arange(LANES).repeat(words.shape[1]), words.ravel(), size).max(axis=1)
        yield (by, b.name), int(turns.sum()), len(turns)

    def _value(self, ix: Index) -> Any:
        return evaluate(ix, {v: self.env.get(v, SIZE) for v in free_vars(ix)})
