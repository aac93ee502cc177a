"""The lines of a nest as they are shown: each with the loop it belongs to and, at the head of a loop, its margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopir.ir.folded_text import fold_lines
from loopir.ir.grammar import Func, Loop
from loopir.ir.printer import Line, lines
from loopir.show.estimate import TYPICAL_SIZE
from loopir.show.margins import margins


@dataclass(frozen=True)
class Row:
    """A line; `loop` is the innermost loop around it or the one it is the head of, `cells` what stands beside it."""

    line: Line
    loop: str | None
    cells: tuple[str, ...]


def rows(func: Func, sizes: Mapping[str, int] | None = None) -> list[Row]:
    """Every line of the text of `func`."""
    beside = margins(func, sizes)
    out: list[Row] = []
    around: list[tuple[int, str]] = []
    for line in lines(func):
        while around and around[-1][0] >= line.depth:
            around.pop()
        heads = _heads(line)
        around += ((line.depth, x.var) for x in heads)
        cells: tuple[str, ...] = ()
        if heads and heads[0].var in beside:
            cells = beside[heads[0].var].cells()
            cells = (" x ".join(beside[x.var].trips for x in heads), *cells[1:])
        out.append(Row(line, around[-1][1] if around else None, cells))
    return out


def folded_rows(every: Sequence[Row], depth: int) -> list[Row]:
    """`every` line that stands in fewer than `depth` loops; a line for what is left out at each place."""
    row_of = {id(row.line): row for row in every}
    shown = fold_lines([row.line for row in every], depth)
    return [row_of.get(id(line)) or Row(line, None, ()) for line in shown]


def taken_at(func: Func, sizes: Mapping[str, int] | None = None) -> str:
    """Which sizes the figures are for, `at n=1024`; empty if there are none."""
    given = sizes or {}
    return f"at {', '.join(f'{n}={given.get(n, TYPICAL_SIZE)}' for n in func.sizes)}" if func.sizes else ""


def _heads(line: Line) -> Sequence[Loop]:
    """The loops that a line is the head of: one, or all that stand together in a grid."""
    if not isinstance(line.node, Loop):
        return ()
    names = line.text.removeprefix("for ").partition(" in ")[0].split(", ")
    out: list[Loop] = []
    node: object = line.node
    while isinstance(node, Loop) and len(out) < len(names):
        out.append(node)
        node = node.body[0]
    return out
