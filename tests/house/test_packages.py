"""Packages inside a room import one way, too, and say in one line what they are for."""

import ast
from collections import defaultdict

import pytest
from exceptions_list import ROOT, statements_in, tree_of

PACKAGES = sorted(p.parent for top in ("loopir", "schedules") for p in (ROOT / top).rglob("__init__.py"))


def package_of(module: str) -> str:
    """The innermost package that `module` stands in, or is."""
    parts = module.split(".")
    while parts and not (ROOT.joinpath(*parts) / "__init__.py").exists():
        parts.pop()
    return ".".join(parts)


def imported(node: ast.ImportFrom, own: str) -> str:
    """The module that a file of package `own` imports from, in full."""
    parts = own.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def imports() -> dict[str, set[str]]:
    """By package inside a room, the other packages of that room that it imports: at run time, or for types alone."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in PACKAGES:
        own = ".".join(folder.relative_to(ROOT).parts)
        room = ".".join(own.split(".")[: 2 if own.startswith("loopir.") else 1])
        for path in folder.glob("*.py"):
            for node in statements_in(tree_of(path)):
                if isinstance(node, ast.ImportFrom) and path.stem != "__init__":
                    other = package_of(imported(node, own))
                    if other.startswith(room + ".") and own.startswith(room + ".") and other != own:
                        found[own].add(other)
    return found


def test_packages_of_a_room_import_one_way() -> None:
    needs, done = imports(), set[str]()
    left = set(needs)
    while ready := {p for p in left if needs[p] - done <= needs[p] - left}:
        done |= ready
        left -= ready
    assert not left, f"these import one another: { {p: sorted(needs[p] & left) for p in sorted(left)} }"


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_package_says_what_it_is_for(folder: object) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))  # type: ignore[operator]
    assert text
    assert len(text.splitlines()[0]) < 120
