"""What a kernel takes: the names that its body uses and does not make."""

from __future__ import annotations

from dataclasses import dataclass

from loopir.ir.grammar import Alloc, Buffer, Func, Issue, Kernel, Loop, Reduce, Store, Var
from loopir.ir.walk import nodes, statements


@dataclass(frozen=True, slots=True)
class Params:
    """A kernel's parameters in order: integers (sizes and the host's loop variables), then buffers."""

    integers: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    written: frozenset[str]

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
    written = {b.name for s in inner if isinstance(s, Store | Reduce | Issue) for b in _targets(s)}
    return Params(tuple(integers), tuple(buffers.values()), frozenset(written))


def _targets(s: Store | Reduce | Issue) -> tuple[Buffer, ...]:
    if isinstance(s, Issue):
        pairs = zip(s.fn.meaning.args, s.operands, strict=True)
        return tuple(x.buffer for a, x in pairs if a.access != "in")
    return (s.buffer,) if isinstance(s, Store) else s.buffers


def kernels_of(func: Func) -> tuple[Kernel, ...]:
    """The kernels of a lowered Func, in the order of its text."""
    return tuple(s for s in statements(func.body) if isinstance(s, Kernel))
