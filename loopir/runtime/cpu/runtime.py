"""What a program for the CPU needs while it runs: its kernels as functions, memory, and the threads of a pool."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from loopir.runtime.arrays import Bound, Signature
from loopir.runtime.cpu.arena import Arena
from loopir.runtime.cpu.direct_call import Entries, direct
from loopir.runtime.cpu.thread_pool import Pool, native
from loopir.runtime.llvm_jit import Library

NO_MEMORY = "a kernel's intermediate does not fit in memory; the outputs are not complete"
WORD, ADDRESS, CODE = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32


class CpuRuntime:
    """Runs kernels on this machine: what the host function of a program calls.

    A kernel is its name, how many integers and how many addresses it takes, and whether it is one of a range.
    """

    device = "cpu"
    mark = staticmethod(perf_counter)

    def __init__(self, library: Library, kernels: Sequence[tuple[str, int, int, bool]], pool: Pool) -> None:
        self.library, self.pool = library, pool
        self.names = [name for name, *_ in kernels]
        self.addresses = [library.address(name) for name, *_ in kernels]
        self.kernels: list[Any] = []
        self.shared: list[Any] = []
        """By kernel of a range what has the pool's threads run it, given the pool's way to do so and its address."""
        for name, integers, addresses, ranged in kernels:
            args = [WORD] * integers + [ADDRESS] * addresses
            self.kernels.append(library.bind(name, CODE, *args, *([WORD, WORD] if ranged else [])))
            both = ranged and pool.count > 1
            self.shared.append(library.bind(f"{name}.shared", CODE, ADDRESS, ADDRESS, *args, WORD) if both else None)
        self._arena = Arena()
        self.alloc, self.free = self._arena.alloc, self._arena.free

    @contextmanager
    def lent(self, words: np.ndarray[Any, Any]) -> Iterator[int]:
        """Where `words` lies; what a program writes there is read when the block ends."""
        yield words.ctypes.data

    def direct(self, signature: Signature, bound: Bound, host: Callable[..., None]) -> Callable[..., int] | None:
        """What runs calls like `bound` the shortest way; None if there is none."""
        shared = self._shared_at if self.pool.count > 1 else None
        return direct(signature, bound, host, Entries(self.addresses, shared, self.pool.living), self._arena)

    def _shared_at(self, n: int) -> tuple[int, int, int]:
        """Where what has the pool's threads run kernel `n` is, and what it takes first."""
        pool = self.pool.ready()
        return self.library.address(f"{self.names[n]}.shared"), native().run_at, pool

    def moments(self, marks: Sequence[float]) -> Sequence[float]:
        """The seconds of each mark."""
        return marks

    def call(self, n: int, args: tuple[int, ...]) -> None:
        """Run kernel `n`."""
        if self.kernels[n](*args):
            raise MemoryError(NO_MEMORY)

    def parallel(self, n: int, extent: int, args: tuple[int, ...]) -> None:
        """Run kernel `n` over 0 .. extent-1 on the threads of the pool."""
        if extent <= 1 or self.pool.count == 1:
            failed = extent > 0 and self.kernels[n](*args, 0, extent)
        else:
            failed = self.shared[n](native().run_at, self.pool.ready(), *args, extent)
        if failed:
            raise MemoryError(NO_MEMORY)
