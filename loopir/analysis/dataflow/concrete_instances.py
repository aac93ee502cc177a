"""Concrete statement instances: which one touches an element, and which comes first.

Given the least case of a conflict, this often decides at once whether another write comes in between or before. What it
leaves open is decided by sets of instances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopir.analysis.dependence.access import Access, Statement
from loopir.arith.poly import expand_index
from loopir.errors import VerifyError
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Index, Var
from loopir.ir.traverse.walk import free_vars
from loopir.ir.verify.verify import evaluate

Done = tuple[Statement, Access]
Env = Mapping[str, int]
Moment = Sequence["int | None"]
"""When an instance runs; None for a loop that is not known."""


def time_of(done: Done, env: Env) -> Moment:
    """The time of `done` in the iteration `env`: an instance reads before it writes."""
    return (*[x if isinstance(x, int) else env.get(x) for x in done[0].when], int(done[1].write))


def precedes(a: Moment, b: Moment) -> bool | None:
    """Whether time `a` precedes time `b`; None if unknown."""
    for x, y in zip(a, b, strict=False):
        if x is None or y is None:
            return None
        if x != y:
            return x < y
    return False


def iterations_touching(done: Done, element: Sequence[int | None], known: Env) -> dict[str, int] | None:
    """The iterations of `done` that touch `element`, as far as it tells their loops; None if there are none.

    `known` are the sizes, and the loops that are the same in all of them.
    """
    s, a = done
    env = dict(known)
    left = [(ix, value) for ix, value in zip(a.at, element, strict=True) if ix is not None and value is not None]
    if not _solve_subscripts(left, env):
        return None
    for v, extent in zip(s.dims, s.extents, strict=True):
        if v in env and extent is not None and free_vars(extent) <= env.keys() and env[v] >= evaluate(extent, env):
            return None
    fails = any(free_vars(c) <= env.keys() and not cond_holds(c, env) for c in (*s.conds, *a.conds))
    return None if fails or any(env[v] < 0 for v in s.dims if v in env) else env


def _solve_subscripts(left: Sequence[tuple[Index, int]], env: dict[str, int]) -> bool:
    """Put the loops into `env` at which each index in `left` has its value, as far as one index tells one loop; whether
    none has another value there."""
    while left:
        rest: list[tuple[Index, int]] = []
        for ix, value in left:
            unknown = free_vars(ix) - env.keys()
            if not unknown:
                if evaluate(ix, env) != value:
                    return False
            elif not _solve_loop(ix, value, unknown, env):
                rest.append((ix, value))
        if len(rest) == len(left):
            return True
        left = rest
    return True


def _solve_loop(ix: Index, value: int, unknown: frozenset[str], env: dict[str, int]) -> bool:
    """Put the one unknown loop of `ix`, if it stands alone in that, where `ix` is `value`; -1 if that is nowhere."""
    if len(unknown) != 1:
        return False
    (v,) = unknown
    p = expand_index(ix)
    c = p.get((Var(v),), 0)
    if not c or any(v in free_vars(a) for m in p for a in m if m != (Var(v),)):
        return False
    at, more = divmod(value - evaluate(ix, {**env, v: 0}), c)
    env[v] = -1 if more else at  # no iteration of it
    return True


def touches_between(done: Done, element: Sequence[int | None], first: Moment, last: Moment, known: Env) -> bool | None:
    """Whether `done` touches `element` after `first` and before `last`; None if that is not known."""
    s, a = done
    if s.maybe or a.maybe or None in a.at:
        return None
    try:
        env = iterations_touching(done, element, known)
        if env is None:
            return False
        here = time_of(done, env)
        if precedes(first, here) is False or precedes(here, last) is False:
            return False
        env = {**dict.fromkeys(s.dims, 0), **env}  # any iteration of those that the element does not tell
        if iterations_touching(done, element, env) is None:
            return None
        here = time_of(done, env)
        return True if precedes(first, here) and precedes(here, last) else None
    except (VerifyError, ZeroDivisionError, KeyError):
        return None
