"""Lay out a kernel's shared memory: buffers one after the other; those that no block uses together overlap.

Where two nests were merged into one grid, the block's number alone decides which of them it runs, so their buffers
begin at the same byte.
"""

from __future__ import annotations

from loopir.errors import LowerError
from loopir.ir.grammar import BLOCK_AXES, Alloc, Body, Buffer, If, InstrCall, Int, Kernel, Loop
from loopir.ir.traverse.walk import bodies, free_vars, statements

ALIGNMENT, MATRIX_ALIGNMENT = 16, 1024


def shared_layout(kernel: Kernel) -> tuple[dict[str, int], int]:
    """The offset of each shared buffer, aligned to 16 bytes, or as a matrix, and the bytes they take together."""
    offsets: dict[str, int] = {}
    bound = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in BLOCK_AXES]
    together = any(s.kind == "cluster" for s in bound)  # these write to one another's memory
    blocks = set[str]() if together else {s.var for s in bound}
    in_pieces = matrices(kernel)

    def placed(body: Body, end: int) -> int:
        for s in body:
            if isinstance(s, Alloc) and s.buffer.scope == "shared":
                end += -end % (MATRIX_ALIGNMENT if s.buffer.name in in_pieces else ALIGNMENT)
                offsets[s.buffer.name] = end
                end += bytes_of(s.buffer)
            if isinstance(s, If) and (asked := free_vars(s.cond)) and asked <= blocks:
                end = max(placed(s.then, end), placed(s.orelse, end))
            else:
                for inner in bodies(s):
                    end = placed(inner, end)
        return end

    return offsets, placed(kernel.body, 0)


def matrices(kernel: Kernel) -> set[str]:
    """The buffers used by matrix descriptors or TMA boxes; their swizzles need an alignment of 1,024 bytes."""
    issued = [s for s in statements(kernel.body) if isinstance(s, InstrCall)]
    pairs = [(s, a, x) for s in issued for a, x in zip(s.fn.meaning.args, s.operands, strict=True)]
    operands = ((s, x, a.buffer.name) for s, a, x in pairs)
    return {x.buffer.name for s, x, n in operands if n in dict(s.words) or (s.fn.boxed and n == s.fn.boxed[1])}


def elements_of(b: Buffer) -> int:
    """How many elements memory in a kernel has: at least one."""
    total = 1
    for d in b.shape:
        if not isinstance(d, Int):
            raise LowerError(f"{b.name} is allocated in a kernel, so its size has to be a constant")
        total *= d.value
    return max(1, total)


def bytes_of(b: Buffer) -> int:
    return elements_of(b) * b.dtype.bytes
