"""The statement of a simplification rule, which the tests prove for all integers by integer sets.

Each rule is registered with its statement; `RULES` has all of them, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RuleStatement:
    """`claim` holds for all integers where `where` does, both as the text of conditions.

    The names in `constants` are numbers of at least 1: the statement is proved for each of many values, and for
    every integer value of the other names.
    """

    claim: str
    where: str = ""
    constants: str = ""


RULES: dict[str, RuleStatement] = {}


def rule(name: str, claim: str, where: str = "", constants: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Put the statement of a rewriting function into `RULES`."""

    def register(f: Callable[P, R]) -> Callable[P, R]:
        RULES[name] = RuleStatement(claim, where, constants)
        return f

    return register
