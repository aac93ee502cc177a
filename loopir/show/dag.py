"""The nests of a program as a graph: a box for each, with its predicted time, below those whose results it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from loopir.ir.grammar import Func, Loop
from loopir.ir.traverse.walk import loops, top_level_nests
from loopir.schedule.transform.subprogram import nests
from loopir.show.units import seconds as time_of

BOX_WIDE, BOX_HIGH, ACROSS, DOWN = 190, 38, 210, 66
"""Pixels of a box, and from one to the next."""
CHARACTERS = 26
"""What a box has room for."""


@dataclass(frozen=True)
class Box:
    """A nest in the graph: its stages, its outermost loop if it has one, its predicted seconds, and what it needs."""

    stages: tuple[str, ...]
    loop: str | None
    seconds: float | None
    needs: frozenset[int]


def nest_boxes(func: Func, costs: Sequence[tuple[frozenset[str], float]]) -> list[Box]:
    """A box for each nest of `func`; `costs` has the seconds of kernels or nests by the labels of their statements.

    A nest that shares a kernel with another has no seconds of its own.
    """
    boxes: list[Box] = []
    own = [frozenset(nest.stages) for nest in nests(func)]
    for nest, top in zip(nests(func), top_level_nests(func), strict=True):
        first: Loop | None = next(iter(loops((top.nest,))), None)
        having = [(labels, s) for labels, s in costs if labels & set(nest.stages)]
        alone = having and all(sum(bool(labels & other) for other in own) == 1 for labels, _ in having)
        seconds = sum(s for _, s in having) if alone else None
        boxes.append(Box(nest.stages, first.var if first else None, seconds, nest.needs))
    return boxes


def dag_svg(boxes: Sequence[Box]) -> str:
    """The graph as a picture: rows of boxes, each below what it needs, linked to the loops of the page."""
    row = [0] * len(boxes)
    for n, box in enumerate(boxes):
        row[n] = 1 + max((row[k] for k in box.needs), default=-1)
    at = [(10 + ACROSS * row[:n].count(r), 10 + DOWN * r) for n, r in enumerate(row)]
    lines = [_edge(at[k], at[n]) for n, box in enumerate(boxes) for k in sorted(_direct(boxes, n))]
    drawn = [_drawn(box, *at[n]) for n, box in enumerate(boxes)]
    wide = max((x for x, _ in at), default=0) + ACROSS + 14 * max(row, default=0)
    tall = max((y for _, y in at), default=0) + DOWN
    return f'<svg width="{wide}" height="{tall}">{"".join([*lines, *drawn])}</svg>'


def _direct(boxes: Sequence[Box], n: int) -> Iterator[int]:
    """The nests that the n-th needs, but those that another of them needs already."""
    needs = boxes[n].needs
    behind: set[int] = set()
    pending = [x for k in needs for x in boxes[k].needs]
    while pending:
        k = pending.pop()
        if k not in behind:
            behind.add(k)
            pending += boxes[k].needs
    return iter(needs - behind)


def _edge(a: tuple[int, int], b: tuple[int, int]) -> str:
    """A line from a box to one below; beside the boxes in between where there are any."""
    (x, y), (to, down) = a, b
    if down - y <= DOWN:
        x, y, to = x + BOX_WIDE // 2, y + BOX_HIGH, to + BOX_WIDE // 2
        return f'<path d="M{x} {y} C{x} {y + 14} {to} {down - 14} {to} {down}"/>'
    side = max(x, to) + BOX_WIDE + 14 * ((down - y) // DOWN)
    x, y, to, down = x + BOX_WIDE, y + BOX_HIGH // 2, to + BOX_WIDE, down + BOX_HIGH // 2
    return f'<path d="M{x} {y} C{side} {y} {side} {down} {to} {down}"/>'


def _drawn(box: Box, x: int, y: int) -> str:
    title = ", ".join(box.stages)
    short = title if len(title) <= CHARACTERS else f"{title[: CHARACTERS - 3]}..."
    said = "" if box.seconds is None else f"{time_of(box.seconds)} predicted"
    link = f' href="#{escape(box.loop)}"' if box.loop else ""
    return (
        f'<a{link}><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{BOX_WIDE}" height="{BOX_HIGH}" rx="4"/>'
        f'<text x="{x + 8}" y="{y + 15}">{escape(short)}</text><text x="{x + 8}" y="{y + 31}">{said}</text></a>'
    )
