"""Commands that install what is missing name packages and versions as the project states them."""

import re
import tomllib
from pathlib import Path

import pytest

from loopir.requirements import install, install_extra, missing

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = {n: r for n, r in PROJECT["optional-dependencies"].items() if not any(x.startswith("loopir") for x in r)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_installed_by_the_packages_it_names(extra: str) -> None:
    asked = {re.split(r"[\[<>=~!; ]", r)[0].lower().replace("_", "-") for r in EXTRAS[extra]}
    found = {re.split(r"[<>=~!]", p)[0] for p in re.findall(r'"([^"]*)"', install_extra(extra))}
    assert found == asked


def test_a_package_has_the_versions_that_are_asked_for() -> None:
    assert re.fullmatch(r'pip install "numpy[<>=~!].*"', install("numpy"))
    assert install("no-such-package") == 'pip install "no-such-package"'


@pytest.mark.parametrize(("module", "package"), [("numpy.linalg", "numpy"), ("cuda.bindings", "cuda-bindings")])
def test_a_missing_module_is_said_by_its_package(module: str, package: str) -> None:
    said = missing(ModuleNotFoundError("no", name=module))
    assert said.startswith(f"{package} is not installed: pip install")


def test_a_module_that_is_not_ours_to_install_keeps_its_message() -> None:
    assert missing(ModuleNotFoundError("No module named 'x'", name="x")) == "No module named 'x'"
