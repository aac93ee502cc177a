"""`loopir.schedules` is ours wherever it is installed, whatever else is called so; and versions have bounds."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_a_wheel_has_nothing_beside_the_package() -> None:
    told = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert told["packages"] == ["loopir"]
    assert all(path.startswith("loopir/") for path in told["force-include"].values())


def requirements() -> list[str]:
    project = PROJECT["project"]
    return [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]


@pytest.mark.parametrize("requirement", [r for r in requirements() if not r.startswith("loopir[")])
def test_every_package_has_a_lowest_version_that_exists(requirement: str) -> None:
    """`python .ci/check.py --lowest` installs it, so it is a release, with all its numbers."""
    assert re.fullmatch(r"[\w.-]+(\[\w+\])?(>=\d+\.\d+\.\d+(,<[\d.]+)?|==\d+\.(\*|\d+\.\d+))", requirement)


def test_llvmlite_is_no_newer_than_was_tried() -> None:
    (bound,) = (r for r in requirements() if r.startswith("llvmlite"))
    above = tuple(map(int, bound.partition("<")[2].split(".")))
    installed = metadata.version("llvmlite")
    assert tuple(map(int, installed.split(".")[: len(above)])) < above, (
        f"llvmlite {installed} is newer than {bound}: if all other tests pass with it, raise that bound"
    )
