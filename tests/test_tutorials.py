"""Every tutorial runs, as a reader would run it."""

import runpy
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parent.parent / "tutorials").glob("*.py"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_tutorial_runs(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


def test_there_are_tutorials() -> None:
    assert TUTORIALS
