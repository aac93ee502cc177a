"""Check that allocations in a kernel have constant sizes, and that shared memory fits into a block.

It is checked in lowering, so that a schedule which cannot run is refused before any code is emitted.
"""

from __future__ import annotations

from loopir.errors import TargetError
from loopir.ir.grammar import Alloc, Func, Kernel
from loopir.ir.layout.shared_memory import bytes_of, elements_of, shared_layout
from loopir.ir.traverse.walk import statements
from loopir.lower.target import Target


def check_static_allocs(func: Func, target: Target) -> Func:
    """`func`, unchanged. Raises LowerError for an allocation in a kernel whose size is not constant, TargetError for
    more shared memory than a block can have."""
    for kernel in (s for s in statements(func.body) if isinstance(s, Kernel)):
        allocated = [s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)]
        for b in allocated:
            elements_of(b)  # which is refused where it is no constant
        _, total = shared_layout(kernel)
        if total > target.shared_bytes:
            names = ", ".join(f"{b.name} {bytes_of(b)}" for b in allocated if b.scope == "shared")
            most = target.shared_bytes
            raise TargetError(f"a block would take {total} bytes of shared memory ({names}), and there are {most}")
    return func
