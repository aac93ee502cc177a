"""docs/architecture.md: its picture is what the source imports, and every file that it names is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def drawn(arrow: str = "->") -> dict[str, set[str]]:
    """By package what it may import, as the page has it; or, by "~>", load when a person asks for it."""
    block = re.search(r"^```\{code-block\} text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert block
    found: dict[str, set[str]] = {}
    for line in block[1].replace("\n   ", " ").splitlines():
        left, found_there, right = line.partition(arrow)
        if found_there:
            found[left.strip()] = set(right.split())
    return found


def imported() -> dict[str, set[str]]:
    """By package of loopir the others that its files import."""
    found: dict[str, set[str]] = {}
    for package in drawn():
        place = ROOT.joinpath(*package.split("."))
        files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
        named = found.setdefault(package, set())
        for path in files:
            source = path.read_text()
            tree = ast.parse(source)
            modules = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
            modules += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
            modules += re.findall(r"\(f?\"(loopir\.\w[\w.]*)", source)  # what is loaded when it is asked for
            named |= {".".join(m.split(".")[:2]) for m in modules if m.startswith("loopir.")} - {package}
    return found


def test_the_picture_is_what_is_imported() -> None:
    for package, every in imported().items():
        there = every - drawn("~>").get(package, set())
        assert there <= drawn()[package], f"{package} imports {sorted(there - drawn()[package])}, which is not drawn"
        assert drawn()[package] <= there, f"{package} does not import {sorted(drawn()[package] - there)}, as is drawn"


def test_the_picture_has_no_circle() -> None:
    needs, done = drawn(), set[str]()
    while ready := {p for p, n in needs.items() if p not in done and {x for x in n if x in needs} <= done}:
        done |= ready
    assert done == set(needs)


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`((?:loopir|schedules)/[\w/]+\.py)`", PAGE)
    assert len(named) > 30
    assert not [f for f in named if not (ROOT / f).exists()]


def test_every_package_is_drawn() -> None:
    packages = {f"loopir.{p.parent.name}" for p in (ROOT / "loopir").glob("*/__init__.py")}
    assert packages - set(drawn()) == {"loopir.testing"}
