"""Names are the field's: no word of a dialect as a name, and no name that stands for many things."""

import ast
from collections import defaultdict
from functools import cache

from exceptions_list import SOURCES, listed, name_of, tree_of

DIALECT = {
    "alike", "along", "apart", "asked", "at_once", "began", "begun", "beside", "came", "cut", "dealt", "held", "here",
    "holds", "kept", "lent", "meant", "met", "near", "now", "once", "put", "rooms", "said", "settled", "share",
    "spoken",
    "spoilt", "taken", "there", "tied", "together", "told", "turned", "turns", "under_way", "unsure", "way", "whole",
}  # fmt: skip
"""Participles, adverbs and everyday words that said what no textbook's index would: docs/glossary.md has the terms."""
EVERYWHERE = {"main", "__all__"}
"""What each file may have: entry points. Type variables, too, are of their file alone."""
MOST_FILES = 3


@cache
def definitions() -> dict[str, list[str]]:
    """By name the files that define it at their top."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in tree_of(path).body:
            for name in names_in(node):
                found[name].append(name_of(path))
    return found


def names_in(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign) and not is_type_variable(node.value):
        return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def is_type_variable(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("TypeVar", "ParamSpec")
    )


def in_many_files() -> dict[str, int]:
    return {n: len(f) for n, f in definitions().items() if len(f) > MOST_FILES and n not in EVERYWHERE}


def dialect_words() -> dict[str, str]:
    """Names, and files, that are a word of the dialect."""
    names = {f"{f}::{n}": "" for n, files in definitions().items() if n.strip("_").lower() in DIALECT for f in files}
    return names | {name_of(p): "" for p in SOURCES if p.stem in DIALECT}


def test_no_name_is_defined_in_many_files() -> None:
    new = {n: definitions()[n] for n in in_many_files() if n not in listed("many_files")}
    assert not new, f"say what each is, or what it is of: {new}"


def test_no_name_is_a_word_of_the_dialect() -> None:
    new = [n for n in dialect_words() if n not in listed("dialect")]
    assert not new, f"docs/glossary.md has the field's words: {new}"


def test_the_lists_shrink() -> None:
    gone = set(listed("many_files")) - set(in_many_files())
    assert not gone, f"take these out of tests/house/exceptions.toml: {gone}"
    gone = set(listed("dialect")) - set(dialect_words())
    assert not gone, f"take these out of tests/house/exceptions.toml: {gone}"
