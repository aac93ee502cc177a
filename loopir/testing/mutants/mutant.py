"""What a mutant is: a rule of ours, the fault put into it, and the programs and steps that are to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from loopir.testing.mutants.patch import patched

Hunt = Callable[[st.DataObject], None]
"""One example: draws a program and steps, raises Wrong if an oracle is against what comes out."""


@dataclass(frozen=True)
class Mutant:
    """A fault in one rule: in the function `where`, `old` is replaced by `new`.

    `equivalent` says why no program can tell the difference, where that is so.
    """

    name: str
    fault: str
    where: str
    old: str
    new: str
    hunt: Hunt
    equivalent: str = ""
    family: str = ""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Everything in the with-block runs with the fault."""
        with patched(self.where, self.old, self.new):
            yield


def family(name: str, *mutants: Mutant) -> tuple[Mutant, ...]:
    """The mutants as those of one family."""
    return tuple(replace(m, family=name) for m in mutants)
