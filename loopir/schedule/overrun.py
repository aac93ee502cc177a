"""May a loop run past its extent? Where the extra iterations stay inside every buffer and nobody sees what they write.

That takes padding: a buffer of the Func's own that is larger than what is read of it. The test is a sufficient one.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from loopir.analysis.access import statements_of
from loopir.analysis.bounds import instance_of
from loopir.analysis.simplify import Context, simplify_cond
from loopir.analysis.simplify_func import Known, statements_known
from loopir.analysis.system import SIZE
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    TRUE,
    Body,
    Buffer,
    Cmp,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Reduce,
    Select,
    Store,
    Var,
)
from loopir.ir.text import text
from loopir.ir.walk import loops, nodes, places_of, replace, replace_loop, sees, variables, written
from loopir.schedule.effects import allocates, reads
from loopir.schedule.facts import known_at

Read = tuple[Load, Context]


def require_harmless_overrun(func: Func, loop: Loop, padded: Index) -> None:
    """Refuse unless `loop` may run `padded` times, which is at least its extent."""
    known = known_at(func, loop).loop(loop.var, padded, loop.body)
    own = allocates(loop.body)
    given = {a.buffer.name for a in func.args if a.access != "out"}
    kept = _kept(func, loop, padded)
    for load, here in _reads(loop.body, known, kept):
        if _fixed(loop, load):
            continue
        _require_inside(loop, load.buffer, load.at, here)
        if load.buffer.name not in given | own:
            raise _refusal(loop, f"read {text(load)}, which nothing need have written there")
    for s, here in _stores(loop.body, known):
        if s.label in kept:
            continue
        for b in (s.buffer,) if isinstance(s, Store) else s.buffers:
            _require_inside(loop, b, s.at, here)
            if b.name not in own:
                _require_unseen(func, loop, b, s)


def _kept(func: Func, loop: Loop, padded: Index) -> set[str]:
    """The statements in `loop` that guards keep from running past its extent."""
    longer = replace_loop(func, loop.var, lambda x: replace(x, extent=padded))
    inside = [s for s in statements_of(longer) if loop.var in s.dims]
    past: set[str] = set()
    for s in inside:
        system, names = instance_of(longer, s, None)
        system.require(Cmp("<=", loop.extent, Var(loop.var)), "s", names)
        dims = [*(f"{SIZE}{n}" for n in func.sizes), *(f"s.{v}" for v in s.dims)]
        if not s.guards or s.maybe or system.possible(dims, []):
            past.add(s.label)
    return {s.label for s in inside} - past


def _require_unseen(func: Func, loop: Loop, b: Buffer, s: Store | Reduce) -> None:
    """Refuse unless the extra iterations write only elements of `b` that are never read."""
    target = text(Load(b, s.at))
    if any(a.buffer.name == b.name for a in func.args):
        raise _refusal(loop, f"write {target}, which the caller sees")
    if isinstance(s, Reduce) and s.init is None:
        raise _refusal(loop, f"fold into {target}, which nothing need have written there")
    others = (p.stmt for p in places_of(func) if p.stmt is not s and isinstance(p.stmt, Reduce))
    if b.name not in reads(func.body) and not any(b.name in written(x) for x in others):
        return
    for d in (d for d, ix in enumerate(s.at) if ix == Var(loop.var)):
        every = (read for read in _reads(func.body, Known.top(func)) if read[0].buffer.name == b.name)
        if all(simplify_cond(Cmp("<", load.at[d], loop.extent), here) == TRUE for load, here in every):
            return
    raise _refusal(loop, f"write {target}, which is read")


def _fixed(loop: Loop, load: Load) -> bool:
    """Whether `load` is of an element that an iteration of the loop reaches, too, if it is reached past them.

    As it is where the loop tells neither which one that is nor, by a guard, a length or a choice, if it is reached.
    """
    moving = {loop.var, *(x.var for x in loops(loop.body))}

    def still(ix: Index) -> bool:
        return sees(ix) and moving.isdisjoint(variables(ix))

    chosen = any(isinstance(x, If | Select) for s in loop.body for x in nodes(s))
    return not chosen and all(map(still, load.at)) and all(still(x.extent) for x in loops(loop.body))


def _require_inside(loop: Loop, b: Buffer, at: tuple[Index, ...], here: Context) -> None:
    for ix, size in zip(at, b.shape, strict=True):
        if not all(simplify_cond(c, here) == TRUE for c in (Cmp("<=", Int(0), ix), Cmp("<", ix, size))):
            raise _refusal(loop, f"reach {text(Load(b, at))}, which is not known to be inside {b.name}")


def _refusal(loop: Loop, what: str) -> ScheduleError:
    reason = f"the iterations past {text(loop.extent)} would {what}"
    return ScheduleError(reason, loop=loop.var, suggestion='tail="guard" or tail="peel"')


def _reads(body: Body, known: Known, kept: Set[str] = frozenset()) -> Iterator[Read]:
    """Every load in `body`, but for the statements `kept`, with what is known where it stands."""
    for s, here in statements_known(body, known):
        parts: tuple[Node, ...] = (s,) if isinstance(s, Store | Reduce) and s.label not in kept else ()
        if isinstance(s, Loop | If):
            parts = (s.extent if isinstance(s, Loop) else s.cond,)
        yield from ((n, here.within((s,))) for part in parts for n in nodes(part) if isinstance(n, Load))


def _stores(body: Body, known: Known) -> Iterator[tuple[Store | Reduce, Context]]:
    return ((s, here.within((s,))) for s, here in statements_known(body, known) if isinstance(s, Store | Reduce))
