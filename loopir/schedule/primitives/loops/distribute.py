"""distribute: a loop around several statements becomes several loops, each around some of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Func, If, Loop, Stmt, Var
from loopir.ir.traverse.walk import replace_stmt, substitute
from loopir.schedule.core.find import find_serial, find_stage, join_names
from loopir.schedule.core.naming import new_names, replace_over
from loopir.schedule.legality.effects import reads, require_stable_extent, writes
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.expand_alloc import expand_accesses, expand_buffer
from loopir.schedule.transform.siblings import labels, lanes_around


@primitive
def distribute(func: Func, loop: str, *after: str, names: tuple[str, ...] | None = None) -> Func:
    """Cut the body of `loop` after the stages named in `after`, or after every statement, and loop over each part.

    A buffer that is allocated inside and used on both sides of a cut gets an element for every iteration. The loops
    are called `names`.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i] * 2.0
                C[i] = B[i] + 1.0
    call:    distribute("i")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i] * 2.0
            for i_1 in range(n):
                C[i_1] = B[i_1] + 1.0
    refuses: distribute("i", "D")  # there is no stage 'D'
    refuses: distribute("i", "C")  # nothing in 'i' comes after C

    before:
        def g(n: "size", A: "float32[n, 8]", C: "out float32[n]"):
            for i in range(n):
                with alloc("float32[8]") as t:
                    for k in range(8):
                        t[k] = A[i, k] * 2.0
                    for k_1 in range(8):
                        C[i] = max(t[k_1], over=k_1, init=0.0)
    call:    distribute("i", "t", names=("i", "row"))
    after:
        def g(n: "size", A: "float32[n, 8]", C: "out float32[n]"):
            with alloc("float32[n, 8]") as t:
                for i in range(n):
                    for k in range(8):
                        t[i, k] = A[i, k] * 2.0
                for row in range(n):
                    for k_1 in range(8):
                        C[row] = max(t[row, k_1], over=k_1, init=0.0)

    before:
        def scan(n: "size", a: "inout float32[n + 1]", b: "inout float32[n + 1]"):
            for i in range(n):
                b[i] = a[i] * 2.0
                a[i + 1] = b[i]
    refuses: distribute("i")  # a at (i=0) writes a[1], which b at (i=1) reads later
    """
    target = find_serial(func, loop)
    require_stable_extent(target)
    items = _items(target.body)
    groups = _groups(func, target, items, after)
    if names is not None and len(names) != len(groups):
        raise ScheduleError(
            f"{len(names)} names are given for {len(groups)} loops", loop=target.var, suggestion=f"{len(groups)} names"
        )
    vars = new_names(func, [target.var] * len(groups), names, freed=(target.var,))
    new = replace_stmt(func, target, _nests(func, target, groups, vars))
    moved = zip(groups, vars, strict=True)
    origin = {n: Origin(n, {target.var: Var(v)}) for group, v in moved for x in group for n in labels((x.stmt,))}
    clash = violated_dependence(func, new, origin)
    if clash is not None and not same_values(func, new):
        reason = f"distributing {target.var!r} runs these two the other way round"
        raise refusal(clash, reason, target.var, f"keep {clash.first} and {clash.second} in one loop")
    require_loop_kinds(new, lanes_around(func, target))
    return new


@dataclass(frozen=True, slots=True)
class Item:
    """A statement of the body that is not cut, and the allocations and guards that are opened around it."""

    stmt: Stmt
    around: tuple[Alloc | If, ...] = ()


def _items(body: Body, around: tuple[Alloc | If, ...] = ()) -> list[Item]:
    """The statements to distribute: those inside allocations count, and those under a guard of the whole body."""
    out: list[Item] = []
    for s in body:
        if isinstance(s, Alloc):
            out += _items(s.body, (*around, s))
        elif isinstance(s, If) and not s.orelse and len(body) == 1:
            out += _items(s.then, (*around, s))
        else:
            out.append(Item(s, around))
    return out


def _groups(func: Func, loop: Loop, items: list[Item], after: tuple[str, ...]) -> list[list[Item]]:
    """The items of each new loop."""
    last = {n: k for k, x in enumerate(items) for n in labels((x.stmt,))}
    ends = set(range(len(items)) if not after else ())
    for stage in after:
        found = [last[p.stmt.label] for p in find_stage(func, stage) if p.stmt.label in last]
        if not found or max(found) == len(items) - 1:
            here = repr(loop.var)
            what = f"{stage} does not stand in {here}" if not found else f"nothing in {here} comes after {stage}"
            raise ScheduleError(what, loop=loop.var, suggestion=f"a stage in it but the last: {join_names(last)}")
        ends.add(max(found))
    groups: list[list[Item]] = [[]]
    for k, x in enumerate(items):
        groups[-1].append(x)
        if k in ends and k < len(items) - 1:
            groups.append([])
    if len(groups) == 1:
        raise ScheduleError(f"{loop.var!r} holds one statement", loop=loop.var, suggestion="a loop around several")
    return groups


def _nests(func: Func, loop: Loop, groups: list[list[Item]], vars: list[str]) -> Stmt | Body:
    """A loop for each group, inside the memory that several of them use."""
    opened = {id(s): s for group in groups for x in group for s in x.around}.values()
    cut = [s for s in opened if sum(any(w is s for x in g for w in x.around) for g in groups) > 1]
    for s in cut:
        if isinstance(s, If):
            _require_stable_guard(loop, s)
    shared = [s for s in cut if isinstance(s, Alloc)]
    why = "{} is used on both sides of a cut".format
    larger = [expand_buffer(func, loop, s, why(s.buffer.name)) for s in shared]
    out: Body = ()
    for group, v in zip(groups, vars, strict=True):
        body = tuple(expand_accesses(s, loop.var, larger) for s in _closed(group, 0, shared))
        body = replace_over(tuple(substitute(s, {loop.var: Var(v)}) for s in body), {loop.var: (v,)})
        out = (*out, Loop(v, loop.extent, loop.kind, body))
    for b in reversed(larger):
        out = (Alloc(b, out),)
    return out


def _closed(items: list[Item], depth: int, left_out: list[Alloc]) -> Body:
    """`items` inside the allocations and guards that were opened around them, but for those in `left_out`."""
    out: list[Stmt] = []
    for _, run in groupby(items, key=lambda x: id(x.around[depth]) if len(x.around) > depth else x):
        found = list(run)
        if len(found[0].around) == depth:
            out.append(found[0].stmt)
            continue
        wrap, body = found[0].around[depth], _closed(found, depth + 1, left_out)
        if isinstance(wrap, If):
            out.append(If(wrap.cond, body))
        else:
            out += body if any(wrap is s for s in left_out) else (Alloc(wrap.buffer, body),)
    return tuple(out)


def _require_stable_guard(loop: Loop, guard: If) -> None:
    """Refuse if the condition is read from memory that the loop writes: it would be read again later."""
    if changed := sorted(reads([guard.cond]) & writes(loop.body)):
        reason = f"the guard of {loop.var!r} is read from {join_names(changed)}, which the loop writes"
        raise ScheduleError(reason, loop=loop.var, suggestion="keep its statements in one loop")
