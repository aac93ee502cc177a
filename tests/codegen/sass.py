"""What machine code a cubin holds, read from the file itself: instructions by the low 12 bits of their 16 bytes."""

import struct
from collections import Counter
from collections.abc import Iterator

HMMA = 0x23C
HGMMA, QGMMA = 0x9F0, 0x9F3
LDSM = 0x83B
LDGSTS = 0xFAE
MEMORY_BARRIER = 0x992
ROUND_ALONE, ROUND_TWO = 0x304, 0x23E
"""A float to one of 16 bits by the unit of special functions; two floats to a pair of such by that of sums."""


WAIT_FOR_PREVIOUS = 0x82E
GLOBAL = {0x980, 0x981, 0x985, 0x986, 0x98B, 0x98E, 0x3A8, 0x5B4, LDGSTS}
"""What touches global memory: loads, stores, atomics, asynchronous copies."""


def opcodes(cubin: bytes) -> dict[int, int]:
    """How often each opcode occurs in the code of `cubin` (sm_70 and later)."""
    return dict(Counter(op for code in sequences(cubin) for op in code))


def sequences(cubin: bytes) -> Iterator[list[int]]:
    """The opcodes of each function of `cubin`, as they stand."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    table = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + n * size) for n in range(count)]
    for name, _, _, _, offset, length, *_ in table:
        start = table[names][4] + name
        if cubin[start : cubin.index(b"\0", start)].startswith(b".text."):
            yield [struct.unpack_from("<H", cubin, at)[0] & 0xFFF for at in range(offset, offset + length, 16)]
