"""The pages hang together: links lead somewhere, everything public is documented. The site's builder is not needed."""

import ast
import doctest
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import loopir as lp
import loopir.testing
import schedules
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.schedule import Schedule
from loopir.testing.mutants import FAMILIES, MUTANTS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
DOC = re.compile(r"\{doc\}`(?:[^`<]*<([^`>]+)>|([^`<]+))`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def document(name: str) -> bool:
    """Whether the site has the page that is called `name` from docs/."""
    return any((DOCS / f"{name}{ending}").is_file() for ending in (".md", ".py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    source = FENCE.sub("", page.read_text())
    for link in LINK.findall(source):
        path, _, anchor = link.partition("#")
        if path.startswith("http"):
            continue
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {link}"
    for found in DOC.findall(source):
        assert document(found[0] or found[1]), f"{page.name} links to {found}"


def test_every_page_and_tutorial_is_in_the_index() -> None:
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    listed = [x for t in trees for x in t.split("\n\n", 1)[1].split()]
    assert all(map(document, listed))
    assert {Path(x).name for x in listed} >= {p.stem for p in (ROOT / "tutorials").glob("*.py")}
    assert {x for x in listed if "/" not in x} == {p.stem for p in DOCS.glob("*.md")} - {"index"}


def test_pages_that_are_run_are_python() -> None:
    for page in DOCS.glob("*.md"):
        cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        assert not cells or page.read_text().startswith("---\nfile_format: mystnb")
        for cell in cells:
            ast.parse(re.sub(r"^:\w.*\n", "", cell, flags=re.MULTILINE))


def test_every_public_name_is_documented() -> None:
    for module in (lp, schedules, loopir.testing):
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and callable(value):
                assert (value.__doc__ or "").strip(), f"{module.__name__}.{name} has no docstring"
    assert all(getattr(Schedule, name).__doc__ for name in PRIMITIVES)
    told = (DOCS / "reference.md").read_text()
    shown = re.search(r"Schedule\n   :members: (.*?)\n\n", told.replace("\n             ", " ") + "\n\n", re.DOTALL)
    assert shown
    members = set(re.split(r",\s*", re.split(r"\n", shown[1])[0]))
    own = {n for n in vars(Schedule) if not n.startswith("_")} - set(PRIMITIVES) - {"steps_since", "grouped"}
    assert members == own


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "reference.md").read_text()
    modules = re.findall(r"^\.\. public:: loopir\n   :of: (.*(?:\n    +.*)*)", page, re.MULTILINE)
    shown = [*" ".join(modules).split(), *re.findall(r"auto(?:module|class):: (loopir\.(?:errors|witness))", page)]
    values = {n: getattr(lp, n) for n in dir(lp) if not n.startswith("_") and n != "Schedule"}
    named = {n: getattr(v, "__module__", None) for n, v in values.items()}
    assert not [n for n, m in named.items() if m and not m.startswith(tuple(shown))]


@pytest.mark.parametrize("name", [n for n in dir(lp) if ">>>" in (getattr(lp, n).__doc__ or "")])
def test_examples_in_docstrings_run(name: str) -> None:
    failures: list[str] = []
    known = {"lp": lp, "np": np}
    for example in doctest.DocTestFinder(recurse=False).find(getattr(lp, name), name, globs=known):
        doctest.DocTestRunner().run(example, out=failures.append)
    assert not failures, "".join(failures)


def test_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    source = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", source, re.DOTALL)
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    run = subprocess.run(
        [sys.executable, "readme.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    rest = re.sub(r"```python\n.*?```\n", "", source, flags=re.DOTALL)
    quoted = re.findall(r"```text\n(.*?)```", rest, re.DOTALL)
    assert len(quoted) == 2
    assert all(q in run.stdout for q in quoted)


def test_every_mutant_has_a_row_and_is_counted() -> None:
    table = (DOCS / "mutants.md").read_text()
    rows = [[x.strip() for x in line.split("|")[1:4]] for line in table.splitlines() if line.startswith("| ")]
    wanted = [[m.name, m.fault, "equivalent" if m.equivalent else "killed"] for m in MUTANTS]
    assert [r for r in rows if r[0] != "mutant"] == wanted
    killed = sum(not m.equivalent for m in MUTANTS)
    assert f"{killed} of {killed} killed" in table
    for name in FAMILIES:
        assert f"- {name}: {sum(m.family == name and not m.equivalent for m in MUTANTS)} killed, 0 survived" in table
    assert f"puts {len(MUTANTS)} faults into" in (DOCS / "testing.md").read_text()


def test_pictures_are_small() -> None:
    pictures = list((DOCS / "images").iterdir())
    assert pictures
    assert all(p.suffix == ".png" and p.stat().st_size < 300_000 for p in pictures)


def test_the_extra_has_what_the_site_is_built_with() -> None:
    wanted = " ".join(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"])
    conf = (DOCS / "conf.py").read_text()
    for package in ("sphinx", "myst-nb", "jupytext", "furo"):
        assert package in wanted
        assert package.replace("-", "_") in conf
