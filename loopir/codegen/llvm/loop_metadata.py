"""Loop metadata for LLVM: which loops it may still unroll or vectorize.

Where every loop that has no loop inside is vectors, or copies that the schedule unrolled, and keeps what it uses again
in registers, there is nothing left but to choose instructions: the passes that make faster loops are most of the time
that LLVM takes, and would find nothing.

Left alone is a loop that LLVM would get wrong as a vector, or unroll once more.

Where a loop has a branch, LLVM's vectorizer (22.1 does) takes a division on the way to an address, if it is the same in
all lanes, from where lane 0 does it: `if i <= j: y[j - i] = x[i % n]` reads x at an address that nobody computed where
the condition leaves out the first lane. Divisions by constants it does anywhere, and those are most.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loopir.codegen.llvm.ir_text import Module


def no_optimize_note(module: Module, *, divides: bool, unrolled: bool) -> str:
    """A note that has LLVM leave a loop alone, if it is to; else nothing.

    It is no vector if it has a branch and `divides` by what is no constant. It is none either, nor unrolled, if a loop
    in it is `unrolled` by now: so much was asked for, and more of it takes half as long again to compile.
    """
    told: list[str] = []
    if unrolled or divides:
        told.append(module.note('!{!"llvm.loop.vectorize.enable", i1 false}'))
    if unrolled:
        told.append(module.note('!{!"llvm.loop.unroll.disable"}'))
    return module.own_note(*told) if told else ""


@dataclass
class LoopWork:
    """What a loop does itself: whether there are loops in it, copies of what, elements one at a time, or the same
    element of memory in each iteration."""

    depth: int
    loops: bool = False
    copies: int = 0
    single: bool = False
    again: bool = False


class RemainingWork:
    """Whether anything is left to do for passes that make loops faster."""

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
