"""Say above a kernel what it launches: its blocks and threads, what a block writes, and where it holds its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from textwrap import wrap

from loopir.codegen.cuda.layout_text import LINE_WIDTH
from loopir.ir.grammar import AXES, Alloc, Body, Buffer, Index, InstrCall, Int, Kernel, Loop, Reduce, Store
from loopir.ir.layout.shared_memory import bytes_of, elements_of
from loopir.ir.printer import text
from loopir.ir.traverse.walk import bodies, statements

GRID = "blockIdx"


def launch_comment(kernel: Kernel, grid: tuple[Index, ...], block: tuple[int, ...], dynamic: int) -> list[str]:
    """The lines of comment above `kernel`, a block of which has `dynamic` bytes of shared memory, or static ones.

    Of a global buffer it says how many elements a block stores at most, which is the tile that it makes.
    """
    sizes = (" x ".join(x for x in axes if x != "1") or "1" for axes in (map(text, grid), map(str, block)))
    blocks, threads = sizes
    lines = [f"{kernel.name}: {blocks} blocks of {threads} threads"]
    stored: dict[str, int] = {}
    _count_stored(kernel.body, 1, stored)
    if stored:
        lines.append("a block writes at most " + ", ".join(f"{n} elements of {name}" for name, n in stored.items()))
    lines += _memories([s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)], dynamic)
    return [f"// {lines[0]}", *(f"// {y}" for x in lines[1:] for y in wrap(x, LINE_WIDTH - 3, subsequent_indent="  "))]


def _memories(allocated: Sequence[Buffer], dynamic: int) -> list[str]:
    """What a block has in shared memory, and what a thread has for itself, arrays alone."""
    lines: list[str] = []
    if shared := [b for b in allocated if b.scope == "shared"]:
        held = f"{dynamic} bytes" if dynamic else "static"
        lines.append(f"shared memory, {held}: " + ", ".join(f"{b.name} {bytes_of(b)}" for b in shared))
    if mine := [b for b in allocated if b.scope != "shared" and elements_of(b) > 1]:
        lines.append("a thread holds " + ", ".join(f"{b.name} {elements_of(b)} x {b.dtype.name}" for b in mine))
    return lines


def _count_stored(body: Body, times: int, found: dict[str, int]) -> None:
    """Add to `found`, by global buffer, the elements that the statements of `body`, run so many `times`, store at most;
    of several stores the most, as they are mostly of one tile in several ways."""
    for s in body:
        if isinstance(s, Loop):
            runs = s.extent.value if isinstance(s.extent, Int) and not (s.kind in AXES and GRID in s.kind) else 1
            _count_stored(s.body, times * runs, found)
            continue
        for name, count in _stored_by(s).items():
            found[name] = max(found.get(name, 0), times * count)
        for inner in bodies(s):
            _count_stored(inner, times, found)


def _stored_by(s: object) -> Mapping[str, int]:
    """How many elements of which global buffers the statement `s` stores itself."""
    if isinstance(s, Store) and s.buffer.scope == "global":
        return {s.buffer.name: 1}
    if isinstance(s, Reduce):
        return {b.name: 1 for b in s.buffers if b.scope == "global"}
    if isinstance(s, InstrCall):
        written = {a.buffer.name for a in s.fn.meaning.args if a.access != "in"}
        return {b.buffer.name: prod(b.sizes) for b in s.boxes if b.name in written}
    return {}


def with_registers(source: str, registers: Mapping[str, int]) -> str:
    """`source` with the registers of a thread, by kernel, in the comments above kernels."""
    lines = source.split("\n")
    heads = {f"// {name}: ": n for name, n in registers.items()}
    for at, line in enumerate(lines):
        n = next((n for head, n in heads.items() if line.startswith(head)), None)
        if n is not None and " threads" in line:
            lines[at] = f"{line}, {n} registers a thread"
    return "\n".join(lines)
