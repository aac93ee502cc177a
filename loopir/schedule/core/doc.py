"""The examples in a primitive's docstring, as data: the tests run them, and they are what a reader sees first.

A docstring has one or more groups, each of

    before:
        <IR text>
    call:    split("i", 4)
    after:
        <IR text>
    refuses: split("i", 3, tail="exact")   # 3 does not divide

A later group may leave out `before` and then starts from the one above. What follows `#` is part of the message.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import getdoc
from typing import Any

_KEY = re.compile(r"^(before|call|after|refuses):[ \t]*(.*)$")


@dataclass(frozen=True, slots=True)
class Example:
    """From `before`, `call` gives `after`, or is refused with a message that holds `refusal`."""

    before: str
    call: str
    after: str | None = None
    refusal: str | None = None


def summary(f: Callable[..., Any]) -> str:
    """The docstring up to its examples."""
    return _split_sections(f)[0]


def examples(f: Callable[..., Any]) -> tuple[Example, ...]:
    """The examples of the primitive `f`, in the order they are written."""
    return tuple(_examples(_split_sections(f)[1]))


def _split_sections(f: Callable[..., Any]) -> tuple[str, list[tuple[str, str]]]:
    """The prose, and the (key, text) sections after it."""
    prose: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for line in (getdoc(f) or "").splitlines():
        if key := _KEY.match(line):
            sections.append((key[1], [key[2]] if key[2] else []))
        else:
            (sections[-1][1] if sections else prose).append(line)
    texts = ((key, textwrap.dedent("\n".join(lines)).strip()) for key, lines in sections)
    return "\n".join(prose).strip(), list(texts)


def _examples(sections: list[tuple[str, str]]) -> Iterator[Example]:
    before, call = "", ""
    for key, body in sections:
        match key:
            case "before":
                before = body
            case "call":
                call = body
            case "after":
                yield Example(before, call, after=body)
            case _:
                asked, _, refusal = body.partition("#")
                yield Example(before, asked.strip(), refusal=refusal.strip())
