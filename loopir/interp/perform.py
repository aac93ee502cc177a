"""Perform an instruction as the hardware does: gather operands from lanes and addresses, scatter results.

The interpreter runs the instructions of a lowered kernel in this way, so a wrong register map, lane address or
descriptor, or a missing barrier, gives a wrong value or a race as on the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from loopir.interp.array_meaning import array_meaning
from loopir.interp.checked_memory import CheckedMemory, Fault, MBarrierState
from loopir.interp.to_python import compiled
from loopir.ir.grammar import LANES, Arg, Fragment, Int
from loopir.ir.layout.layouts import evaluate, fragment_elements, register_tile
from loopir.ir.layout.smem_descriptors import MatrixDescriptor, swizzle_byte
from loopir.ir.ops import LANE, NUMBER, Instruction, OperandAddress

Cell = tuple[CheckedMemory, int]
"""A buffer, and the offset in it that an operand begins at."""


@dataclass(frozen=True, slots=True)
class BoxAt:
    """A box of a global array: its first element, its size along each dimension, and the bytes of a swizzled row in
    shared memory, or 0."""

    corner: tuple[int, ...]
    sizes: tuple[int, ...]
    span: int


def perform(
    fn: Instruction,
    words: Mapping[str, int],
    lanes: Sequence[Sequence[Cell]],
    domain: str,
    enter: Callable[[int], None],
    boxes: Mapping[str, BoxAt] | None = None,
    slot: MBarrierState | None = None,
) -> None:
    """Execute `fn` on the operands given by each of `lanes`; `enter(lane)` is called before that lane's accesses.

    `boxes` are the operands that are boxes of global arrays; a copy of one to shared memory has arrived when a phase of
    the mbarrier `slot` completes.
    """
    boxes = boxes or {}
    span = next((box.span for box in boxes.values()), None)
    held: dict[str, list[Any]] = {}
    for n, a in enumerate(fn.meaning.args):
        whole = held[a.buffer.name] = [None] * prod(_shape(a))
        for lane, cells in enumerate(lanes if a.access != "out" else ()):
            enter(lane)
            m, begin = cells[n]
            if (box := boxes.get(a.buffer.name)) is not None:
                whole[:] = [m.zero if x is None else m.peek(x) for _, x in _boxed(_shape(a), m, box)]
                continue
            numbers, at = _supplied(fn, n, lane, begin, words.get(a.buffer.name), span)
            for number, value in zip(numbers, m.taken_all(at, fn.asynchronous, a.access == "in"), strict=True):
                whole[number] = value
    held |= _computed(fn, domain, held)
    for n, a in enumerate(fn.meaning.args):
        whole = held[a.buffer.name]
        for lane, cells in enumerate(lanes if a.access != "in" else ()):
            enter(lane)
            m, begin = cells[n]
            if (box := boxes.get(a.buffer.name)) is not None:
                inside = [(x, v) for (_, x), v in zip(_boxed(_shape(a), m, box), whole) if x is not None]
                m.given_all([x for x, _ in inside], [v for _, v in inside], fn.asynchronous)
                continue
            numbers, at = _supplied(fn, n, lane, begin, words.get(a.buffer.name), span)
            m.given_all([(cell,) for cell in at], [whole[k] for k in numbers], fn.asynchronous, slot)


def _computed(fn: Instruction, domain: str, held: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """What the meaning of `fn` writes, by operand, row after row, from what the operands hold."""
    known = array_meaning(fn, domain)
    read = [held[a.buffer.name] for a in fn.meaning.args if a.access != "out"]
    if known is not None and not any(x is None for cells in read for x in cells):
        return known(held)
    run = _Run()
    for a in fn.meaning.args:
        operand = run.memory[a.buffer.name] = _Operand(a.buffer.name)
        if a.access != "out":
            operand.values.update(zip(_every(_shape(a)), held[a.buffer.name], strict=True))
    compiled(fn.meaning, domain).entry(run)
    return {
        a.buffer.name: [run.memory[a.buffer.name].peek(at) for at in _every(_shape(a))]
        for a in fn.meaning.args
        if a.access != "in"
    }


def _supplied(
    fn: Instruction, n: int, lane: int, begin: int, word: int | None, span: int | None
) -> tuple[Sequence[int], Sequence[int]]:
    """The elements of operand `n` that `lane` supplies or receives, numbered row after row, and their offsets."""
    a = fn.meaning.args[n]
    if span is not None or (word is not None and a.buffer.name not in fn.pointers):
        return _numbered(fn, n, lane, begin, word, span)  # where they lie, the address tells, too
    numbers, at = _numbered(fn, n, lane, 0, word, None)
    return numbers, [begin + x for x in at]


@lru_cache(maxsize=4096)
def _numbered(
    fn: Instruction, n: int, lane: int, begin: int, word: int | None, span: int | None
) -> tuple[Sequence[int], Sequence[int]]:
    a = fn.meaning.args[n]
    shape = _shape(a)
    found = list(operand_elements(fn, a, lane, begin, word) if span is None else _box_rows(a, begin, span))
    if not found:
        return (), ()
    elements = np.array([element for element, _ in found])
    numbers: list[int] = np.ravel_multi_index(tuple(elements.T), shape).ravel().tolist()
    return numbers, [cell for _, cell in found]


def elements_per_run(shape: tuple[int, ...], run: int) -> tuple[int, ...]:
    """The shape of a run of so many elements in an operand: several rows, if it is longer than one."""
    out: list[int] = []
    for size in reversed(shape):
        out.insert(0, min(size, run) if len(out) < len(shape) - 1 else run)
        run = max(1, run // out[0])
    return tuple(out)


def operand_elements(
    fn: Instruction, a: Arg, lane: int, begin: int = 0, word: int | None = None
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The elements of operand `a` that `lane` supplies or receives, each with its offset, for an operand from `begin`.

    A matrix given by a descriptor is read once for each warp, by its first lane; of a matrix in rows, `word` is the row
    stride.
    """
    layout, shape = a.buffer.layout, _shape(a)
    if isinstance(layout, Fragment):
        for n, at in enumerate(_registers(layout, shape)[lane]):
            yield at, begin + n
        return
    aim = fn.pointers.get(a.buffer.name)
    if word is not None and aim is None:
        if lane % LANES == 0:
            yield from _matrix_elements(a, begin, word)
        return
    if aim is None:
        yield (0,) * len(shape), begin
        return
    first = [int(evaluate(x, {LANE: lane})) for x in aim.at]
    if aim.rows:
        yield from ((at, begin + at[0] * (word or 0) + at[1]) for at in _every(shape))
        return
    if aim.order:
        yield from zip(in_memory_order(aim), range(begin, begin + aim.run), strict=True)
        return
    tile_ = (1,) * len(shape) if aim.run == 1 else elements_per_run(shape, aim.run)
    for n, at in enumerate(_every(tile_)):
        yield tuple(x + y for x, y in zip(first, at, strict=True)), begin + n


@lru_cache(maxsize=64)
def in_memory_order(aim: OperandAddress) -> list[tuple[int, ...]]:
    """The elements of an operand in memory order."""
    numbers = np.arange(aim.run)
    found = [evaluate(x, {NUMBER: numbers}) + 0 * numbers for x in aim.order]
    return [tuple(int(x) for x in at) for at in zip(*found, strict=True)]


@lru_cache(maxsize=256)
def _every(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The elements of an array, row after row."""
    return list(product(*map(range, shape)))


@lru_cache(maxsize=256)
def _registers(layout: Fragment, shape: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """By lane, the element that each of its registers has: tile after tile of the layout."""
    unit = register_tile(layout) or ()
    corners = _every(tuple(s // u for s, u in zip(shape, unit, strict=True)))
    return [
        [tuple(c * u + e for c, u, e in zip(corner, unit, x, strict=True)) for corner in corners for x in held]
        for held in fragment_elements(layout).tolist()
    ]


def _boxed(
    shape: tuple[int, ...], m: CheckedMemory, box: BoxAt
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """The elements of an operand of such a shape that is a box, each with where it is in the array; None outside of
    that."""
    for at, offsets in zip(_every(shape), _every(box.sizes), strict=True):
        there = tuple(c + x for c, x in zip(box.corner, offsets, strict=True))
        inside = all(0 <= x < size for x, size in zip(there, m.shape))
        yield at, there if inside else None


def _box_rows(a: Arg, begin: int, span: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Where the elements of a box come to lie: rows one after the other, swizzled if they are of `span` bytes."""
    size, shape = a.buffer.dtype.bytes, _shape(a)
    plain = begin * size + np.arange(prod(shape)).reshape(shape) * size
    cells = (swizzle_byte(plain, span) if span else plain) // size
    return zip(_every(shape), cells.ravel().tolist(), strict=True)


def _matrix_elements(a: Arg, begin: int, word: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """The elements of a matrix that the descriptor `word` tells of; its memory begins at a multiple of 1,024 bytes."""
    size, shape = a.buffer.dtype.bytes, _shape(a)
    rows, columns = np.indices(shape)
    cells = MatrixDescriptor.of(word).lies(begin * size, rows, columns, size) // size
    return zip(_every(shape), cells.ravel().tolist(), strict=True)


def _shape(a: Arg) -> tuple[int, ...]:
    return tuple(d.value for d in a.buffer.shape if isinstance(d, Int))


class _Operand:
    """An operand of an instruction that is being executed. Accesses need no bounds check: the loops of a meaning run
    over exactly its operands."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[tuple[int, ...], Any] = {}
        self.peek, self.store = self.values.get, self.values.__setitem__

    def load(self, at: tuple[int, ...]) -> Any:
        value = self.values.get(at)
        if value is None:
            raise Fault(f"reads {self.name}[{', '.join(map(str, at))}], which nothing has written")
        return value


class _Run:
    """The part of a run that a compiled meaning uses: memory, and unchecked folds."""

    def __init__(self) -> None:
        self.memory: dict[str, _Operand] = {}
        self.here: object = None

    def fold(self, m: _Operand, at: tuple[int, ...], label: str) -> object:
        return m.load(at)

    def folded(self, label: str, at: tuple[int, ...]) -> None:
        return None
