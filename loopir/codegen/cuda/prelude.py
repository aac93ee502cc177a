"""Choose, of the declarations that emitted code may call, those that it does call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NAME = re.compile(r"\blp_\w+")
_HEAD = re.compile(r"struct\b[^{]*?\b(lp_\w+) *\{|\b(lp_\w+)(?:<[^<>()]*>)? *\(")


def definitions(prelude: str) -> list[str]:
    """Split `prelude` into its functions and types, in order; what stands between #if and #endif is one."""
    found: list[str] = []
    lines: list[str] = []
    depth = conditions = 0
    for line in prelude.strip("\n").split("\n"):
        if line.startswith("#if") and depth == 0:
            conditions += 1
        lines.append(line)
        depth += line.count("{") - line.count("}")
        if line.startswith("#endif") and depth == 0:
            conditions -= 1
        if depth == conditions == 0 and line.endswith(("}", ";", "#endif")):
            found.append("\n".join(lines).strip("\n"))
            lines = []
    return found + (["\n".join(lines)] if any(x.strip() for x in lines) else [])


def defined_names(definition: str) -> frozenset[str]:
    """The functions and types that `definition` gives."""
    heads = (x for x in definition.split("\n") if x[:1].isalpha() or x[:1] == "_")
    found = (next(_HEAD.finditer(x), None) for x in heads)
    return frozenset(m[1] or m[2] for m in found if m is not None)


def referenced(preludes: Iterable[str], code: Sequence[str]) -> list[str]:
    """The definitions of `preludes` that `code` refers to, by way of others, too, each once and in their order.

    Of overloads those that take as many arguments as some call gives come together. A definition of no name of ours
    stays.
    """
    every = list(dict.fromkeys(x for text in preludes for x in definitions(text)))
    names = {x: defined_names(x) for x in every}
    wanted = {name for line in code for name in _NAME.findall(line)}
    used = {x for x in every if not names[x]}
    while more := {x for x in every if x not in used and names[x] & wanted}:
        used |= more
        wanted.update(*(_NAME.findall(x) for x in more))
    called = "\n".join(code) + "\n".join(x.partition("{")[2] for x in used)
    return [x for x in every if x in used and _is_called(x, names[x], called)]


def _is_called(definition: str, names: frozenset[str], called: str) -> bool:
    """Whether `called` gives some function of `definition` as many arguments as it takes; types are never called."""
    if len(names) != 1 or re.search(r"^(#|struct\b)", definition, re.MULTILINE):
        return True
    (name,) = names
    return not _counts(called, name).isdisjoint(_counts(definition.partition("{")[0], name))


_TEMPLATE_ARGUMENTS = re.compile(r"(?<=\w)<[^<>()]*>(?= *\()")


def _counts(text: str, name: str) -> set[int]:
    """How many arguments stand between the parentheses after `name`, wherever it stands in `text`."""
    found: set[int] = set()
    text = _TEMPLATE_ARGUMENTS.sub("", text)  # whose commas part no arguments of a call
    for m in re.finditer(rf"\b{name}\b *\(", text):
        depth = count = 1
        for n, c in enumerate(text[m.end() :]):
            depth += (c in "([{") - (c in ")]}")
            count += c == "," and depth == 1
            if depth == 0:
                found.add(count if text[m.end() : m.end() + n].strip() else 0)
                break
    return found
