"""How a person's names are looked up in a nest: loops, stages and buffers, with what is there when one is not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from loopir.errors import ScheduleError
from loopir.ir.grammar import AXES, Buffer, Func, InstrRegion, Loop
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import (
    StmtPath,
    alloc_of,
    allocated_buffers,
    leaf_paths_in,
    leaf_paths_of,
    loop_of,
    loops as nest_loops,
    loops_of,
    nests_declaring,
    nests_touching,
)

PAST = {"parallel": "parallel", "vectorize": "vectorized", "unroll": "unrolled"}


def find_loop(func: Func, name: str) -> Loop:
    """The loop that `name` means: "i", or "C.i" for the loop of stage C that was written as i.

    Where two stages share a loop name, the second is called i_1; "C.i" is the loop called i around C, or
    else the only i_1, i_2 ... around it. "C[0]" is the outermost loop around C, "C[-1]" the innermost; "C.*_i" and
    "*_o" are the only loop, around C and of all, whose name is of that form.
    """
    if any(c in name for c in "*?["):
        return _find_by_pattern(func, name)
    if "." in name:
        stage, _, local = name.partition(".")
        around = _loops_around(func, stage, name)
        if local in around:
            return around[local]
        numbered = [v for v in around if re.fullmatch(rf"{re.escape(local)}_\d+", v)]
        if len(numbered) == 1:
            return around[numbered[0]]
        if numbered:
            raise ScheduleError(f"{name!r} can mean {join_names(numbered)}", loop=name, suggestion="name one of these")
        raise _unknown(f"{local!r} around stage {stage!r}", local, around, name)
    found = loop_of(func, name)
    if found is None:
        raise _unknown(f"{name!r} in {func.name!r}", name, loops_of(func), name)
    return found


def _find_by_pattern(func: Func, name: str) -> Loop:
    """The one loop that `name`, a place "C[-1]" or a form "C.*_i", means."""
    if place := re.fullmatch(r"(\w+)\[(-?\d+)\]", name):
        around = _loops_around(func, place[1], name)
        if not -len(around) <= int(place[2]) < len(around):
            reason = f"{name!r} is no loop: there are {len(around)} around stage {place[1]!r}, {join_names(around)}"
            raise ScheduleError(reason, loop=name, suggestion=f'"{place[1]}[-1]" is the innermost')
        return [*around.values()][int(place[2])]
    stage, dot, form = name.rpartition(".")
    known = _loops_around(func, stage, name) if dot else {x.var: x for x in nest_loops(func.body)}
    found = [v for v in known if fnmatchcase(v, form)]
    if not found:
        raise _unknown(f"of the form {form!r}{f' around stage {stage!r}' * bool(dot)}", form, known, name)
    if len(found) > 1:
        raise ScheduleError(f"{name!r} can mean {join_names(found)}", loop=name, suggestion="name one of these")
    return known[found[0]]


def _loops_around(func: Func, stage: str, asked: str) -> dict[str, Loop]:
    """The loops around `stage` by name, outer ones first."""
    return {loop.var: loop for place in find_stage(func, stage, asked=asked) for loop in place.loops}


def find_serial(func: Func, name: str) -> Loop:
    """The loop that `name` means; ScheduleError if it is parallel, a vector, unrolled or bound by now."""
    loop = find_loop(func, name)
    if loop.kind != "serial":
        how = f"bound to {loop.kind}" if loop.kind in AXES else PAST.get(loop.kind, loop.kind)
        raise ScheduleError(
            f"loop {loop.var!r} is {how} already",
            loop=name,
            suggestion="take this step before that one, or leave one of them out",
        )
    return loop


def find_stage(func: Func, stage: str, asked: str | None = None) -> tuple[StmtPath, ...]:
    """The statements of `stage`, in textual order: the one with that label, else those that write that buffer."""
    known = _stages_found(func)
    if stage in known:
        return known[stage]
    near = leaf_paths_in(func, nests_declaring(stage))
    labelled = tuple(p for p in near if p.stmt.label == stage)
    found = labelled or tuple(
        p for p in leaf_paths_in(func, nests_touching(stage)) if any(b.name == stage for b in p.stmt.buffers)
    )
    if not found:
        labels = [p.stmt.label for p in leaf_paths_of(func)]
        reason = f"there is no stage {stage!r} in {func.name!r}; its stages are {join_names(labels)}"
        raise ScheduleError(reason, loop=asked, suggestion=close_names(stage, labels))
    known[stage] = found
    return found


@memoized
def _stages_found(func: Func) -> dict[str, tuple[StmtPath, ...]]:
    """The statements of stages of `func` that were asked for, by name: recipes ask of the same ones all over again."""
    return {}


def find_statement(func: Func, stage: str, asked: str | None = None, *, instead: str | None = None) -> StmtPath:
    """The only statement of `stage`; refused where it is several, or, with what to do `instead`, where an instruction
    does it."""
    place, *more = find_stage(func, stage)
    if more:
        labels = join_names(p.stmt.label for p in (place, *more))
        raise ScheduleError(
            f"{stage!r} is several statements: {labels}; name one", loop=asked, suggestion=f"one of {labels}"
        )
    if instead is not None and any(isinstance(s, InstrRegion) for s in place.around):
        raise ScheduleError(f"{place.stmt.label} is one instruction", loop=asked, suggestion=instead)
    return place


def find_buffer(func: Func, name: str) -> Buffer:
    """The buffer called `name`: an argument or an allocation."""
    given = next((a.buffer for a in func.args if a.buffer.name == name), None)
    made = alloc_of(func, name) if given is None else None
    if (found := given if made is None else made.buffer) is not None:
        return found
    known = {b.name: b for b in all_buffers(func)}
    if name not in known:
        reason = f"there is no buffer {name!r} in {func.name!r}; its buffers are {join_names(known)}"
        raise ScheduleError(reason, suggestion=close_names(name, known))
    return known[name]


def all_buffers(func: Func) -> tuple[Buffer, ...]:
    """The arguments in order, then the allocations in textual order."""
    return (*(a.buffer for a in func.args), *allocated_buffers(func))


def join_names(names: Iterable[str]) -> str:
    """Names for a message: `i, j and k`, or `none`."""
    *most, last = [*names] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def _unknown(what: str, local: str, known: Iterable[str], asked: str) -> ScheduleError:
    known = list(known)
    reason = f"there is no loop {what}; the loops there are {join_names(known)}"
    return ScheduleError(reason, loop=asked, suggestion=close_names(local, known))


def close_names(name: str, known: Iterable[str]) -> str:
    """Those that `name` may have been meant to be, as a suggestion."""
    matches = get_close_matches(name, list(known), n=3)
    return " or ".join(map(repr, matches)) or "one of these"
