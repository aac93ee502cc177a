"""Python's own parser, also where one parse begins in the midst of another: in a finaliser, or in a signal handler."""

from __future__ import annotations

import ast
from typing import Any

TRIES = 8


def syntax_tree(source: str, filename: str = "<text>", mode: str = "exec") -> Any:
    """`source` as Python's parser reads it; as `ast.parse` is.

    Some releases of CPython (3.11.7 is one; gh-106905) count how deep trees are for all parses of a process together,
    and one that another interrupted raises SystemError, though nothing is wrong with its source: then it is made again.
    """
    for _ in range(TRIES - 1):
        try:
            return ast.parse(source, filename, mode)
        except SystemError:
            continue
    return ast.parse(source, filename, mode)
