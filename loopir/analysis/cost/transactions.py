"""Memory transactions of a warp: sectors of global memory, bank conflicts of shared memory.

Global memory is moved in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes, and serves a warp by parts of as
many lanes as make 128 bytes: all 32 at 4 bytes each, 8 at 16 bytes each, as vectors, `ldmatrix` and `cp.async` have
them. A part takes as many turns as its fullest bank has words to give; lanes that want the same word share it (CUDA C++
Programming Guide, "Device Memory Accesses" and "Shared Memory", compute capability 5.x and later; PTX ISA, "ldmatrix").
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopir.ir.grammar import LANES

SECTOR, BANKS, BANK_WORD, WIDEST = 32, 32, 4, 16
"""Bytes of a sector; banks, the bytes of a word in one, and the most bytes that a lane moves at once."""
Ints = npt.NDArray[np.int64]


def words_per_bank(lanes: Ints, words: Ints, width: int = BANK_WORD) -> Ints:
    """How many different words each bank has to give, by part of the warp and bank, where `lanes` want `words`.

    Each lane moves `width` bytes; with the default all lanes are one part. A part takes as many turns as the greatest
    number in its row; a 32nd of their sum, rounded up, would do.
    """
    part = LANES // max(1, min(width, WIDEST) // BANK_WORD)
    parts = LANES // part
    row, word = distinct(lanes // part, words)
    return np.bincount(row * BANKS + word % BANKS, minlength=parts * BANKS).reshape(parts, BANKS)


def distinct(rows: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """The different pairs of a row, which is not negative, and a number, in order."""
    if not numbers.size:
        return rows.ravel(), numbers.ravel()
    low = numbers.min()
    span = numbers.max() - low + 1
    pairs = np.unique(rows * span + (numbers - low))
    return pairs // span, pairs % span + low
