"""Files are short enough to read. How complex a function may be is in test_complexity.py."""

import ast
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAP, MEDIAN, SCREEN = 800, 260, 80
FILES = sorted(p for top in ("loopir", "schedules", "tests", "benchmarks") for p in (ROOT / top).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def size(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_is_over_the_cap(path: Path) -> None:
    assert size(path) <= CAP, f"{name_of(path)} has {size(path)} lines; split it at a seam"


def test_the_median_file_is_short() -> None:
    sizes = [n for p in FILES if p.parts[-1] != "__init__.py" and (n := size(p))]
    median = statistics.median(sizes)
    print(f"\n{len(sizes)} files, {sum(sizes)} lines, median {median:.0f}, longest {max(sizes)}")
    assert median <= MEDIAN


@pytest.mark.parametrize("path", [p for p in FILES if "loopir" in p.parts], ids=name_of)
def test_functions_fit_a_screen(path: Path) -> None:
    """Docstrings apart, as a primitive's holds its examples."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = len((ast.get_docstring(node, clean=False) or "").splitlines())
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - doc
            assert lines <= SCREEN, f"{name_of(path)}:{node.lineno} {node.name} has {lines} lines"


@pytest.mark.parametrize("path", [p for p in FILES if "loopir" in p.parts], ids=name_of)
def test_files_say_what_they_are(path: Path) -> None:
    source = path.read_text()
    assert not source.strip() or ast.get_docstring(ast.parse(source)), f"{name_of(path)} starts with no docstring"
