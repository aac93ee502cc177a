"""Emit AMX tiles in LLVM IR: allocate tile registers, configure and release them.

A buffer in tile memory takes as many tile registers as it fills, numbered at its allocation; the register that an
instruction uses has to be constant where it is emitted. All eight tiles have the same, full, configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod

from loopir.codegen.llvm.ir_text import I8, VOID, Operand, word
from loopir.codegen.llvm.values import Values
from loopir.errors import LowerError
from loopir.ir.grammar import Alloc, Buffer, InstrCall, Int, Kernel, Load
from loopir.ir.ops import MEMORIES
from loopir.ir.traverse.walk import statements

TILE_ROWS, TILE_ROW_BYTES, TILE_REGISTERS = 16, 64, 8
CONFIG = bytes(
    [1, *[0] * 15, *[TILE_ROW_BYTES, 0] * TILE_REGISTERS, *[0] * 16, *[TILE_ROWS] * TILE_REGISTERS, *[0] * 8]
)
"""Palette 1; by tile the bytes of a row, in two bytes, and its rows (Intel SDM, volume 1, 18.2)."""
SIGNS = {("int", "int"): "ssd", ("int", "uint"): "sud", ("uint", "int"): "usd", ("uint", "uint"): "uud"}


def in_tiles(b: Buffer) -> bool:
    """Whether `b` is in tile registers, which instructions address by number."""
    memory = MEMORIES.get(b.scope)
    return memory is not None and memory.unit > 0


def uses_tiles(kernel: Kernel) -> bool:
    return any(isinstance(s, Alloc) and in_tiles(s.buffer) for s in statements(kernel.body))


def configure(values: Values) -> None:
    """Emit the configuration of all tiles at the builder's position."""
    _call(values, "ldtilecfg", values.b.module.data("tiles.config", CONFIG, 64))


def release(values: Values) -> None:
    """Emit the release of all tiles."""
    _call(values, "tilerelease")


@contextmanager
def allocated(b: Buffer, values: Values) -> Iterator[None]:
    """The tile registers for `b`, from the first free one. Lowering has checked that there are enough."""
    size = prod(d.value for d in b.shape if isinstance(d, Int)) * b.dtype.bytes
    count = -(-size // MEMORIES[b.scope].unit)
    values.tiles[b.name] = sum(n for _, n in values.tiles.values()), count
    yield
    del values.tiles[b.name]


def _register_of(x: Load, values: Values) -> Operand:
    """The register that element `x` is the first of."""
    terms, at = values.indices.sum(x.at[0])
    if terms:
        raise LowerError(
            f"which register holds an element of {x.buffer.name} is not known before it runs; "
            "unroll the loops that count them"
        )
    unit = MEMORIES[x.buffer.scope].unit // x.buffer.dtype.bytes
    return word(values.tiles[x.buffer.name][0] + at // unit, I8)


def _dot(s: InstrCall, values: Values) -> None:
    a, b = (x.buffer.dtype for x in s.operands[1:])
    name = "tdpbf16ps" if a.is_float else f"tdpb{SIGNS[a.kind, b.kind]}"
    _call(values, name, *(_register_of(x, values) for x in s.operands))


def _zero(s: InstrCall, values: Values) -> None:
    _call(values, "tilezero", _register_of(s.operands[0], values))


def _transfer_tile(s: InstrCall, values: Values) -> None:
    """From memory or to it: a tile, where its first row is, and by how many bytes the next one is further."""
    tile, memory = sorted(s.operands, key=lambda x: not in_tiles(x.buffer))
    apart = dict(s.words).get("M")
    stride = TILE_ROW_BYTES if apart is None else apart * memory.buffer.dtype.bytes
    name = "tileloadd64" if tile is s.operands[0] else "tilestored64"
    _call(
        values,
        name,
        _register_of(tile, values),
        values.address(memory.buffer, memory.at[0], wide=True),
        word(stride),
    )


def _call(values: Values, name: str, *args: Operand) -> None:
    fn = values.library(f"llvm.x86.{name}", VOID, [x.type for x in args])
    values.b.call(fn, args)


SPELLINGS: dict[str, Callable[[InstrCall, Values], None]] = {
    "tile_dot": _dot,
    "tile_zero": _zero,
    "tile_load": _transfer_tile,
    "tile_store": _transfer_tile,
}
"""By the word in an instruction's record how it is spelt."""
