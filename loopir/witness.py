"""Two iterations that a refused step would put in the wrong order: in words, on a grid of text, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import hypot

VERBS = {"RAW": ("writes", "reads"), "WAR": ("reads", "writes"), "WAW": ("writes", "writes")}
CELL = 36
"""Pixels from one iteration to the next in a picture."""


@dataclass(frozen=True, slots=True)
class Witness:
    """Two iterations of a nest that a refused step would put in the wrong order, or at the same time.

    `first` and `second` map loop names to their values, `sizes` the symbolic sizes at which the clash was
    found; `kind` is "RAW", "WAR" or "WAW" and `element` the cell that both touch. Where the step would put two
    elements in one place of memory, the first touches `element` and the second `other`, a buffer and its element.
    """

    kind: str
    buffer: str
    element: tuple[int, ...] | None
    first_statement: str
    first: dict[str, int]
    second_statement: str
    second: dict[str, int]
    sizes: dict[str, int]
    other: tuple[str, tuple[int, ...]] | None = None

    def __str__(self) -> str:
        one, two = VERBS[self.kind]
        sizes = "" if not self.sizes else f" (at {pairs(self.sizes)})"
        where = "" if self.other is None else f" where {_cell(*self.other)} would lie,"
        return (
            f"{self.first_statement} at ({pairs(self.first)}) {one} {self.cell}{where or ','} which "
            f"{self.second_statement} at ({pairs(self.second)}) {two} later{sizes}"
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the words, and the two iterations drawn."""
        return page(str(self), self.svg())

    @property
    def writes(self) -> tuple[bool, ...]:
        """Whether each of the two writes."""
        return tuple(verb == "writes" for verb in VERBS[self.kind])

    @property
    def cell(self) -> str:
        """The element that both touch, or the first one, as `A[1, 2]`."""
        return _cell(self.buffer, self.element)

    def drawn(self) -> str:
        """The two on the grid of the loops they share, A before B as the program has it now; then what each does.

        Values that neither is near are left out, which "~" shows.
        """
        one, two = VERBS[self.kind]
        it = "it" if self.other is None else f"{_cell(*self.other)}, which would lie there"
        words = [
            f"A: {self.first_statement} at ({pairs(self.first)}) {one} {self.cell}",
            f"B: {self.second_statement} at ({pairs(self.second)}) {two} {it}, after A as the program is now",
        ]
        grid = _Grid.of(self.first, self.second)
        return "\n".join([*grid.lines(), *words] if grid is not None else words)

    def svg(self) -> str:
        """The grid as a picture: a point an iteration, an arrow from A to B; empty if they share no loop."""
        grid = _Grid.of(self.first, self.second)
        return "" if grid is None else grid.picture(str(self))


@dataclass(frozen=True, slots=True)
class _Grid:
    """Iterations near two of them: a row a value of the loop `down`, if there is one, a column a value of `across`."""

    across: str
    columns: Sequence[int | None]
    down: str
    rows: Sequence[int | None]
    ends: tuple[tuple[int, int], tuple[int, int]]
    """The row and the column of each of the two."""

    @staticmethod
    def of(first: dict[str, int], second: dict[str, int]) -> _Grid | None:
        """Over the two innermost shared loops that differ, or one that differs and one around it."""
        shared = [v for v in first if v in second]
        axes = [v for v in shared if first[v] != second[v]][-2:] or shared[-1:]
        if len(axes) == 1:
            axes = [*[v for v in shared if v not in axes][-1:], *axes]
        if not axes:
            return None
        down, across = axes if len(axes) == 2 else ("", axes[0])
        if down and shared.index(down) > shared.index(across):
            down, across = across, down
        columns = _neighbourhood(first[across], second[across])
        rows = _neighbourhood(first[down], second[down]) if down else [0]
        ends = [(rows.index(x[down]) if down else 0, columns.index(x[across])) for x in (first, second)]
        return _Grid(across, columns, down, rows, (ends[0], ends[1]))

    def lines(self) -> list[str]:
        """As text."""
        heads, names = ["~" if c is None else str(c) for c in self.columns], self.names("~")
        width, margin = max(map(len, heads)) + 2, max(map(len, names))
        out = [" " * (margin + 2) + self.across, " " * margin + "".join(h.rjust(width) for h in heads)]
        for n, name in enumerate(names):
            marks = (self.mark(n, k).rjust(width) for k in range(len(self.columns)))
            out.append(name.ljust(margin) + "".join(marks))
        return out

    def names(self, gap: str) -> list[str]:
        """What stands before each row."""
        if not self.down:
            return [""]
        values = [gap if r is None else str(r) for r in self.rows]
        return [f"{self.down if n == 0 else ' ' * len(self.down)} {v}" for n, v in enumerate(values)]

    def mark(self, row: int, column: int) -> str:
        if self.rows[row] is None or self.columns[column] is None:
            return "~"
        return "".join(name for name, end in zip("AB", self.ends, strict=True) if end == (row, column)) or "."

    def picture(self, label: str) -> str:
        """As SVG."""
        left, top = 28 + 8 * len(self.down), 64
        right = [left + CELL * (k + 1) for k in range(len(self.columns))]
        below = [top + CELL * n for n in range(len(self.rows))]
        parts = [f'<text x="{right[0]}" y="14" text-anchor="middle">{escape(self.across)}</text>']
        parts += [f'<text x="{x}" y="30" text-anchor="middle">{"…" if c is None else c}</text>'
                  for x, c in zip(right, self.columns, strict=True)]  # fmt: skip
        parts += [f'<text x="{left}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
                  for y, name in zip(below, self.names("…"), strict=True)]  # fmt: skip
        parts += [f'<circle cx="{x}" cy="{y}" r="2" class="point"/>' for y in below for x in right]
        (ax, ay), (bx, by) = ((right[column], below[row]) for row, column in self.ends)
        if (ax, ay) != (bx, by):
            parts.append(f'<line x1="{ax}" y1="{ay}" x2="{bx}" y2="{by}" class="arrow" marker-end="url(#lp-head)"/>')
        far = max(1.0, hypot(bx - ax, by - ay))
        dx, dy = 16 * (bx - ax) / far, 16 * (by - ay) / far  # letters stand before the arrow's tail and after its head
        ends = [(ax, ay, -dx, -dy, "A"), (bx, by, dx, dy, "B")]
        if (ax, ay) == (bx, by):
            ends = [(ax, ay, 0.0, -16.0, "A, B")]
        for x, y, over, up, name in ends:
            parts.append(f'<circle cx="{x}" cy="{y}" r="5" class="end"/>')
            parts.append(f'<text x="{x + over:.0f}" y="{y + up + 4:.0f}" text-anchor="middle">{name}</text>')
        width, height = right[-1] + CELL, below[-1] + CELL * 2 // 3
        return _SVG.format(width=width, height=height, label=escape(label), parts="".join(parts))


def _cell(buffer: str, element: tuple[int, ...] | None) -> str:
    return buffer + ("" if element is None else "[" + ", ".join(map(str, element)) + "]")


def page(words: str, *pictures: str) -> str:
    """Words as a notebook shows them, a letter a column, with pictures under them."""
    return f'<pre style="white-space: pre-wrap; font: 13px/1.45 {_FONT}">{escape(words)}</pre>{"".join(pictures)}'


def pairs(values: dict[str, int]) -> str:
    """`i=0, j=1`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _neighbourhood(*values: int) -> Sequence[int | None]:
    """The values from the least to the largest with one before and after, None for those left out between."""
    shown = sorted({x for v in values for x in (v - 1, v, v + 1) if x >= min(0, *values)})
    out: list[int | None] = []
    for x in shown:
        if out and out[-1] is not None and x > out[-1] + 1:
            out.append(x - 1 if x == out[-1] + 2 else None)
        out.append(x)
    return out


_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="loopir-witness" width="{width}" height="{height}" role="img">'
    "<title>{label}</title><style>.loopir-witness text{{font:12px monospace;fill:currentColor}}"
    ".loopir-witness .point{{fill:#8c959f}}.loopir-witness .end{{fill:#cf222e}}"
    ".loopir-witness .arrow{{stroke:#cf222e;stroke-width:1.5}}</style>"
    '<defs><marker id="lp-head" orient="auto" markerWidth="8" markerHeight="8" refX="12" refY="4">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#cf222e"/></marker></defs>{parts}</svg>'
)
