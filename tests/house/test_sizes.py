"""Files are short enough to read. How complex a function may be is in test_complexity.py."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

from exceptions_list import ROOT, name_of, statements_in, tree_of

CAP, MEDIAN, SCREEN = 800, 260, 80
FILES = sorted(p for top in ("loopir", "schedules", "tests", "benchmarks") for p in (ROOT / top).rglob("*.py"))
LIBRARY = [p for p in FILES if p.is_relative_to(ROOT / "loopir")]


def size(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_no_file_is_over_the_cap() -> None:
    long = {name_of(p): n for p in FILES if (n := size(p)) > CAP}
    assert not long, f"split these at a seam: {long}"


def test_the_median_file_is_short() -> None:
    sizes = [n for p in FILES if p.parts[-1] != "__init__.py" and (n := size(p))]
    median = statistics.median(sizes)
    print(f"\n{len(sizes)} files, {sum(sizes)} lines, median {median:.0f}, longest {max(sizes)}")
    assert median <= MEDIAN


def long_functions(path: Path) -> Iterator[str]:
    """Docstrings apart, as a primitive's holds its examples."""
    for node in statements_in(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = len((ast.get_docstring(node, clean=False) or "").splitlines())
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - doc
            if lines > SCREEN:
                yield f"{name_of(path)}:{node.lineno} {node.name} has {lines} lines"


def test_functions_fit_a_screen() -> None:
    assert not [x for p in LIBRARY for x in long_functions(p)]


def test_files_say_what_they_are() -> None:
    """Each that is not empty starts with a docstring."""
    assert not [name_of(p) for p in LIBRARY if (tree := tree_of(p)).body and not ast.get_docstring(tree)]
