"""A fault put into one function of loopir while it runs: a few characters of its source exchanged, and put back.

The function keeps its identity, only its code is swapped, so that everything that has imported it, wrapped it or
stored it meets the fault. The text that is exchanged has to stand in the source exactly once: a rule that was
rewritten breaks the mutant loudly, by name, instead of leaving it without effect.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from loopir.arith.simplify import clear_caches
from loopir.schedule.core.primitive import forget_made


class Stale(AssertionError):
    """The text that a mutant exchanges does not stand in the function any more, or not once."""


@contextmanager
def patched(where: str, old: str, new: str) -> Iterator[None]:
    """Run with `old` replaced by `new` in the function `where`, such as "analysis.dependence.depend:conflicts"."""
    function = function_at(where)
    code = function.__code__
    faulty = _compiled(function, where, old, new)
    forget_answers()
    function.__code__ = faulty
    try:
        yield
    finally:
        function.__code__ = code
        forget_answers()


def function_at(where: str) -> FunctionType:
    """The plain function at "room.file:name" or "room.file:Class.name", under whatever decorates it."""
    module, _, path = where.partition(":")
    found: Any = sys.modules[f"loopir.{module}"]
    for name in path.split("."):
        if name not in vars(found):
            raise Stale(f"{where} is no more. A mutant exchanges some of it: write the mutant anew.")
        found = vars(found)[name]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        match found:
            case staticmethod() | classmethod():
                found = found.__func__
            case property():
                found = found.fget
            case cached_property():
                found = found.func
            case _:
                found = getattr(found, "__wrapped__")  # noqa: B009
    return found


def _compiled(function: FunctionType, where: str, old: str, new: str) -> CodeType:
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise Stale(f"{where} has {source.count(old)} times\n\n{old}\n\nA mutant exchanges it: write the mutant anew.")
    tree = ast.parse(source.replace(old, new))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    flags = __future__.annotations.compiler_flag
    scope: dict[str, Any] = {}
    exec(compile(tree, f"<mutant of {where}>", "exec", flags=flags, dont_inherit=True), function.__globals__, scope)
    return scope[definition.name].__code__


def forget_answers() -> None:
    """Drop what was worked out with other rules: the answers of every cache in loopir, and what steps have made."""
    clear_caches()
    forget_made()
    for name, module in list(sys.modules.items()):
        if name.startswith("loopir."):
            for value in list(vars(module).values()):
                if callable(value) and callable(clear := getattr(value, "cache_clear", None)):
                    clear()
