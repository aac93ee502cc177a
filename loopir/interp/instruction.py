"""Declare an instruction from a Python function, or a text, that is the nest it means.

    @lp.instruction(cuda="{C}[0] = __dp4a(*(const int*){A}, *(const int*){B}, {C}[0]);",
                    at={"A": lp.Pointer((0,), run=4), "B": lp.Pointer((0,), run=4)})
    def dp4a(A: "int8[4]", B: "int8[4]", C: "inout int32[1]"): ...

On a CPU the spelling is an LLVM intrinsic, or a text in LLVM's language:

    @lp.instruction(llvm="llvm.x86.avx512.vpdpbusd.512(C, A, B)", needs="avx512vnni")
    def vpdpbusd(A: "uint8[16, 4]", B: "int8[16, 4]", C: "inout int32[16]"): ...

Nothing in the compiler knows an instruction by name: `tensorize` matches a nest against the meaning, and registers and
addresses follow from the operands of the match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from loopir.errors import VerifyError
from loopir.interp.perform import operand_elements
from loopir.ir.grammar import Buffer, Fragment, Func, Index, IndexLike, Int, Load, Loop, Reduce, Store, Var, index
from loopir.ir.instr.llvm_text import is_llvm_text, llvm_text_fault
from loopir.ir.instr.match_nest import perfect_nest
from loopir.ir.layout.layouts import evaluate
from loopir.ir.ops import (
    INSTRUCTIONS,
    ISSUE_SCOPES,
    LANE,
    NUMBER,
    Async,
    Instruction,
    IssueScope,
    Major,
    OperandAddress,
)
from loopir.ir.parser.parse import meaning
from loopir.ir.traverse.walk import nodes


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address that an instruction takes for an operand in memory.

    It is that of an element, `(0, 0)`, which may depend on the lane of the warp or thread of the warpgroup,
    `lambda lane: (lane % 16, 0)`. From there `run` elements, a power of two, are contiguous and aligned to their size
    together: row after row, if a row is shorter than the run, or in the given `order` of their numbers. With `rows`, a
    run is one row of a matrix, and the row stride is that of the buffer."""

    at: tuple[IndexLike, ...] | Callable[[Var], tuple[IndexLike, ...]]
    run: int = 1
    order: Callable[[Var], tuple[Index, ...]] | None = None
    rows: bool = False

    def aim(self) -> OperandAddress:
        at = self.at(Var(LANE)) if callable(self.at) else self.at
        order = self.order(Var(NUMBER)) if self.order is not None else ()
        return OperandAddress(tuple(map(index, at)), self.run, tuple(map(index, order)), self.rows)


def instruction(
    *,
    level: IssueScope = "thread",
    cuda: str = "",
    cuda_prelude: str = "",
    llvm: str = "",
    at: Mapping[str, Pointer] | None = None,
    asynchronous: Async = "",
    doc: str = "",
    matrices: Mapping[str, Major] | None = None,
    boxed: tuple[str, str] | None = None,
    arch: str = "",
    cuda_blocks: str = "",
    needs: str | tuple[str, ...] = (),
) -> Callable[[Callable[..., Any] | str], Instruction]:
    """Make an Instruction of a nest of constant loops around one statement, given as a function or as text.

    `Instruction` documents the arguments. Raises VerifyError for a nest that cannot be a meaning: each operand has to
    be indexed by loops of its own, one for each dimension, over all of it; and for an LLVM text that cannot be its
    spelling. `loopir.testing.check_instruction` tries the spelling against the meaning.
    """

    def make(program: Callable[..., Any] | str) -> Instruction:
        func = meaning(program)
        _require_plain(func)
        pointers = _operand_pointers(func, at or {}, level, llvm, bool(cuda))
        kinds: dict[str, Major] = dict(matrices or {})
        about = doc or (program.__doc__ or "" if callable(program) else "")
        given = (
            func.name, func, level, cuda, cuda_prelude, pointers, asynchronous, about, kinds, boxed,
            arch, llvm, cuda_blocks, (needs,) if isinstance(needs, str) else tuple(needs),
        )  # fmt: skip
        known = INSTRUCTIONS.get(func.name)
        if known is not None and given == tuple(getattr(known, f.name) for f in fields(known)):
            return known  # a cell of a notebook is run again
        made = Instruction(*given)
        if cuda or llvm:
            _require_reach(made)
        return made

    return make


def _operand_pointers(
    func: Func, at: Mapping[str, Pointer], level: IssueScope, llvm: str, cuda: bool
) -> dict[str, OperandAddress]:
    """The addresses that are given, and for an LLVM text those of the other operands. Refuse what is none."""
    pointers = {name: pointer.aim() for name, pointer in at.items()}
    for name, pointer in pointers.items():
        shapes = {a.buffer.name: len(a.buffer.shape) for a in func.args}
        if shapes.get(name) != len(pointer.at) or pointer.run < 1 or pointer.run & (pointer.run - 1):
            raise VerifyError(f"{func.name}: {name} is no operand with an element {pointer.at}, run a power of two")
    if not is_llvm_text(llvm):
        return pointers
    _require_text(func, llvm, level)
    if odd := next((name for name, pointer in pointers.items() if pointer.order), None):
        raise VerifyError(f"{func.name}: an LLVM text takes {odd} row after row; leave order= out")
    # on a GPU the spelling may load whole vectors: there, at= says how operands lie, and they are aligned
    return pointers if cuda else _whole_operands(func) | pointers


def _require_text(func: Func, text: str, level: IssueScope) -> None:
    """Refuse an LLVM text that is no spelling of `func`."""
    if level != "thread":
        raise VerifyError(f"{func.name}: on a CPU a thread issues it, and no {level}; leave level= out")
    if (fault := llvm_text_fault(text, func)) is not None:
        raise VerifyError(f"{func.name}: {fault}")


def _whole_operands(func: Func) -> dict[str, OperandAddress]:
    """The addresses of operands for an LLVM text, which loads a row, or rows equally far from each other."""
    shapes = {a.buffer.name: tuple(evaluate(d, {}) for d in a.buffer.shape) for a in func.args}
    return {
        name: OperandAddress((Int(0),) * len(shape), shape[-1], rows=len(shape) > 1, aligned=False)
        for name, shape in shapes.items()
        if shape
    }


def _require_reach(fn: Instruction) -> None:
    """The addresses that are given tell the instruction where every element lies."""
    for a in fn.meaning.args:
        if a.buffer.name in (*fn.matrices, *(fn.boxed or ())) or isinstance(a.buffer.layout, Fragment):
            continue  # descriptors, tensor maps and registers tell of every element
        lanes = range(ISSUE_SCOPES[fn.level])
        found = {element for lane in lanes for element, _ in operand_elements(fn, a, lane)}
        if found != set(np.ndindex(*(evaluate(d, {}) for d in a.buffer.shape))):
            del INSTRUCTIONS[fn.name]
            spelt = f"; llvm={fn.llvm!r} is neither a call of an intrinsic nor a function's body" if fn.llvm else ""
            raise VerifyError(
                f"{fn.name}: the addresses of {a.buffer.name} do not tell where all of it is; see Pointer{spelt}"
            )


def _require_plain(func: Func) -> None:
    """Refuse a nest that cannot be the meaning of an instruction."""
    loops, stmt = _plain_nest(func)
    extents = {x.var: x.extent for x in loops}
    targets = stmt.buffers
    accesses = [(b, stmt.at) for b in targets]
    accesses += [(n.buffer, n.at) for n in nodes(stmt) if isinstance(n, Load)]
    for b, at in accesses:
        _require_whole(func.name, b, [extents.get(x.name) if isinstance(x, Var) else None for x in at], at)
    unused = {a.buffer.name for a in func.args} - {b.name for b, _ in accesses}
    if unused:
        raise VerifyError(f"{func.name}: operand {min(unused)} is never used")


def _plain_nest(func: Func) -> tuple[list[Loop], Store | Reduce]:
    """The loops and the statement of a perfect nest of serial loops with constant extents; refuse any other."""
    loops, stmt = perfect_nest(func.body)
    if stmt is None or func.sizes or not loops:
        raise VerifyError(f"{func.name}: an instruction means loops right inside one another around one statement")
    if any(not isinstance(x.extent, Int) or x.extent.value < 1 or x.kind != "serial" for x in loops):
        raise VerifyError(f"{func.name}: the loops of an instruction are serial, with a constant extent of 1 or more")
    if isinstance(stmt, Reduce) and (stmt.over or stmt.init is not None):
        raise VerifyError(f"{func.name}: an instruction folds into what is there; it has no over= and no init=")
    return loops, stmt


def _require_whole(name: str, b: Buffer, extents: list[object], at: tuple[object, ...]) -> None:
    if len(set(map(repr, at))) != len(at) or extents != list(b.shape):
        raise VerifyError(f"{name}: operand {b.name} is indexed by loops, one over the whole of each dimension")
