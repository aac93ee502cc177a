"""Shared-memory matrix descriptors (64 bits), computed from a buffer's layout.

The elements of a row are contiguous in pieces of `span` bytes: 128, 64 or 32 with a swizzle, 16 without. Eight rows
follow one another, `span` bytes apart; the next eight rows are `rows` bytes further, the next piece of the same rows
`pieces` bytes further. The swizzle permutes 16-byte parts: bits 4 to 6 of an address are combined by exclusive or with
bits 7 to 9 (for 128 bytes; fewer bits for 64 and 32). PTX ISA, "Asynchronous warpgroup level matrix instructions",
"Shared memory matrix layout". A layout is evaluated at all of its elements, so it may be written in any way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from loopir.ir.grammar import Buffer, Int, Mapped
from loopir.ir.layout.layouts import evaluate, strides_of

EIGHT = 8
MODES = {128: 1, 64: 2, 32: 3, 16: 0}
"""Bytes of a piece, and the bits of a descriptor that say how it is swizzled."""
MAX_CELLS = 1 << 20
"""Elements of a buffer that are tried."""


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A matrix layout: bytes in a piece, from eight rows to the next eight, and from piece to piece."""

    span: int
    rows: int
    pieces: int

    def word(self, along: str) -> int:
        """The descriptor, without the address (bits 0 to 13). `along` is the dimension that pieces are of."""
        leading = 1 if along == "k" and self.span > 16 else self.pieces >> 4
        return leading << 16 | (self.rows >> 4) << 32 | MODES[self.span] << 62

    @staticmethod
    def of(word: int) -> MatrixDescriptor:
        """What a descriptor says."""
        span = next(s for s, mode in MODES.items() if mode == word >> 62)
        return MatrixDescriptor(span, (word >> 32 & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4)

    def lies(self, start: int, row: Any, column: Any, size: int) -> Any:
        """The byte that element (row, column) of `size` bytes begins at, in a matrix that begins at byte `start`."""
        piece, within = column * size // self.span, column * size % self.span
        at = start + row % EIGHT * self.span + row // EIGHT * self.rows + piece * self.pieces + within
        return swizzle_byte(at, self.span)


def swizzle_byte(at: Any, span: int) -> Any:
    """The address of byte `at` after the swizzle, which is its own inverse."""
    return at ^ (at >> 7 & span // 16 - 1) << 4


@lru_cache(maxsize=256)
def matrix_descriptor(b: Buffer, dims: tuple[int, int]) -> MatrixDescriptor | str:
    """The descriptor of matrices along two dimensions of `b`, its rows and then its contiguous dimension; or the reason
    why none describes it. Matrices start at multiples of 8 rows, and of a piece or, inside one, of 16 bytes."""
    shape = [d.value for d in b.shape if isinstance(d, Int)]
    if len(shape) != len(b.shape) or int(np.prod(shape)) > MAX_CELLS:
        return f"the shape of {b.name} is no constant"
    size = b.dtype.bytes
    bytes_ = np.moveaxis(_offsets(b, shape) * size, dims, (-2, -1)).reshape(-1, shape[dims[0]], shape[dims[1]])
    reasons: list[str] = []
    for span in MODES:
        found = _as_pieces(swizzle_byte(bytes_, span), span, size)
        if isinstance(found, MatrixDescriptor):
            return found
        reasons.append(f"{span} bytes: {found}")
    return (
        f"no descriptor says where the elements of {b.name} lie, in pieces of "
        f"{'; '.join(reasons)}. set_layout({b.name!r}, ...) to rows of 128 bytes that are swizzled"
    )


def _offsets(b: Buffer, shape: list[int]) -> Any:
    env = dict(enumerate(np.indices(shape)))
    if isinstance(b.layout, Mapped):
        return evaluate(b.layout.at, {d: env[n] for n, d in enumerate(b.layout.dims)}) + np.zeros(shape, np.int64)
    return sum(env[n] * evaluate(s, {}) for n, s in enumerate(strides_of(b)))


def _as_pieces(at: Any, span: int, size: int) -> MatrixDescriptor | str:
    """The matrices whose elements begin at bytes `at` [matrix, row, column], if they are made of pieces."""
    _, height, width = at.shape
    across = span // size
    if height % EIGHT or width % across:
        return f"{height} x {width} are no whole pieces of {EIGHT} x {across}"
    rows = int(at[0, EIGHT, 0] - at[0, 0, 0]) if height > EIGHT else span * EIGHT
    pieces = int(at[0, 0, across] - at[0, 0, 0]) if width > across else 0
    aligned = span * EIGHT if span > 16 else 16
    for what, x in (("the next rows", rows), ("the next piece", pieces), ("another matrix", int(at[:, 0, 0].max()))):
        if x % aligned or x < 0 or (x >> 4 > 0x3FFF and what != "another matrix"):
            return f"{what} {x} bytes further, no multiple of {aligned}"
    if (at[:, 0, 0] % aligned).any():
        return f"a matrix begins at no multiple of {aligned} bytes"
    found = MatrixDescriptor(span, rows, pieces)
    row, column = np.indices((height, width))
    plain = row % EIGHT * span + row // EIGHT * rows + column * size // span * pieces + column * size % span
    wrong = np.argwhere(at - at[:, :1, :1] != plain)
    if len(wrong):
        n, r, c = (int(x) for x in wrong[0])
        return f"element ({r}, {c}) lies at byte {int(at[n, r, c] - at[n, 0, 0])}, and not at {int(plain[r, c])}"
    return found


@lru_cache(maxsize=256)
def box_descriptor(b: Buffer, dims: tuple[int, int], height: int, width: int) -> int | str:
    """How boxes of `height` rows of `width` elements, aligned to both, lie in `b`: the bytes of a row if they are
    swizzled, 0 if rows are contiguous; or the reason why a tensor map cannot fill them."""
    shape = [d.value for d in b.shape if isinstance(d, Int)]
    if (
        len(shape) != len(b.shape)
        or int(np.prod(shape)) > MAX_CELLS
        or shape[dims[0]] % height
        or shape[dims[1]] % width
    ):
        return f"{b.name} is not made of boxes of {height} x {width}"
    size = b.dtype.bytes
    tall, wide = shape[dims[0]] // height, shape[dims[1]] // width
    at = np.moveaxis(_offsets(b, shape) * size, dims, (-2, -1)).reshape(-1, tall, height, wide, width)
    plain = (np.arange(height * width) * size).reshape(1, 1, height, 1, width)
    for span in (*([width * size] if width * size in (128, 64, 32) else []), 0):
        rows = swizzle_byte(at, span) if span else at
        first = rows[:, :, :1, :, :1]
        if not (first % (EIGHT * span or 128)).any() and (rows - first == plain).all():
            return span
    return (
        f"the rows of a box of {height} x {width} of {b.name} do not follow one another, {width * size} bytes each, "
        f"swizzled or not, from a multiple of {EIGHT * 128} bytes"
    )
