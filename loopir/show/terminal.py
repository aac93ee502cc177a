"""A nest in a terminal, in colour where the terminal has it, with the margins of its loops where they fit.

What is printed is the text of the nest with comments: it parses to the same program.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from loopir.schedule.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces
from loopir.show.history import HEADS as EFFECTS, history
from loopir.show.margins import HEADS
from loopir.show.rows import Row, folded_rows, rows, taken_at

STYLES = {
    "keyword": "magenta",
    "kind": "bold blue",
    "fold": "yellow",
    "operation": "yellow",
    "type": "green",
    "string": "green",
    "number": "cyan",
    "buffer": "bold",
    "comment": "dim",
    "header": "dim",
    "added": "green",
    "removed": "red",
}


def show(schedule: Schedule, console: Console | None = None, depth: int | None = None, **sizes: int) -> None:
    """Print the nest of `schedule` with its margins, and under it the steps that led to it with what each did.

    With `depth`, print so many loops of each nest, and a line for what is inside.
    """
    console = console or Console()
    lines, out = rows(schedule.func, sizes), Text()
    if depth is not None:
        lines = folded_rows(lines, depth)
    widths = _widths([HEADS, *(row.cells for row in lines)])
    at = max((len(str(row.line)) for row in lines if row.cells), default=0)
    room = at + 3 + sum(widths) + 2 * len(widths)
    fits = not console.is_terminal or room <= console.width
    if fits and at:
        _comment(out, f"{taken_at(schedule.func, sizes):{at}}{_cells(HEADS, widths)}", "# ")
    for row in lines:
        _print_row(out, row, at, widths if fits else ())
    if not fits:
        _comment(out, f"margins left out: they need {room} columns, the terminal has {console.width}", "# ")
    if schedule.trace:
        _steps(out, schedule, sizes)
    console.print(out, end="", soft_wrap=True)


def show_diff(schedule: Schedule, console: Console | None = None) -> None:
    """Print what the last step of `schedule` changed."""
    out = Text()
    for line in schedule.diff().splitlines():
        out.append(line + "\n", STYLES.get(diff_kind(line)))
    (console or Console()).print(out, end="", soft_wrap=True)


def _print_row(out: Text, row: Row, at: int, widths: Sequence[int]) -> None:
    line = str(row.line)
    for kind, piece in pieces(line):
        out.append(piece, STYLES.get(kind))
    if row.cells and widths:
        _comment(out, _cells(row.cells, widths), f"{'':{at - len(line)}}  #")
    else:
        out.append("\n")


def _steps(out: Text, schedule: Schedule, sizes: dict[str, int]) -> None:
    """A table of the steps, in comments."""
    taken = history(schedule, sizes)
    cells = [EFFECTS, *(entry.cells() for entry in taken)]
    words = ["", *(f"{n}. {entry.step}" if n else entry.step for n, entry in enumerate(taken))]
    widths, at = _widths(cells), min(60, max(map(len, words)))
    for word, line in zip(words, cells, strict=True):
        _comment(out, f"{word:{at}}{_cells(line, widths)}", "# ")


def _comment(out: Text, words: str, before: str) -> None:
    out.append(f"{before}{words.rstrip()}\n", STYLES["comment"])


def _cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*(line for line in lines if line), strict=True)]
