"""tensorize: a nest that does what an instruction means is done by that instruction."""

from __future__ import annotations

from difflib import get_close_matches

from loopir.analysis.regions.operands import operand_misfit
from loopir.errors import ScheduleError
from loopir.ir.grammar import Buffer, Fragment, Func, InstrRegion
from loopir.ir.instr.match_nest import Match, misplaced_operand, unify
from loopir.ir.layout.layouts import is_tiled, register_tile
from loopir.ir.ops import INSTRUCTIONS, Instruction, find_instruction
from loopir.ir.traverse.walk import replace, replace_buffers, replace_loop
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.schedule import primitive


@primitive
def tensorize(func: Func, loop: str, instruction: str) -> Func:
    """Have the nest of `loop` done by `instruction`, whose meaning it has to be: the same fold or store of the same
    value, in loops of the same extents, whatever their names and order, of operands whose elements follow one another.

    The operands have to be in the memory that the instruction takes them from. Fragments, which the lanes of a warp
    hold in registers, get the layout that the first instruction on them wants. The nest stays what it says: where a
    target has no such instruction, its loops run.

    before:
        def f(A: "int8[8, 32]", B: "int8[32]", C: "out int32[8]"):
            for i in range(8):
                for ko in range(8):
                    for ki in range(4):
                        C[i] = sum(int32(B[ko * 4 + ki]) * int32(A[i, ko * 4 + ki]), over=(ko, ki), init=0)
    call:    tensorize("ki", "dp4a")
    after:
        def f(A: "int8[8, 32]", B: "int8[32]", C: "out int32[8]"):
            for i in range(8):
                for ko in range(8):
                    with dp4a():
                        for ki in range(4):
                            C[i] = sum(int32(B[ko * 4 + ki]) * int32(A[i, ko * 4 + ki]), over=(ko, ki), init=0)
    refuses: tensorize("ki", "dp5a")  # there is no instruction 'dp5a'
    refuses: tensorize("ko", "dp4a")  # its loops run k 4 times, and here are ko 8, ki 4

    before:
        def g(A: "int8[30]", B: "int8[30]", C: "inout int32[1]"):
            for k in range(4):
                C[0] += int32(A[2 * k]) * int32(B[k])
    refuses: tensorize("k", "dp4a")  # index 2 * k of A is not an offset, alone or plus one of its loops
    """
    fn = _called(instruction)
    target = find_loop(func, loop)
    found = unify(fn, (target,))
    if isinstance(found, str):
        raise ScheduleError(
            f"the nest of {target.var!r} is not what {fn.name} does: {found}",
            loop=loop,
            suggestion="split, reorder and set_scope until it is, or another instruction",
        )
    func = _with_layouts(func, fn, found)
    target = find_loop(func, target.var)
    found = unify(fn, (target,))
    assert isinstance(found, Match)
    if (odd := misplaced_operand(fn, found)) is not None:
        raise ScheduleError(f"{fn.name} cannot do this: {odd}", loop=loop, suggestion=_memory(fn, found))
    if (odd := operand_misfit(fn, found, Facts.at(func, target).known)) is not None:
        raise ScheduleError(
            f"{fn.name} cannot do this: {odd}", loop=loop, suggestion="another layout or tile of the operand"
        )
    return replace_loop(func, target.var, lambda s: InstrRegion(fn, (s,)))


def _called(name: str) -> Instruction:
    found = find_instruction(name)
    if found is None:
        known = sorted(INSTRUCTIONS)
        like = [k for k in known if name and name in k] or get_close_matches(name, known, n=5)
        listed = join_names(like[:5]) if like else "docs/instructions.md lists them"
        raise ScheduleError(
            f"there is no instruction {name!r} among the {len(known)} there are",
            suggestion=f"{listed}, or one of your own by lp.instruction",
        )
    return found


def _with_layouts(func: Func, fn: Instruction, found: Match) -> Func:
    """`func` with the fragments that have no layout yet laid out as `fn` wants them."""
    new: dict[str, Buffer] = {}
    for a in fn.meaning.args:
        b, layout = found.operands[a.buffer.name].buffer, a.buffer.layout
        if not isinstance(layout, Fragment) or b.scope != "fragment" or b.layout is not None:
            continue
        if not is_tiled(layout, b.shape):
            unit = " x ".join(map(str, register_tile(layout) or ()))
            shape = ", ".join(map(str, b.shape))
            raise ScheduleError(
                f"{b.name}, of shape ({shape}), is not made of the tiles of {unit} that {fn.name} takes",
                suggestion=f"a multiple of {unit}",
            )
        new[b.name] = replace(b, layout=layout)
    return replace_buffers(func, new) if new else func


def _memory(fn: Instruction, found: Match) -> str:
    """The steps that would put the operands where `fn` wants them."""
    wrong = [
        f"set_scope({o.buffer.name!r}, {p.scope!r})"
        for p, o in ((a.buffer, found.operands[a.buffer.name]) for a in fn.meaning.args)
        if p.scope not in ("any", o.buffer.scope)
    ]
    return " and ".join(wrong) + ", or a copy there by cache_read or cache_write" if wrong else "another layout"
