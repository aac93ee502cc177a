"""rooms: what a kernel allocates has a size that is known when it is compiled, or it is refused here.

Whoever asks whether a schedule can be run asks lowering, so it is told before anything is emitted.
"""

from __future__ import annotations

from loopir.errors import LowerError
from loopir.ir.grammar import Alloc, Func, Int, Kernel
from loopir.ir.walk import statements
from loopir.lower.target import Target


def rooms(func: Func, target: Target) -> Func:
    """`func` as it is. Raises LowerError for memory in a kernel whose size is no constant."""
    for kernel in (s for s in statements(func.body) if isinstance(s, Kernel)):
        for s in statements(kernel.body):
            if isinstance(s, Alloc) and not all(isinstance(d, Int) for d in s.buffer.shape):
                raise LowerError(f"{s.buffer.name} is allocated in a kernel, so its size has to be a constant")
    return func
