"""Compare Schedules of one program: side by side, the lines in which they differ marked, with what each would cost."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from loopir.schedule.schedule import Schedule
from loopir.show.estimate import chip_for, estimate
from loopir.show.history import HEADS, Entry
from loopir.show.notebook import boxed, line_html


@dataclass(frozen=True)
class Comparison:
    """Schedules, the first of which the others are compared with, and what each costs by estimate."""

    schedules: tuple[Schedule, ...]
    costs: tuple[Entry, ...]

    def __str__(self) -> str:
        """In columns if the terminal is wide enough for two, else one after the other."""
        first = str(self.schedules[0]).splitlines()
        columns = [_marked(first, str(s).splitlines(), n == 0) for n, s in enumerate(self.schedules)]
        heads = [[_head(n, e), *lines] for n, (e, lines) in enumerate(zip(self.costs, columns, strict=True), 1)]
        widths = [max(map(len, lines)) for lines in heads]
        if sum(widths) + 3 * len(widths) > shutil.get_terminal_size().columns:
            return "\n\n".join("\n".join(lines) for lines in heads)
        height = max(map(len, heads))
        padded = [lines + [""] * (height - len(lines)) for lines in heads]
        return "\n".join(
            " | ".join(f"{line:{w}}" for line, w in zip(across, widths, strict=True)).rstrip()
            for across in zip(*padded, strict=True)
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first = str(self.schedules[0]).splitlines()
        columns: list[str] = []
        for n, (s, e) in enumerate(zip(self.schedules, self.costs, strict=True), 1):
            lines = str(s).splitlines()
            changed = _changed(first, lines)
            kinds = ["row changed" if k in changed else "row" for k in range(len(lines))]
            rows = "".join(
                f'<div class="{kind}"><pre class="code">{line_html(line)}</pre></div>'
                for kind, line in zip(kinds, lines, strict=True)
            )
            columns.append(f'<div><div class="heads">{escape(_head(n, e))}</div>{rows}</div>')
        return boxed(f'<div class="beside">{"".join(columns)}</div>')


def compare(schedule: Schedule, *others: Schedule, **sizes: int) -> Comparison:
    """`schedule` and `others`; sizes that are not given are taken for 1024. TypeError for what is no Schedule."""
    if not others or not all(isinstance(s, Schedule) for s in others):
        raise TypeError("beside another Schedule, or several: s.beside(t)")
    every = (schedule, *others)
    chip = chip_for(schedule.func)
    return Comparison(every, tuple(Entry(_last_step(s), estimate(s.func, sizes, chip)) for s in every))


def _last_step(s: Schedule) -> str:
    return str(s.trace[-1]) if s.trace else "as written"


def _head(n: int, e: Entry) -> str:
    return f"{n}. {e.step}: " + ", ".join(f"{head} {cell}" for head, cell in zip(HEADS, e.cells(), strict=True))


def _changed(first: Sequence[str], lines: Sequence[str]) -> set[int]:
    """The lines that `first` does not have there."""
    matcher = difflib.SequenceMatcher(None, first, lines, autojunk=False)
    return {k for tag, _, _, b, e in matcher.get_opcodes() if tag != "equal" for k in range(b, e)}


def _marked(first: Sequence[str], lines: Sequence[str], itself: bool) -> list[str]:
    changed = set[int]() if itself else _changed(first, lines)
    return [f"{'*' if k in changed else ' '} {line}" for k, line in enumerate(lines)]
