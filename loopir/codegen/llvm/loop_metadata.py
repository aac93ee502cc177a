"""Decide which loops LLVM's loop passes may still unroll or vectorize, and disable them for the others by metadata.

Where the schedule has vectorized or unrolled every innermost loop and keeps reused values in registers, only
instruction selection is left: LLVM's loop passes, which take most of the compile time, would find nothing to do, and
are not run.

Metadata disables them for a loop that LLVM would unroll again, or would vectorize wrongly: in a loop with a branch,
LLVM's vectorizer (version 22.1, for one) takes a uniform division in an address from where lane 0 computes it, so
`if i <= j: y[j - i] = x[i % n]` reads x at an address that was never computed if the condition excludes lane 0.
Divisions by constants, which are most, are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loopir.codegen.llvm.ir_text import Module


def no_optimize_note(module: Module, *, divides: bool, unrolled: bool) -> str:
    """The metadata that disables LLVM's passes for a loop, if any.

    Vectorization is disabled for a loop with a branch that `divides` by something not constant; vectorization and
    unrolling for a loop with an `unrolled` loop inside, which would take half as long again to compile.
    """
    told: list[str] = []
    if unrolled or divides:
        told.append(module.note('!{!"llvm.loop.vectorize.enable", i1 false}'))
    if unrolled:
        told.append(module.note('!{!"llvm.loop.unroll.disable"}'))
    return module.own_note(*told) if told else ""


@dataclass
class LoopWork:
    """What a loop body contains: loops, unrolled copies, scalar accesses, or loop-invariant accesses."""

    depth: int
    loops: bool = False
    copies: int = 0
    single: bool = False
    again: bool = False


class RemainingWork:
    """Whether LLVM's loop passes have anything left to do."""

    def __init__(self) -> None:
        self.found = False
        self.around: list[LoopWork] = []
        self.fixed, self.moving = set[str](), set[str]()
        """Buffers on the stack, by whether an access is to an element that is known here: in registers, all are."""

    @contextmanager
    def loop(self, depth: int) -> Iterator[None]:
        """A loop whose variable is known at `depth`."""
        work = LoopWork(depth)
        if self.around:
            self.around[-1].loops = True
        self.around.append(work)
        yield
        self.around.pop()
        self.found |= not work.loops and (work.single or work.again)

    @contextmanager
    def copies(self) -> Iterator[None]:
        """Copies of what is in this context follow one another."""
        if self.around:
            self.around[-1].copies += 1
        yield
        if self.around:
            self.around[-1].copies -= 1

    def accessed(self, name: str, depth: int, *, stack: bool, wide: bool) -> None:
        """An element, or several if `wide`, is accessed by an address that is known at `depth`."""
        if stack:
            (self.moving if depth else self.fixed).add(name)
        if self.around:
            work = self.around[-1]
            work.single |= not wide and not work.copies
            work.again |= depth < work.depth and not (stack and depth == 0)

    @property
    def anything(self) -> bool:
        return self.found or bool(self.fixed & self.moving)
