"""The lines of a nest as they are shown: each with the loop it belongs to and, at the head of a loop, its margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopir.ir.grammar import Func, Loop, Reduce, Store
from loopir.ir.printer import Line, lines
from loopir.show.estimate import TYPICAL
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
    out: list[Row] = []
    heads: list[int] = []
    left_out: list[Line] = []
    for row in every:
        while heads and heads[-1] >= row.line.depth:
            heads.pop()
        if len(heads) < depth:
            out += _ellipsis(left_out)
            left_out = []
            out.append(row)
        else:
            left_out.append(row.line)
        if row.cells:
            heads.append(row.line.depth)
    return [*out, *_ellipsis(left_out)]


def _ellipsis(left_out: Sequence[Line]) -> list[Row]:
    """One line for those that are left out, with the stages in them."""
    if not left_out:
        return []
    stages = dict.fromkeys(x.node.label for x in left_out if isinstance(x.node, Store | Reduce))
    number = sum(x.node is not None for x in left_out)  # without what a long line goes on with
    count = f"{number} line{'s' * (number != 1)}"
    what = f"...  # {count}{': ' if stages else ''}{', '.join(stages)}"
    return [Row(Line(left_out[0].depth, what, None), None, ())]


def taken_at(func: Func, sizes: Mapping[str, int] | None = None) -> str:
    """Which sizes the figures are for, `at n=1024`; empty if there are none."""
    given = sizes or {}
    return f"at {', '.join(f'{n}={given.get(n, TYPICAL)}' for n in func.sizes)}" if func.sizes else ""


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
