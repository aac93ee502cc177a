"""Bank conflicts of shared memory, counted from addresses: what a layout is for, seen without a GPU.

Shared memory has 32 banks of 4 bytes. A warp's access is done in phases, each of as many lanes as make 128 bytes: all
32 at 4 bytes each, 8 at 16 bytes each, as vectors, `ldmatrix` and `cp.async` have them. A phase takes as many turns as
the fullest bank has words to give, where lanes that want the same word share it; one is what it should take (CUDA C++
Programming Guide, "Shared Memory"; PTX ISA, "ldmatrix").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loopir.ir.grammar import Body, Buffer, Func, If, Index, Int, Issue, Kernel, Load, Loop, Stmt, Store
from loopir.ir.layouts import evaluate
from loopir.ir.walk import inside, loops, nodes, variables

BANKS, WORD, PHASE, WARP, SIZE = 32, 4, 128, 32, 64
"""SIZE is what a symbolic size is taken for."""
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
Key = tuple[str, str]
"""What makes an access, a label or an instruction, and the buffer in shared memory."""


def bank_conflicts(lowered: Func, *, samples: int = 16, seed: int = 0) -> dict[Key, float]:
    """By statement or instruction and buffer in shared memory, the turns that a phase takes: 1.0 where none conflict.

    `lowered` is what `lp.lower(s, "cuda")` gives. Warps and iterations are sampled, and guards taken to hold. Buffers
    are taken to start at a multiple of 128 bytes.
    """
    rng = np.random.default_rng(seed)
    counted: dict[Key, list[int]] = {}
    for kernel in _kernels(lowered.body):
        for _ in range(samples):
            for key, turns, phases in _Warp(kernel, rng).accesses():
                total = counted.setdefault(key, [0, 0])
                total[0] += turns
                total[1] += phases
    return {key: turns / phases for key, (turns, phases) in counted.items()}


def _kernels(body: Body) -> Iterator[Kernel]:
    for s in body:
        if isinstance(s, Kernel):
            yield s
        else:
            yield from _kernels(tuple(inside(s)))


class _Warp:
    """A warp of a kernel in some iteration of each loop: by variable a number, or one for each lane."""

    def __init__(self, kernel: Kernel, rng: Any) -> None:
        self.kernel, self.rng = kernel, rng
        self.env: dict[str, Any] = {}
        dims = {s.kind: s.extent.value for s in loops(kernel.body) if s.kind in THREADS and isinstance(s.extent, Int)}
        x, y, z = (dims.get(axis, 1) for axis in THREADS)
        first = int(rng.integers(0, max(1, x * y * z // WARP))) * WARP
        thread = np.minimum(first + np.arange(WARP), x * y * z - 1)
        self.threads = {"threadIdx.x": thread % x, "threadIdx.y": thread // x % y, "threadIdx.z": thread // (x * y)}

    def accesses(self) -> Iterator[tuple[Key, int, int]]:
        """Each access of the warp, with the turns and the phases that it takes."""
        return self._visit(self.kernel.body)

    def _visit(self, body: Body) -> Iterator[tuple[Key, int, int]]:
        for s in body:
            if isinstance(s, Loop):
                self.env[s.var] = self.threads[s.kind] if s.kind in THREADS else self._iteration(s.extent)
                lanes = s.extent.value if s.kind == "vectorize" and isinstance(s.extent, Int) else 1
                if lanes > 1 and all(isinstance(x, Store) for x in s.body):
                    self.env[s.var] = 0
                    for x in s.body:
                        yield from self._touched(x, lanes)
                else:
                    yield from self._visit(s.body)
            elif isinstance(s, If):
                yield from self._visit(s.then)
            elif isinstance(s, Store | Issue):
                yield from self._touched(s, 1)
            else:
                yield from self._visit(tuple(inside(s)))

    def _iteration(self, extent: Index) -> int:
        return int(self.rng.integers(0, max(1, int(np.max(self._value(extent))))))

    def _touched(self, s: Stmt, lanes: int) -> Iterator[tuple[Key, int, int]]:
        if isinstance(s, Issue):
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
        start = np.broadcast_to(self._value(at[0]), WARP) * b.dtype.bytes
        together = min(WARP, max(1, PHASE // max(size, WORD)))
        words = start[:, None] // WORD + np.arange(max(1, size // WORD))
        turns = 0
        for lanes in words.reshape(WARP // together, -1):
            turns += int(np.bincount(np.unique(lanes) % BANKS).max())
        yield (by, b.name), turns, WARP // together

    def _value(self, ix: Index) -> Any:
        return evaluate(ix, {v: self.env.get(v, SIZE) for v in variables(ix)})
