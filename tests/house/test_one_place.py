"""One statement of each fact: a primitive is one file, CUDA is spelled by the emitter, the stub is generated."""

import ast
from functools import cache
from pathlib import Path

import pytest
from exceptions_list import ROOT, name_of, tree_of

from loopir.schedule import stubs
from loopir.schedule.core.primitive import PRIMITIVES

PACKAGE = ROOT / "loopir"
FOLDER = PACKAGE / "schedule" / "primitives"
FILES = sorted(PACKAGE.rglob("*.py"))
OWN = sorted(name for name, f in PRIMITIVES.items() if f.__module__.startswith("loopir."))
PRIMITIVE_FILES = {p.stem: p for p in sorted(FOLDER.rglob("*.py")) if p.stem != "__init__"}


def is_schedule_code(path: Path) -> bool:
    """What could register or list primitives: the room of schedules and the files above all rooms."""
    return path.is_relative_to(PACKAGE / "schedule") or path.parent == PACKAGE


@cache
def definitions(path: Path) -> dict[str, int]:
    """What is defined as a function or a variable, at the top of the file or in a class, and in which line."""
    tree, found = tree_of(path), dict[str, int]()
    for scope in (tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))):
        for node in scope.body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = node.lineno
            elif isinstance(node, ast.Assign):
                found |= {t.id: node.lineno for t in node.targets if isinstance(t, ast.Name)}
    return found


@cache
def listings(path: Path) -> dict[str, int]:
    """What stands as a string by itself, as in a table of names, and in which line."""
    return {
        n.value: n.lineno for n in ast.walk(tree_of(path)) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


SCHEDULING = [p for p in FILES if is_schedule_code(p)]


@pytest.mark.parametrize("name", OWN)
def test_a_primitive_is_one_file_with_its_name(name: str) -> None:
    home = PRIMITIVE_FILES[name]
    assert PRIMITIVES[name].__module__ == ".".join(home.relative_to(ROOT).with_suffix("").parts)
    for path in SCHEDULING:
        if path not in (home, stubs.PATH):
            line = definitions(path).get(name)
            assert line is None, f"{name_of(path)}:{line} defines {name}, whose place is {name_of(home)}"


@pytest.mark.parametrize("name", OWN)
def test_no_table_lists_a_primitive(name: str) -> None:
    other_meanings = {"parallel", "vectorize", "unroll", "multicast", "peel"}  # kinds of loops, and a tail of split
    if name in other_meanings:
        return
    for path in SCHEDULING:
        if path != PRIMITIVE_FILES[name]:
            line = listings(path).get(name)
            assert line is None, f"{name_of(path)}:{line} names the primitive {name} in a table"


def test_a_file_of_primitives_holds_the_one_it_is_called_after() -> None:
    for path in PRIMITIVE_FILES.values():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert [name for name, f in PRIMITIVES.items() if f.__module__ == module] == [path.stem]


def test_the_stub_is_up_to_date() -> None:
    assert stubs.PATH.read_text() == stubs.source(), "run python -m loopir.schedule.stubs"


def test_kernels_come_out_of_the_emitters() -> None:
    """No kernel is kept as a literal string."""
    holding = [p for p in FILES if "codegen" not in p.parts and "__global__" in p.read_text()]
    assert not [name_of(p) for p in holding if any("__global__" in x for x in listings(p))]


def test_files_do_not_leave_notes_to_self() -> None:
    notes = ("TODO", "FIXME", "XXX", "breakpoint()")
    assert not [name_of(p) for p in FILES if any(word in p.read_text() for word in notes)]


def test_no_leftovers_of_a_merge_lie_about() -> None:
    tops = ("loopir", "schedules", "tests", "benchmarks", "docs", "tutorials")
    assert not [p for top in tops for ending in ("orig", "rej") for p in (ROOT / top).rglob(f"*.{ending}")]
