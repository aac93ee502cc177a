"""The page on testing says what is so: its examples are run."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def test_the_examples_give_what_they_show() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.FAIL_FAST)
    assert done.attempted > 20
    assert done.failed == 0
