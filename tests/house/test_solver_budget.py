"""Every question to isl has a budget: one file knows islpy, and makes what is made in a context of its own."""

import ast
from pathlib import Path

from exceptions_list import ROOT, tree_of

PACKAGE = ROOT / "loopir"
SOLVER = PACKAGE / "analysis" / "presburger" / "solver.py"
ORACLE = PACKAGE / "testing" / "oracles" / "isl_points.py"
"""What the tests hold the analysis against, which asks isl by itself, in isl's default context."""
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p not in (SOLVER, ORACLE))
OF_CONTEXTS = {"Context", "DEFAULT_CONTEXT", "Val", "Mat", "Set", "Map", "BasicSet", "BasicMap", "UnionSet", "UnionMap",
               "Space", "Aff", "PwAff", "Id"}  # fmt: skip
"""What is made of text or numbers alone is made in the default context, unless it is told another."""


def test_nothing_goes_round_the_budget() -> None:
    for path in FILES:
        if "isl" in path.read_text():
            asks_by_the_budget(path)


def asks_by_the_budget(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            assert all(alias.name != "islpy" for alias in node.names), f"{where} imports islpy; ask {SOLVER.name}"
        if isinstance(node, ast.ImportFrom):
            assert node.module != "islpy", f"{where} imports islpy; ask {SOLVER.name}"
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "isl":
            made = isinstance(node, ast.Call) and called.attr in OF_CONTEXTS
            assert not made, f"{where} makes a {called.attr} in no context of ours; {SOLVER.name} does that"
            other = {"DEFAULT_CONTEXT", "alloc", "set_alloc", "int_from_si"}
            assert called.attr not in other, f"{where} uses {called.attr}; {SOLVER.name} makes what is in a context"
