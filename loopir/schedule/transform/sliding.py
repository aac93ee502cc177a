"""Slide a consumer's nest behind its producer's, at a fixed distance in their loops.

Each loop that both have then is one loop, the consumer so many iterations behind; in one that the consumer has not, it
waits for a certain iteration. That each instance runs once, and after all that it reads, is seen from these distances,
where sets of instances would have to be asked otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loopir.analysis.dependence.access import guarded_loads, is_affine_visible
from loopir.arith.poly import constant_poly, poly_add, var_plus_const
from loopir.arith.simplify import nonnegative, poly
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Alloc, Cmp, Cond, Func, If, Index, Int, Loop, Node, Reduce, Store, Var
from loopir.ir.traverse.walk import (
    accessed_buffers,
    free_vars,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    path_within,
    stored_buffers,
)
from loopir.ir.verify.verify import evaluate
from loopir.schedule.core.facts import known_at
from loopir.schedule.transform.placement import Move, starts_inside
from loopir.schedule.transform.restriction import Restriction

Lag = Mapping[str, "tuple[str, int]"]
"""By loop of the nest that a consumer moves into, the one of the consumer that it is one with, and how many iterations
that is behind; where it is none of these, "", and the iteration in which the consumer runs."""


def sliding_lag(move: Move, restriction: Restriction) -> Lag | None:
    """How far the nest, so restricted, is behind the loops on the way to the one it moves to.

    Then each of its instances runs in one iteration of these, and a reduction starts as it did. None where one of its
    loops is restricted otherwise, or not seen to have all its iterations.
    """
    path = path_within((move.target,), move.loop)
    way = {s.var: s for s in path if isinstance(s, Loop)}
    begins = isinstance(move.stmt, Reduce) and move.stmt.init is not None
    if len(restriction.ranges) > len(way) or (begins and not starts_inside(move)):
        return None
    if not all(isinstance(s, Loop | Alloc) for s in path):
        return None
    found = _behind(move, restriction, way)
    if found is None:
        return None
    way = {u: x for u, x in way.items() if u not in found}
    if not all(isinstance(c, Cmp) and len(free_vars(c)) == 1 and free_vars(c) <= way.keys() for c in restriction.conds):
        return None
    for u, x in way.items():
        only = _only_iteration(x, [c for c in restriction.conds if u in free_vars(c)])
        if only is None:
            return None
        found[u] = "", only
    return found


def _behind(move: Move, restriction: Restriction, way: Mapping[str, Loop]) -> dict[str, tuple[str, int]] | None:
    """By loop of `way` the loop of the nest that is restricted to one iteration, and how far that is behind; None where
    a loop of the nest is restricted otherwise."""
    own, found = {x.var: x for x in move.own_loops}, dict[str, tuple[str, int]]()
    for v, r in restriction.ranges.items():
        u, shift = var_plus_const(r.start) or ("", 0)
        if u not in way or u in found or r.count != Int(1) or not covers(move, way[u], own[v], -shift):
            return None
        found[u] = v, -shift
    return found


def _only_iteration(loop: Loop, conds: Sequence[Cond]) -> int | None:
    """The one iteration of `loop` in which all of `conds` hold; None if that is not seen."""
    if not isinstance(loop.extent, Int):
        return None
    low, high = 0, loop.extent.value - 1
    for c in conds:
        match c:
            case Cmp("<=" | "<" as op, Int(n), Var()):
                low = max(low, n + (op == "<"))
            case Cmp("<=" | "<" as op, Var(), Int(n)):
                high = min(high, n - (op == "<"))
            case Cmp("==", Int(n), Var()) | Cmp("==", Var(), Int(n)):
                low, high = max(low, n), min(high, n)
            case _:
                return None
    return low if low == high else None


def covers(move: Move, theirs: Loop, own: Loop, c: int) -> bool:
    """Whether for each iteration of `own`, in the nest, there is the one of `theirs`, on the way, that is `c` ahead."""
    a, b = theirs.extent, own.extent
    if isinstance(a, Int) and isinstance(b, Int):
        return 0 <= c <= a.value - b.value
    sizes = frozenset(move.func.sizes)
    if c < 0 or not (is_affine_visible(a) and is_affine_visible(b) and free_vars(a) <= sizes and free_vars(b) <= sizes):
        return False
    inside = known_at(move.func, move.tree).here.loop(own.var, b)
    return nonnegative(poly_add(poly_add(poly(a, inside), poly(b, inside), -1), constant_poly(-c)), inside)


def is_bare_nest(move: Move) -> bool:
    """Whether the nest is loops around the statement, and nothing else."""
    s = move.tree
    while isinstance(s, Loop) and len(s.body) == 1:
        s = s.body[0]
    return s is move.stmt


def in_order(move: Move, behind: Lag) -> bool:
    """Whether the nest, at the end of the loop, so far behind, runs after all that it reads, and disturbs nothing.

    What it writes nothing else touches that it moves past, and each element in one of its iterations, or by folds that
    are all in one iteration of the loops. What it reads of others there, it reads not before it is written.
    """
    others = [s for s in move.passed if s is not move.tree]
    own, read, over = move.names, loaded_buffers(move.tree), set(move.over)
    told = {x.name for x in move.stmt.at if isinstance(x, Var)} | over
    if not is_bare_nest(move) or not own.isdisjoint(read) or not told.issuperset(x.var for x in move.own_loops):
        return False
    if not all(own.isdisjoint(accessed_buffers(s)) for s in others):
        return False
    made = read.intersection(set[str]().union(*map(stored_buffers, others)))
    return all(_read_after(move, behind, name) for name in made)


def _read_after(move: Move, behind: Lag, name: str) -> bool:
    """Whether one statement in the loop writes `name`, and each element that the nest reads of it before that."""
    others = [p for s in move.passed if s is not move.tree if name in stored_buffers(s) for p in leaf_paths((s,))]
    makers = [p for p in others if name in leaf_writes(p.stmt)]
    if len(makers) != 1 or all(x is not move.loop for x in makers[0].around):
        return False
    stmt, path = makers[0].stmt, move.path
    if isinstance(stmt, Reduce) and not set(stmt.over).isdisjoint(path):
        return False
    dims = {x.name: d for d, x in enumerate(stmt.at) if isinstance(x, Var) and x.name in path}
    if len(dims) != len(path):
        return False
    return all(
        _not_ahead([(load.at[dims[u]], *behind[u]) for u in path])
        for part in _stored_values(move.stmt)
        for load, _ in guarded_loads(part)
        if load.buffer.name == name
    )


def _stored_values(stmt: Store | Reduce) -> tuple[Node, ...]:
    values = (stmt.value,) if isinstance(stmt, Store) else (*stmt.values, *(stmt.init or ()))
    return (*values, *stmt.at)


SAMPLE_SIZE = 64
"""A size at which loops have iterations, if they have any."""


def _run_at_sample_sizes(func: Func, loops: Iterable[Loop]) -> bool:
    """Whether `loops` are known to have iterations where all sizes are SAMPLE_SIZE, and `func` admits these."""
    env = dict.fromkeys(func.sizes, SAMPLE_SIZE)
    ends = [x.extent for x in loops]
    return all(free_vars(x) <= env.keys() and is_affine_visible(x) and evaluate(x, env) > 0 for x in ends) and all(
        cond_holds(c, env) for c in func.assumes
    )


def nest_carries(move: Move, behind: Lag, names: set[str]) -> bool:
    """Whether the nest is seen to read in some iteration of the loops what another one of these wrote."""
    found = [p for p in leaf_paths(move.loop.body) if not names.isdisjoint(leaf_writes(p.stmt))]
    if len(found) != 1 or any(isinstance(x, If) for x in found[0].around) or not is_bare_nest(move):
        return False
    if not _run_at_sample_sizes(move.func, (*found[0].loops, *move.own_loops)):
        return False
    dims = {x.name: d for d, x in enumerate(found[0].stmt.at) if isinstance(x, Var)}
    return any(
        _late(load.at[dims[u]], v, c)
        for part in _stored_values(move.stmt)
        for load, conds in guarded_loads(part)
        if load.buffer.name in names and not conds
        for u, (v, c) in behind.items()
        if u in dims
    )


def touched_in_one_iteration(move: Move, behind: Lag, names: set[str]) -> bool:
    """Whether, where the nest is `in_order`, each element of `names` is touched in one iteration of the loops alone.

    One statement of the loop uses them, at elements that tell the loops, and the nest reads those of its iteration.
    """
    using = [
        p for p in leaf_paths(move.loop.body) if not names.isdisjoint(loaded_buffers(p.stmt) | leaf_writes(p.stmt))
    ]
    if len(using) != 1 or move.shared_loops or not names <= leaf_writes(using[0].stmt) - loaded_buffers(using[0].stmt):
        return False
    dims = {x.name: d for d, x in enumerate(using[0].stmt.at) if isinstance(x, Var)}
    return all(
        var_plus_const(load.at[dims[u]]) == (v, c)
        for part in _stored_values(move.stmt)
        for load, _ in guarded_loads(part)
        if load.buffer.name in names
        for u, (v, c) in behind.items()
    )


def _late(ix: Index, v: str, c: int) -> bool:
    """Whether what is `v` and a constant, none below 0, is before `v` and `c`; or a constant, where `v` is none."""
    found = var_plus_const(ix)
    return found is not None and found[0] == v and 0 <= found[1] < c


def _not_ahead(subscripts: list[tuple[Index, str, int]]) -> bool:
    """Whether what is `v` and a constant, by loops outer ones first, is no later than `v` and `c`."""
    for ix, v, c in subscripts:
        found = var_plus_const(ix)
        if found is None or found[0] != v or found[1] > c:
            return False
        if found[1] < c:
            return True
    return True
