"""May a loop run past its extent? Where the extra iterations stay inside every buffer and nobody sees what they write.

That takes padding: a buffer of the Func's own that is larger than what is read of it. The test is a sufficient one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from loopir.analysis.dataflow.reaching_writes import is_written_before
from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.presburger.constraints import SIZE
from loopir.analysis.regions.bounds import instance_of
from loopir.arith.simplify import Context, simplify_cond
from loopir.arith.simplify_func import Known, statements_known
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    TRUE,
    Alloc,
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
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    free_vars,
    is_affine_visible,
    leaf_paths,
    leaf_paths_of,
    leaf_writes,
    loops,
    nodes,
    path_to,
    replace,
    replace_loop,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.effects import allocates, reads


@dataclass(frozen=True, slots=True)
class _Read:
    """A load, who does it, in words, and what is known there."""

    who: str
    load: Load
    here: Context


@dataclass(frozen=True, slots=True)
class _Longer:
    """`func` with `loop` run past its extent, and what it does in the loop."""

    func: Func
    loop: Loop
    inside: Sequence[Statement]

    @staticmethod
    def of(func: Func, loop: Loop, padded: Index) -> _Longer:
        longer = replace_loop(func, loop.var, lambda x: replace(x, extent=padded))
        return _Longer(longer, loop, [s for s in statements_of(longer) if loop.var in s.dims])

    def kept(self) -> set[str]:
        """The statements that guards keep from running past the extent."""
        past: set[str] = set()
        for s in self.inside:
            system, names = instance_of(self.func, s, None)
            system.require(Cmp("<=", self.loop.extent, Var(self.loop.var)), "s", names)
            dims = [*(f"{SIZE}{n}" for n in self.func.sizes), *(f"s.{v}" for v in s.dims)]
            if not s.guards or s.maybe or system.possible(dims, []):
                past.add(s.label)
        return {s.label for s in self.inside} - past

    def require_filled(self, own: Set[str], kept: Set[str]) -> None:
        """Refuse unless the statements that are not `kept` read of an iteration's `own` memory what it has written."""
        done = [(s, a) for s in self.inside for a in s.accesses if a.buffer in own]
        for s, a in done:
            same = [x for x in done if x[1].write and x[1].buffer == a.buffer]
            outer = s.dims[: s.dims.index(self.loop.var) + 1]
            if (
                not a.write
                and s.label not in kept
                and not any(is_written_before(self.func, (s, a), w, outer) for w in same)
            ):
                raise _refusal(self.loop, s.label, f"read {a.buffer}, of which it may have written nothing")


def require_harmless_overrun(func: Func, loop: Loop, padded: Index) -> None:
    """Refuse unless `loop` may run `padded` times, which is at least its extent."""
    known = known_at(func, loop).loop(loop.var, padded, loop.body)
    own = allocates(loop.body)
    given = {a.buffer.name for a in func.args if a.access != "out"}
    longer = _Longer.of(func, loop, padded)
    kept = longer.kept()
    for read in _reads(loop.body, known, kept):
        load = read.load
        if _fixed(loop, load):
            continue
        _require_inside(loop, read.who, load.buffer, load.at, read.here)
        if load.buffer.name not in given | own:
            raise _refusal(loop, read.who, f"read {text(load)}, which nothing need have written there")
    for s, here in _stores(loop.body, known):
        if s.label in kept:
            continue
        for b in s.buffers:
            _require_inside(loop, s.label, b, s.at, here)
            if b.name not in own:
                _require_unseen(func, loop, b, s)
    longer.require_filled(own, kept)


def _require_unseen(func: Func, loop: Loop, b: Buffer, s: Store | Reduce) -> None:
    """Refuse unless the extra iterations write only elements of `b` that are never read."""
    target = text(Load(b, s.at))
    if any(a.buffer.name == b.name for a in func.args):
        raise _refusal(loop, s.label, f"write {target}, which the caller sees")
    if isinstance(s, Reduce) and s.init is None:
        raise _refusal(loop, s.label, f"fold into {target}, which nothing need have written there")
    others = (p.stmt for p in leaf_paths_of(func) if p.stmt is not s and isinstance(p.stmt, Reduce))
    if b.name not in reads(func.body) and not any(b.name in leaf_writes(x) for x in others):
        return
    if _lasts(func, loop, b):
        for d in (d for d, ix in enumerate(s.at) if ix == Var(loop.var)):
            every = (read for read in _reads(func.body, Known.top(func)) if read.load.buffer.name == b.name)
            if all(simplify_cond(Cmp("<", x.load.at[d], loop.extent), x.here) == TRUE for x in every):
                return
    raise _refusal(loop, s.label, f"write {target}, which is read")


def _lasts(func: Func, loop: Loop, b: Buffer) -> bool:
    """Whether the extent of `loop` is the same as long as there is `b`, and so what is past it."""
    around = path_to(func, loop)
    there = next(n for n, x in enumerate(around) if isinstance(x, Alloc) and x.buffer.name == b.name)
    changing = {x.var for x in around[there:] if isinstance(x, Loop)}
    return is_affine_visible(loop.extent) and changing.isdisjoint(free_vars(loop.extent))


def _fixed(loop: Loop, load: Load) -> bool:
    """Whether `load` is of an element that an iteration of the loop reaches, too, if it is reached past them.

    As it is where the loop tells neither which one that is nor, by a guard, a length or a choice, if it is reached.
    """
    moving = {loop.var, *(x.var for x in loops(loop.body))}

    def still(ix: Index) -> bool:
        return is_affine_visible(ix) and moving.isdisjoint(free_vars(ix))

    chosen = any(isinstance(x, If | Select) for s in loop.body for x in nodes(s))
    return not chosen and all(map(still, load.at)) and all(still(x.extent) for x in loops(loop.body))


def _require_inside(loop: Loop, who: str, b: Buffer, at: tuple[Index, ...], here: Context) -> None:
    for ix, size in zip(at, b.shape, strict=True):
        if not all(simplify_cond(c, here) == TRUE for c in (Cmp("<=", Int(0), ix), Cmp("<", ix, size))):
            raise _refusal(loop, who, f"reach {text(Load(b, at))}, which is not known to be inside {b.name}")


def _refusal(loop: Loop, who: str, what: str) -> ScheduleError:
    reason = f"past {text(loop.extent)} iterations of {loop.var!r}, {who} would {what}"
    return ScheduleError(reason, loop=loop.var, suggestion='tail="guard" or tail="peel"')


def _reads(body: Body, known: Known, kept: Set[str] = frozenset()) -> Iterator[_Read]:
    """Every load in `body`, but for the statements `kept`, with what is known where it stands."""
    for s, here in statements_known(body, known):
        parts: tuple[Node, ...] = ()
        who = ""
        if isinstance(s, Store | Reduce):
            parts, who = (s,) if s.label not in kept else (), s.label
        elif isinstance(s, Loop):
            parts, who = (s.extent,), f"the extent of {s.var!r}"
        elif isinstance(s, If):
            parts, who = (s.cond,), f"the guard of {join_names(p.stmt.label for p in leaf_paths((s,)))}"
        yield from (_Read(who, n, here.within((s,))) for part in parts for n in nodes(part) if isinstance(n, Load))


def _stores(body: Body, known: Known) -> Iterator[tuple[Store | Reduce, Context]]:
    return ((s, here.within((s,))) for s, here in statements_known(body, known) if isinstance(s, Store | Reduce))
