"""The text form cut into pieces by what they are, for whoever colours them: one rule a kind, the first wins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from loopir.ir.dtypes import BY_NAME
from loopir.ir.ops import MONOIDS, REGISTRY

TokenKind = Literal["keyword", "kind", "fold", "operation", "type", "string", "number", "buffer", "comment", "plain"]

KEYWORDS = ("def", "for", "in", "with", "as", "if", "else", "elif", "and", "or", "not", "return", "assume", "pass")
LOOP_KINDS = ("range", "parallel", "vectorize", "unroll", "bind", "kernel", "barrier", "alloc", "grid")
_PIECE = re.compile(
    r"""(?P<comment>\#.*) | (?P<string>"[^"\n]*"|'[^'\n]*') | (?P<number>\b\d[\w.]*(?:(?<=e)[+-]\d+)?)
      | (?P<buffer>\b[A-Za-z_]\w*(?=\[)) | (?P<name>\b[A-Za-z_]\w*) | (?P<plain>[^\w"'\#]+|.)""",
    re.VERBOSE,
)


def pieces(line: str) -> Iterator[tuple[TokenKind, str]]:
    """One line of text form, in pieces that together are the line."""
    for match in _PIECE.finditer(line):
        kind, piece = match.lastgroup, match[0]
        yield (_name(piece) if kind == "name" else kind or "plain"), piece  # pyright: ignore[reportReturnType]


def _name(name: str) -> TokenKind:
    if name in KEYWORDS:
        return "keyword"
    if name in LOOP_KINDS:
        return "kind"
    if name in MONOIDS:
        return "fold"
    if name in BY_NAME:
        return "type"
    return "operation" if name in REGISTRY or name == "select" else "plain"


def diff_kind(line: str) -> Literal["added", "removed", "header", "context"]:
    """What a line of a unified diff is."""
    if line.startswith(("+++", "---", "@@")):
        return "header"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "context"
