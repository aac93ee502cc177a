"""Map custom memories to their backing scope; check capacity.

A memory made of registers stays as it is where instructions access it; nothing else may access it then.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from loopir.errors import LowerError, TargetError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, InstrRegion, Int, Stmt
from loopir.ir.ops import MEMORIES
from loopir.ir.traverse.walk import bodies, leaf_paths, nodes, replace_buffers, statements
from loopir.lower.target import Target


def map_memories(func: Func, target: Target) -> Func:
    """`func` with its buffers in the built-in scopes. Raises TargetError where a memory's capacity is exceeded."""
    own = [s.buffer for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.scope in MEMORIES]
    if not own:
        return func
    for name in {b.scope: None for b in own}:
        _require_room(name, func.body, 0, ())
    held = _instruction_buffers(func.body, {b.name for b in own if MEMORIES[b.scope].unit})
    return replace_buffers(func, {b.name: replace(b, scope=MEMORIES[b.scope].like) for b in own if b.name not in held})


def _instruction_buffers(body: Body, registers: set[str]) -> set[str]:
    """The buffers of `registers` that instructions touch. Raises LowerError where something else does, too."""
    done = {b for s in statements(body) if isinstance(s, InstrRegion) for b in _touched(s)} & registers
    for p in leaf_paths(body):
        odd = _touched(p.stmt) & done
        if odd and not any(isinstance(s, InstrRegion) for s in p.around):
            name = min(odd)
            reason = f"{p.stmt.label} touches {name}, which is in registers that instructions alone touch"
            raise LowerError(f"{reason}; tensorize it as well")
    return done


def _touched(s: Stmt) -> set[str]:
    return {b.name for b in nodes(s) if isinstance(b, Buffer)}


def _require_room(name: str, body: Body, taken: int, held: tuple[str, ...]) -> None:
    """Refuse if allocations one inside the other take more than there is, `taken` bytes by those around."""
    for s in body:
        total, names = taken, held
        if isinstance(s, Alloc) and s.buffer.scope == name:
            total, names = taken + _bytes(s.buffer), (*held, s.buffer.name)
            if total > MEMORIES[name].capacity:
                raise TargetError(
                    f"{', '.join(names)} take {total} bytes of {name} at once, and it holds {MEMORIES[name].capacity}"
                )
        for inner in bodies(s):
            _require_room(name, inner, total, names)


def _bytes(b: Buffer) -> int:
    sizes = [d.value for d in b.shape if isinstance(d, Int)]
    if len(sizes) != len(b.shape):
        raise TargetError(f"{b.name} is in {b.scope}, so its size has to be a constant")
    return prod(sizes) * b.dtype.bytes
