"""Break long lines of a printed nest inside brackets, as Python allows, so that they fit a terminal."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

WIDTH = 119
"""The longest line of a printed nest."""
LEAST = 28
"""What a deeply nested line has room for, whatever the width."""
FULL_ENOUGH = 0.3
"""The part of a line that is filled, at least, before it is broken at an outer bracket."""
_LEVELS = (", ", " or ", " and ", " < ", " <= ", " == ", " != ", " | ", " ^ ", " & ", " << ", " >> ", " + ", " - ",
           " * ", " / ", " // ", " % ")  # fmt: skip
"""What a line is broken at, in brackets: after the comma, before the others; those that bind less are taken first."""


_place = itemgetter(1)


def wrapped(line: str, depth: int) -> Iterator[tuple[int, str]]:
    """The statement `line` at `depth` in pieces that fit, each with its depth."""
    source, start, at = _bracketed(line), 0, depth
    breaks = sorted(_breaks(source), key=_place)
    while True:
        room = max(LEAST, WIDTH - 4 * at)
        first = bisect_right(breaks, start, key=_place)
        if len(source) - start <= room or first == len(breaks):
            yield at, source[start:]
            return
        inside = breaks[first : bisect_right(breaks, start + room, first, key=_place)]
        filled = [b for b in inside if b[1] > start + FULL_ENOUGH * room] or inside or [breaks[first]]
        end = min(filled, key=lambda b: (b[0], -b[1]))[1] if inside else filled[0][1]
        yield at, source[start:end].rstrip()
        start, at = end, depth + 2


def _bracketed(line: str) -> str:
    """`line` with brackets around what has none and may be long: what a with allocates, a test, a value."""
    if line.startswith(("with ", "if ")) and line.endswith(":"):
        word, _, rest = line.partition(" ")
        return f"{word} ({rest[:-1]}):"
    at = next((n for n, depth in _depths(line) if depth == 0 and line.startswith(" = ", n)), None)
    if at is None or _is_one_call(line[at + 3 :]):
        return line
    return f"{line[: at + 3]}({line[at + 3 :]})"


def _is_one_call(value: str) -> bool:
    """Whether a bracket that opens after a name closes at the end of `value`."""
    name = re.match(r"\w*\(", value)
    return name is not None and all(depth > 0 for n, depth in _depths(value) if name.end() <= n < len(value) - 1)


def _breaks(source: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Where a line may be broken: how deep that is, by brackets and then by operators, and the place."""
    for n, depth in _depths(source):
        if depth == 1 and source[n - 1] == "(" and re.search(r" = \w*\($", source[:n]):
            yield (0, 0), n
        if depth > 0 and source[n] in ", ":
            for level, sign in enumerate(_LEVELS):
                if source.startswith(sign, n):
                    yield (depth, level), n + (2 if level == 0 else 1)


def _depths(source: str) -> Iterator[tuple[int, int]]:
    """Each place outside of strings, with the number of brackets that are open before it."""
    depth, quoted = 0, False
    for n, c in enumerate(source):
        if c == '"':
            quoted = not quoted
        if not quoted:
            yield n, depth
            depth += (c in "([{") - (c in ")]}")
