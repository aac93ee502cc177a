"""What the rules of the house read: sources as trees, and what is let pass for now.

`exceptions.toml` has lists that are to shrink and never to grow. A rule is one test of all files, and collects what is
wrong: a test for each of 500 files costs more than what it looks at.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = Path(__file__).with_name("exceptions.toml")
SOURCES = sorted(p for top in ("loopir", "schedules") for p in (ROOT / top).rglob("*.py"))


def listed(rule: str) -> dict[str, str]:
    """By name what is let pass by `rule`, with the reason."""
    return tomllib.loads(PATH.read_text()).get(rule, {})


@cache
def tree_of(path: Path) -> ast.Module:
    """The source of `path`, parsed once for all rules of a test file (`conftest.py` forgets it after that)."""
    return ast.parse(path.read_text())


def statements_in(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement in `tree`, in order, without its expressions, which are nine nodes of ten."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for node in getattr(tree, part, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from statements_in(node)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))
