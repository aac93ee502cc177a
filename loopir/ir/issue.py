"""An instruction as the hardware does it: operands come from lanes and addresses, and results go back to them.

This is how the interpreter runs a lowered kernel, so a wrong map of registers, a wrong address of a lane or a missing
barrier gives a wrong value or a race, as it would on the machine, and not what the loops said before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from loopir.ir.grammar import Arg, Fragment, Int
from loopir.ir.layouts import elements, evaluate, tile
from loopir.ir.ops import LANE, Instruction
from loopir.ir.spmd import Memory, Who
from loopir.ir.to_python import compiled

Cell = tuple[Memory, int]
"""A buffer, and the offset in it that an operand begins at."""


def perform(fn: Instruction, lanes: Sequence[Sequence[Cell]], domain: str, enter: Callable[[int], None]) -> None:
    """Do `fn` for the operands that each of `lanes` gives; `enter(lane)` says whose access comes next."""
    run = _Run()
    for n, a in enumerate(fn.meaning.args):
        whole = run.memory[a.buffer.name] = Memory(a.buffer.name, shape := _shape(a), [None] * prod(shape), Who())
        if a.access != "out":
            for lane, cells in enumerate(lanes):
                enter(lane)
                for element, offset in reached(fn, a, lane):
                    m, begin = cells[n]
                    whole.store(element, m.load((begin + offset,)))
    compiled(fn.meaning, domain).entry(run)
    for n, a in enumerate(fn.meaning.args):
        if a.access != "in":
            for lane, cells in enumerate(lanes):
                enter(lane)
                for element, offset in reached(fn, a, lane):
                    m, begin = cells[n]
                    m.store((begin + offset,), run.memory[a.buffer.name].load(element))
                    if fn.asynchronous:
                        m.who.copies(m, begin + offset)


def reached(fn: Instruction, a: Arg, lane: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """The elements of operand `a` that `lane` gives or gets, each with where it lies from where the operand begins."""
    layout, shape = a.buffer.layout, _shape(a)
    if isinstance(layout, Fragment):
        unit = tile(layout) or ()
        held = elements(layout)[lane]
        for n, corner in enumerate(np.ndindex(*(s // u for s, u in zip(shape, unit, strict=True)))):
            for register, x in enumerate(held):
                at = tuple(int(c * u + e) for c, u, e in zip(corner, unit, x, strict=True))
                yield at, n * layout.registers + register
        return
    aim = fn.pointers.get(a.buffer.name)
    if aim is None:
        yield (0,) * len(shape), 0
        return
    first = [evaluate(x, {LANE: lane}) for x in aim.at]
    for n in range(aim.run):
        yield (*first[:-1], first[-1] + n), n


def _shape(a: Arg) -> tuple[int, ...]:
    return tuple(d.value for d in a.buffer.shape if isinstance(d, Int))


class _Run:
    """What a compiled meaning wants of a run: its memory, and folds that nobody watches."""

    def __init__(self) -> None:
        self.memory: dict[str, Memory] = {}
        self.here: object = None

    def fold(self, m: Memory, at: tuple[int, ...], label: str) -> object:
        return m.load(at)

    def folded(self, label: str, at: tuple[int, ...]) -> None:
        return None
