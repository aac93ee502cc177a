"""A Sphinx extension: the docstrings of this package, which are prose and nests, as reStructuredText.

Backquotes are code. Examples of primitives (`before:`, `call:`, `after:`, `refuses:`) and what is indented become
literal blocks; nothing else in a docstring is markup.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, ClassVar

from sphinx.util.docutils import SphinxDirective

import loopir.build  # noqa: F401  (every primitive is loaded)
from loopir.schedule.core.primitive import PRIMITIVES

EXAMPLE = re.compile(r"(before|after|call|refuses):")


def rst(lines: list[str]) -> Iterator[str]:
    """The docstring in `lines` as reStructuredText."""
    literal = False
    for n, line in enumerate(lines):
        indented = line.startswith(" ") and bool(line.strip())
        example = EXAMPLE.match(line) is not None
        if (indented or example) and not literal:
            literal = True
            yield from ("", "::", "")
        elif line.strip() and not indented and not example:
            if literal:
                yield ""
            literal = False
        blank_inside = literal and not line.strip() and any(x.strip() for x in lines[n:])
        yield f"    {line}" if literal and line.strip() else "" if blank_inside or not line.strip() else escaped(line)


def escaped(line: str) -> str:
    """Prose, with what is in backquotes as code and the rest free of markup."""
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(f"``{p[1:-1]}``" if p.startswith("`") else re.sub(r"([*_|\\])", r"\\\1", p) for p in parts)


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rst(lines)


def sign(app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returns: str) -> Any:
    """A primitive takes and gives a Func; as a method it gives a Schedule."""
    return (signature, "Schedule") if what == "method" and name.rpartition(".")[2] in PRIMITIVES else None


class Public(SphinxDirective):
    """`.. public:: loopir` with `:of: loopir.tensor`: the public names of a package that come from those modules."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"of": str}

    def run(self) -> list[Any]:
        return self.parse_text_to_nodes(
            "\n".join(map(documented, names(self.arguments[0], self.options["of"].split())))
        )


class Primitives(SphinxDirective):
    """Every primitive, as the method of Schedule that it is."""

    def run(self) -> list[Any]:
        lines = (f".. automethod:: loopir.schedule.schedule.Schedule.{name}" for name in sorted(PRIMITIVES))
        return self.parse_text_to_nodes("\n".join(lines))


def names(package: str, modules: list[str]) -> list[str]:
    """The public names of `package` that are defined in `modules`, in full."""
    module = import_module(package)
    found = [n for n in dir(module) if not n.startswith("_")]
    return [f"{package}.{n}" for n in found if getattr(getattr(module, n), "__module__", "").startswith(tuple(modules))]


def documented(name: str) -> str:
    package, _, last = name.rpartition(".")
    value = getattr(import_module(package), last)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    return f".. auto{kind}:: {name}" + ("\n   :members:" if kind == "class" else "")


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("public", Public)
    app.add_directive("primitives", Primitives)
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", sign)
    return {"parallel_read_safe": True}
