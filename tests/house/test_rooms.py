"""A room whose `__init__` is a map of it has every file on it."""

import re
from pathlib import Path

import pytest

from loopir.lower.pipeline import PASSES

PACKAGE = Path(__file__).parents[2] / "loopir"


@pytest.mark.parametrize("room", ["analysis", "emit", "ir", "lower", "runtime"])
def test_every_file_is_on_the_map(room: str) -> None:
    told = set(re.findall(r"\w+", (PACKAGE / room / "__init__.py").read_text()))
    there = {p.stem for p in (PACKAGE / room).glob("*.py")} - {"__init__"}
    if room == "lower":
        there -= {p.name for p in PASSES}
    assert there <= told
