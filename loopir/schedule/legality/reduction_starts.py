"""Reductions that start outside a loop that is copied: may their starts be reordered?

The first values of a reduction are stored before the outermost loop that it is over, whatever guards say that speak of
one of these loops: element by element, in the order of the other loops. The starts of a copy come before those of the
next one. That is the old order, unless loops stand between, or two reductions have one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from loopir.analysis.dependence.access import is_affine_visible
from loopir.arith.poly import expand_index
from loopir.arith.simplify_func import starts_alike
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Cond,
    Const,
    Func,
    If,
    Index,
    Load,
    Loop,
    Node,
    Not,
    Reduce,
    Stmt,
    Value,
    Var,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    free_vars,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    path_to,
    rebuild,
    reduction_start_loops,
    statements,
)
from loopir.schedule.core.find import join_names

N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class _Start:
    """A reduction in a loop that starts outside of it, from what are not the elements that are there."""

    reduce: Reduce
    init: tuple[Value, ...]
    between: frozenset[str]
    """The loops from where it starts to the loop that it is not over: around the latter."""
    inner: frozenset[str]
    """All of them, also in the loop."""

    def has_known_iterations(self, moved: frozenset[str]) -> bool:
        """Whether the element gives the iterations that the first values speak of, or where those of `moved` are."""
        known = {v for x in self.reduce.at if (v := _only(x, self.inner)) is not None}
        asked = frozenset[str]().union(*map(free_vars, self.init))
        return asked & self.inner <= known or moved & self.inner <= known


def require_starts_in_parts(func: Func, loop: Loop, *, in_order: bool = True) -> None:
    """Refuse if starts in an order that matters lie outside of `loop`, of which there will be one part after another.

    What is folded over the loop, too, is started by the first part alone that has it. Where all statements are in each
    part, `in_order`, that changes nothing among those.
    """
    starts = _outside(func, loop)
    often = [s for s in starts if loop.var not in s.reduce.over]
    moved = often if in_order else starts
    if often or len(moved) > 1:
        mixed = [s for s in often if s.between and not s.has_known_iterations(frozenset((loop.var,)))]
        _require_free(loop, starts, moved, mixed)


def require_starts_in_versions(func: Func, loop: Loop, cond: Cond) -> None:
    """Refuse if starts in an order that matters lie outside of `loop`, one version of which runs where `cond` holds.

    Where that speaks of what a reduction is over, either version starts all of it.
    """
    asked = free_vars(cond)
    starts = [s for s in _outside(func, loop) if not asked.isdisjoint(s.between.union(s.reduce.over))]
    _require_free(
        loop,
        starts,
        starts,
        [s for s in starts if asked.isdisjoint(s.reduce.over) and not s.has_known_iterations(asked)],
    )


def rebuild_starting(node: N, visit: Callable[[Node], Node]) -> N:
    """`node` with `visit` applied to its children, which exchanges elements that are read; refuse if a reduction under
    a guard would start at other elements then, as a term comes to speak of a loop that it is over, or no longer does.
    """
    made = rebuild(node, visit)
    if not isinstance(node, If) or cast(If, made).cond is node.cond:
        return made
    for side, terms in ((node.then, conjuncts(node.cond)), (node.orelse, (Not(node.cond),))):
        for s in statements(side) if any(map(reduction_start_loops, side)) else ():
            if not isinstance(s, Reduce) or s.init is None:
                continue
            if not all(starts_alike(t, cast(Cond, visit(t)), [frozenset(s.over)]) for t in terms):
                reason = (
                    f"whether a guard around {s.label} speaks of {join_names(map(repr, s.over))} would change, and "
                )
                reason += f"{s.label} starts whatever one says that does"
                raise ScheduleError(reason, suggestion=f"decompose_reduction({s.label!r}) first")
    return made


def _outside(func: Func, loop: Loop) -> list[_Start]:
    around = path_to(func, loop)[:-1]
    found: list[_Start] = []
    for p in leaf_paths((loop,)):
        s = p.stmt
        if isinstance(s, Reduce) and s.init is not None and s.init != tuple(Load(b, s.at) for b in s.buffers):
            first = next((n for n, x in enumerate(around) if isinstance(x, Loop) and x.var in s.over), None)
            if first is not None:
                between = _loops(around[first:]).difference(s.over)
                found.append(_Start(s, s.init, between, between | _loops(p.around).difference(s.over)))
    return found


def _loops(around: Sequence[Stmt]) -> frozenset[str]:
    return frozenset(x.var for x in around if isinstance(x, Loop))


def _require_free(loop: Loop, starts: Sequence[_Start], moved: Sequence[_Start], mixed: Sequence[_Start]) -> None:
    """Refuse if one of `starts` depends on another and one of both is `moved`, or if there are `mixed` ones, whose
    values change places."""
    for s in starts:
        passed = starts if s in moved else moved
        stored = frozenset[str]().union(*(leaf_writes(t.reduce) for t in passed))
        read = frozenset[str]().union(*map(loaded_buffers, s.init))
        mine = leaf_writes(s.reduce)
        shared = any(not mine.isdisjoint(leaf_writes(t.reduce)) for t in passed if t is not s)
        if (shared and not _all_alike(starts, mine)) or not read.isdisjoint(stored) or s in mixed:
            label = s.reduce.label
            reason = f"{label} starts outside of {loop.var!r}, from values that depend on the order of its starts"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"decompose_reduction({label!r}) first")


def _all_alike(starts: Sequence[_Start], names: frozenset[str]) -> bool:
    """Whether all that start elements of these buffers store the same number there."""
    values = [s.init for s in starts if not names.isdisjoint(leaf_writes(s.reduce))]
    (first, *others) = values
    return len(first) == 1 and isinstance(first[0], Const) and all(x == first for x in others)


def _only(x: Index, inner: frozenset[str]) -> str | None:
    """The one of `inner` that `x` tells, if it is a number of times that and something that speaks of none."""
    if not is_affine_visible(x):
        return None
    terms = [m for m in expand_index(x) if any(free_vars(a) & inner for a in m)]
    (first, *others) = terms[0] if len(terms) == 1 else (x,)
    return first.name if terms and not others and isinstance(first, Var) else None
