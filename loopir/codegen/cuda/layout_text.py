"""Lay out emitted C: leave out parentheses around parentheses, and break lines where they nest least."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_WIDTH = 120
"""Columns of a line, where it can be broken."""
INDENT = 4
"""Columns by which what continues a line stands to the right of it."""
_BREAKS = re.compile(r", | (?=(?:[-+*&|^?:]|&&|\|\|) )| = ")


def without_double_parentheses(text: str) -> str:
    """`text` with one pair of parentheses where one stands directly within another, or around all of an index, of an
    argument or of what is assigned. What stands in quotes is left alone."""
    if '"' in text or "'" in text:
        return text
    closing = _closing(text)
    drop: set[int] = set()
    for at, end in closing.items():
        if text[at] != "(":
            continue
        before, after = text[max(at - 3, 0) : at], text[end + 1 : end + 2]
        within = before.endswith(("(", "[")) and closing.get(at - 1) == end + 1
        argument = before.endswith(("(", ", ")) and after in (",", ")") and _in_call(text, at, closing)
        assigned = before == " = " and after == ";" and text.count(" = ", 0, at) == 1
        if within or argument or assigned:
            drop |= {at, end}
    return "".join(c for n, c in enumerate(text) if n not in drop)


def _closing(text: str) -> dict[int, int]:
    """Where each bracket of `text` is closed; none where they do not match."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for n, c in enumerate(text):
        if c in "([":
            opened.append(n)
        elif c in ")]":
            if not opened or text[opened[-1]] != ("(" if c == ")" else "["):
                return {}
            found[opened.pop()] = n
    return {} if opened else found


def _in_call(text: str, at: int, closing: dict[int, int]) -> bool:
    """Whether the innermost bracket around `at` opens the arguments of a function."""
    around = [n for n, end in closing.items() if n < at < end and text[n] == "("]
    return bool(around) and re.search(r"(\w|\w>)$", text[: max(around)]) is not None


def wrapped(line: str, width: int = LINE_WIDTH) -> list[str]:
    """`line` as lines of at most `width` columns, as far as it can be broken: after a comma, before an operator.

    Of the places before the last column, one within the fewest brackets is taken, and of these the last comma, or else
    the last operator of those that bind least.
    """
    if len(line) <= width or line.lstrip().startswith(("#", "//")):
        return [line]
    code, mark, comment = line.partition("  // ") if '"' not in line else (line, "", "")
    indent = len(line) - len(line.lstrip())
    if mark:
        return [" " * indent + "// " + comment, *wrapped(code, width)]
    margin = indent + INDENT
    places, n = list(_break_points(line)), 0
    lines: list[str] = []
    cut, start = 0, 0  # what is left of `line`, and the column that would stand at the left edge
    while len(line) - start > width:
        while n < len(places) and places[n][2] - start <= margin:
            n += 1
        fits = [x for x in places[n : n + width] if x[2] - start <= width]
        if n == len(places):
            break
        *_, at = min(fits, key=lambda x: (x[0], x[1], -x[2])) if fits else places[n]
        lines.append(" " * (margin if lines else 0) + line[cut:at].rstrip())
        cut = at
        while line[cut : cut + 1].isspace():
            cut += 1
        start = cut - margin
    return [*lines, " " * (margin if lines else 0) + line[cut:]]


def _break_points(line: str) -> Iterator[tuple[int, int, int]]:
    """Where `line` can be broken, outside of quotes: how many brackets are around it, how tightly what stands there
    binds, and the column."""
    depth, quoted = 0, False
    breaks = {m.start(): m for m in _BREAKS.finditer(line)}
    for n, c in enumerate(line):
        if c == '"' and line[n - 1 : n] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([{") - (c in ")]}")
        if n in breaks:
            operator = breaks[n][0] == " "
            yield depth, 1 + (line[n + 1] == "*") if operator else 0, n + 1 if operator else breaks[n].end()
