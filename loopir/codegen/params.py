"""The parameters of a kernel: the free names of its body."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from loopir.ir.grammar import (
    Alloc,
    AsyncWait,
    Barrier,
    Buffer,
    Func,
    InstrCall,
    Kernel,
    Loop,
    MBarrierWait,
    Reduce,
    Store,
    Turn,
    Var,
)
from loopir.ir.traverse.walk import nodes, statements


@dataclass(frozen=True, slots=True)
class Params:
    """A kernel's parameters in order: integers (sizes and the host's loop variables), then buffers."""

    integers: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    written: frozenset[str]
    handed: frozenset[str]
    """Those that one thread may write and another read or write when they have met: to a compiler that takes their
    memory for one pointer's alone (`__restrict__`), no barrier keeps a read after it from being done before it."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.integers, *(b.name for b in self.buffers))


def params_of(kernel: Kernel) -> Params:
    """The free names of `kernel`."""
    inner = list(statements(kernel.body))
    own = {s.var for s in inner if isinstance(s, Loop)}
    allocated = {s.buffer.name for s in inner if isinstance(s, Alloc)}
    integers: dict[str, None] = {}
    buffers: dict[str, Buffer] = {}
    for n in nodes(kernel):
        if isinstance(n, Var) and n.name not in own:
            integers[n.name] = None
        elif isinstance(n, Buffer) and n.name not in allocated:
            buffers[n.name] = n
    for s in inner:
        if isinstance(s, Alloc):
            integers |= {n.name: None for d in s.buffer.shape for n in nodes(d) if isinstance(n, Var)}
    written = {b.name for s in inner if isinstance(s, Store | Reduce | InstrCall) for b in _targets(s)}
    return Params(tuple(integers), tuple(buffers.values()), frozenset(written), _handed(kernel, written))


def _handed(kernel: Kernel, written: set[str]) -> frozenset[str]:
    """Of the buffers `written`, those that are touched twice where threads meet."""
    inner = list(statements(kernel.body))
    if not any(isinstance(s, Barrier | AsyncWait | MBarrierWait | Turn) for s in inner):
        return frozenset()
    touched = Counter(n.name for n in nodes(kernel) if isinstance(n, Buffer))
    touched.update(b.name for s in inner if isinstance(s, Reduce) for b in s.buffers)  # which is read, too
    return frozenset(b for b in written if touched[b] > 1)


def _targets(s: Store | Reduce | InstrCall) -> tuple[Buffer, ...]:
    if isinstance(s, InstrCall):
        pairs = zip(s.fn.meaning.args, s.operands, strict=True)
        return tuple(x.buffer for a, x in pairs if a.access != "in")
    return s.buffers


def kernels_of(func: Func) -> tuple[Kernel, ...]:
    """The kernels of a lowered Func, in the order of its text."""
    return tuple(s for s in statements(func.body) if isinstance(s, Kernel))
