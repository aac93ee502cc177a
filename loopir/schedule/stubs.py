"""`python -m loopir.schedule.stubs`: write `_methods.py`, which tells editors and type checkers what `@primitive` adds.

The file is generated from the registry, and a test fails when it is out of date: it is the only second place where
the name of a primitive may stand.
"""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopir.schedule.core import doc
from loopir.schedule.core.primitive import PRIMITIVES, spell_hint
from loopir.schedule.core.trace import spell

PATH = Path(__file__).with_name("_methods.py")
WIDTH = 120
HEAD = '''"""The primitives as methods of Schedule, for editors and type checkers alone. Generated: do not edit.

`python -m loopir.schedule.stubs` writes it again.
"""

from __future__ import annotations

from typing import Literal, Self


class Methods:
    __slots__ = ()
'''


def source() -> str:
    """The text of the stub, from the primitives that ship with loopir."""
    own = (f for _, f in sorted(PRIMITIVES.items()) if f.__module__.startswith("loopir.schedule.primitives."))
    return HEAD + "".join(map(_method, own))


def _method(f: Callable[..., Any]) -> str:
    hints = typing.get_type_hints(f)
    parts: list[str] = ["self"]
    keyword_only = False
    for p in list(inspect.signature(f).parameters.values())[1:]:
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else f" = {spell(p.default)}"
        parts.append(f"{star}{p.name}: {spell_hint(hints[p.name])}{default}")
    head = f"    def {f.__name__}({', '.join(parts)}) -> Self:"
    if len(head) > WIDTH:
        inner = f"        {', '.join(parts)}"
        lines = [inner] if len(inner) <= WIDTH else [f"        {part}," for part in parts]
        head = "\n".join([f"    def {f.__name__}(", *lines, "    ) -> Self:"])
    prose = textwrap.fill(doc.summary(f).partition("\n\n")[0], WIDTH - 11, initial_indent='"""', subsequent_indent="")
    indent = " " * 8
    return f'\n{head}\n{textwrap.indent(prose, indent)}"""\n{indent}raise NotImplementedError\n'


if __name__ == "__main__":
    PATH.write_text(source())
