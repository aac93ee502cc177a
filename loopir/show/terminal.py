"""A nest in a terminal, in colour where the terminal has it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from loopir.schedule.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces

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


def show(schedule: Schedule, console: Console | None = None) -> None:
    """Print the nest of `schedule`, and under it the steps that led to it."""
    out = Text()
    for line in str(schedule).splitlines():
        for kind, piece in pieces(line):
            out.append(piece, STYLES.get(kind))
        out.append("\n")
    for n, step in enumerate(schedule.trace, 1):
        out.append(f"# {n}. {step}\n", STYLES["comment"])
    (console or Console()).print(out, end="", soft_wrap=True)


def show_diff(schedule: Schedule, console: Console | None = None) -> None:
    """Print what the last step of `schedule` changed."""
    out = Text()
    for line in schedule.diff().splitlines():
        out.append(line + "\n", STYLES.get(diff_kind(line)))
    (console or Console()).print(out, end="", soft_wrap=True)
