"""Name the functions of vectors that C libraries have, by the vector function ABI of x86-64.

A name says the vector unit, that no lane is masked off, how many lanes there are, a "v" for each argument, and the
function of one number: `_ZGVdN8vv_atan2f` takes two vectors of eight floats of AVX2.
"""

from __future__ import annotations

from collections.abc import Iterator

UNITS = {16: "b", 32: "d", 64: "e"}
"""The letters of SSE, AVX2 and AVX-512, by the bytes of a vector."""


def vector_symbol(label: str, lanes: int, width: int, arity: int) -> str:
    """The symbol of function `label` of so many lanes of `width` bytes; empty where no vector unit has so many."""
    unit = UNITS.get(lanes * width)
    return f"_ZGV{unit}N{lanes}{'v' * arity}_{label}" if unit else ""


def vector_symbols(label: str, arity: int) -> Iterator[tuple[int, str]]:
    """The bytes of a vector, and the symbol, of each function that a library may have for `label`, a C function of
    double, and for that of float."""
    for width, name in ((8, label), (4, f"{label}f")):
        for size in UNITS:
            yield size, vector_symbol(name, size // width, width, arity)
