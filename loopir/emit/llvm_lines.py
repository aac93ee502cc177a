"""For every line of LLVM IR, the loop it came from: instructions are marked when made, and found in the text."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Marks:
    """Which loop each instruction of a module came from: the innermost one around what it was made for."""

    def __init__(self) -> None:
        self.loops: dict[int, str] = {}
        self.functions: list[Any] = []

    @contextmanager
    def of(self, loop: str, fn: Any, builder: Any) -> Iterator[None]:
        """What is made in this context is of `loop`, but what is marked already."""
        block, blocks = builder.block, len(fn.blocks)
        count = len(block.instructions)
        yield
        made = [*block.instructions[count:], *(i for b in fn.blocks[blocks:] for i in b.instructions)]
        for instruction in made:
            self.loops.setdefault(id(instruction), loop)

    def lines(self, source: str) -> tuple[str | None, ...]:
        """The loop of each line of `source`, the text of the module."""
        out: list[str | None] = [None] * len(source.splitlines())
        labels: dict[str, list[Any]] = {}
        by_name = {f'@"{fn.name}"': fn for fn in self.functions}
        left, here = 0, list[Any]()
        for n, line in enumerate(source.splitlines()):
            if line.startswith("define"):
                fn = next((f for name, f in by_name.items() if name in line), None)
                labels = {} if fn is None else {f"{b.name}:": b.instructions for b in fn.blocks}
            elif line in labels:
                here, left = list(labels[line]), 0
            elif here or left:
                if not left:
                    first = here.pop(0)
                    left, loop = str(first).count("\n") + 1, self.loops.get(id(first))
                else:
                    loop = out[n - 1]
                out[n], left = loop, left - 1
        return tuple(out)
