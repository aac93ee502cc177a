"""docs/primitives.md names what there is: every primitive of ours, and nothing that is not there."""

import re
from pathlib import Path

import loopir as lp
from loopir.schedule.primitive import PRIMITIVES

TABLE = (Path(__file__).parents[2] / "docs" / "primitives.md").read_text()
WORDS = {"at=", "store=", "why", "assume", "symbol(min=, multiple_of=)", "drop_unit_loops"}
"""What else is quoted beside the names of primitives."""


def ours() -> set[str]:
    """The names quoted in the column that is ours."""
    names: set[str] = set()
    for line in TABLE.splitlines():
        cells = line.strip().strip("|").split(" | ")
        if len(cells) == 2 and not line.startswith("|---"):
            own = cells[0] if cells[1] and "Ours alone" in TABLE.split(line)[0] else cells[1]
            names |= set(re.findall(r"`([^`]+)`", own))
    return names


def test_what_it_names_is_there() -> None:
    there = set(PRIMITIVES) | {n for n in dir(lp.Schedule) if not n.startswith("_")} | set(dir(lp)) | WORDS
    unknown = {n for n in ours() if n not in there and not n.startswith(("tail=", '"'))}
    assert not unknown


def test_every_primitive_is_in_it() -> None:
    own = {n for n, f in PRIMITIVES.items() if f.__module__.startswith("loopir.")}
    assert own - ours() == set()
