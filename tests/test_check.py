"""The one check's own rules: which versions the lowest are, and which interpreters it takes."""

from __future__ import annotations

import sys
import tomllib
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def check() -> ModuleType:
    spec = util.spec_from_file_location("check", ROOT / ".ci" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lowest_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = dict(check().lowest())
    for requirement in project["dependencies"]:
        name, _, rest = requirement.partition(">=")
        assert lowest[name] == rest.partition(",")[0]
    assert {"cuda-core", "hypothesis", "pytest", "pyright", "matplotlib"} <= lowest.keys()
    assert all(number.replace(".", "").isdecimal() for number in lowest.values())


def test_the_interpreters_are_those_that_the_project_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (low, high) = check().SUPPORTED
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*low, *high)
    assert check().version(sys.executable) == sys.version_info[:2]
    with pytest.raises(SystemExit, match="no-such-python does not run"):
        check().version("no-such-python")
