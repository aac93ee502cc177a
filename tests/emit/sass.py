"""What machine code a cubin holds, read from the file itself: instructions by the low 12 bits of their 16 bytes."""

import struct

HMMA = 0x23C
HGMMA = 0x9F0
LDSM = 0x83B
LDGSTS = 0xFAE
MEMORY_BARRIER = 0x992


def opcodes(cubin: bytes) -> dict[int, int]:
    """How often each opcode occurs in the code of `cubin` (sm_70 and later)."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    table = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + n * size) for n in range(count)]
    found: dict[int, int] = {}
    for name, _, _, _, offset, length, *_ in table:
        start = table[names][4] + name
        if cubin[start : cubin.index(b"\0", start)].startswith(b".text."):
            for at in range(offset, offset + length, 16):
                op = struct.unpack_from("<H", cubin, at)[0] & 0xFFF
                found[op] = found.get(op, 0) + 1
    return found
