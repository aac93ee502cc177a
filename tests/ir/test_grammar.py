"""The grammar in the module's docstring has every node under the name it has, and no other."""

import re

from loopir.ir import grammar, index
from loopir.ir.values import Value


def subclasses(sort: type) -> set[str]:
    return {c.__name__ for c in sort.__subclasses__()} | {n for c in sort.__subclasses__() for n in subclasses(c)}


def test_the_docstring_names_the_nodes() -> None:
    text = grammar.__doc__ or ""
    rules = text[text.index("    func   =") : text.index("Semantics.")]
    named = set(re.findall(r"\b[A-Z]\w+", re.sub(r"--.*", "", rules)))
    nodes = {n for sort in (grammar.Stmt, index.Index, index.Cond, Value) for n in subclasses(sort)}
    others = {"Func", "Size", "Arg", "Buffer", "Strided", "Mapped", "Fragment"}
    assert named == nodes - {"Sync"} | others  # the base of nodes that synchronize
