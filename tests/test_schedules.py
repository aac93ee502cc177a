"""loopir.schedules is ours wherever it is installed, whatever else is called so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCHEDULES = (p.relative_to(ROOT / "schedules").with_suffix("") for p in (ROOT / "schedules").rglob("*.py"))
PROGRAMS = {"tuning.stress", "tuning.worker"}
"""What is run by `python -m`, and not loaded by others."""
MODULES = sorted(
    {".".join(p.parts).removesuffix(".__init__") for p in SCHEDULES if p.parts != ("__init__",)} - PROGRAMS
)


def run(script: str, *path: Path) -> str:
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, cwd=path[0])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wheel(folder: Path) -> Path:
    """The files of a wheel as pyproject.toml tells hatchling to choose them."""
    told = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in told["packages"]:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in told["exclude"]:
        (folder / path).unlink()
    for source, path in told["force-include"].items():
        shutil.copytree(ROOT / source, folder / path, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


OURS = f"""
import sys, loopir as lp
from loopir import schedules
from loopir.schedules.common.contraction import contraction
names = {MODULES!r}
assert lp.schedules is schedules and schedules.__name__ == "loopir.schedules"
assert {{m.removeprefix("loopir.schedules.") for m in sys.modules if m.startswith("loopir.schedules.")}} == set(names)
assert callable(schedules.auto) and schedules.auto.__module__ == "loopir.schedules.auto"
assert str(schedules.auto(lp.Schedule(lp.placeholder((64,), "float32", name="x") + 1.0), "llvm"))
"""


@pytest.mark.parametrize("installed", ["checkout", "wheel"])
@pytest.mark.parametrize("order", ["theirs first", "ours first"])
def test_another_package_of_that_name_hides_nothing(installed: str, order: str, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", wheel(tmp_path / "ours") if installed == "wheel" else ROOT
    (theirs / "schedules").mkdir(parents=True)
    (theirs / "schedules" / "__init__.py").write_text("mine = 1\n")
    (theirs / "schedules" / "matmul.py").write_text("mine = 2\n")
    check = "import schedules, schedules.matmul\nassert (schedules.mine, schedules.matmul.mine) == (1, 2)\n"
    run(check + OURS if order == "theirs first" else OURS + check, theirs, ours)


IMPORTS = ("import schedules", "from schedules.llvm.auto_cpu import cpu", "import loopir.schedules", "")


@pytest.mark.parametrize("first", IMPORTS)
def test_in_a_checkout_both_names_are_the_same_modules(first: str) -> None:
    script = f"""{first}
import schedules, schedules.auto, loopir.schedules, sys
from schedules.cuda.auto_gpu import gpu
assert schedules is loopir.schedules and gpu is loopir.schedules.gpu
for name in {MODULES!r}:
    assert sys.modules["schedules." + name] is sys.modules["loopir.schedules." + name]
"""
    run(script, ROOT)
