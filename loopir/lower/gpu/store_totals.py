"""Store what threads folded together over an initial value at once, instead of that value first.

    if t == 0:                                   with alloc(...) as y_part:
        y[i] = 0.0                                   ...                         # y_part[] = sum of x[i, t]
    with alloc(...) as y_part:            to         if t == 0:
        ...                                              y[i] = 0.0 + y_part[]
        if t == 0:
            y[i] = sum(y_part[])

So no thread waits for a store of its own to come back from memory, as in every step of a loop that folds a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from loopir.arith.poly import coefficient, const_of, to_index
from loopir.arith.simplify import Context, poly
from loopir.ir.grammar import Alloc, Body, Cond, If, Index, Loop, Param, Reduce, Stmt, Store, Value, Var, conjuncts
from loopir.ir.traverse.walk import bodies, free_vars, loaded_buffers, rewrite, stored_buffers, substitute, transform


def store_totals(body: Body) -> Body:
    """`body` of a kernel, with each fold of a total right after a store of its initial value as one store."""
    gone: set[int] = set()
    stores: dict[int, Body] = {}
    for block in _bodies_in(body):
        for first, after in pairwise(block):
            if (found := _stored_at_once(first, after)) is not None:
                fold, new = found
                gone.add(id(first))
                stores[id(fold)] = new
    if not gone:
        return body
    return rewrite(body, lambda s: () if id(s) in gone else stores.get(id(s)))


def _bodies_in(body: Body) -> Iterator[Body]:
    """`body` and all bodies in it."""
    yield body
    for s in body:
        for inner in bodies(s):
            yield from _bodies_in(inner)


@dataclass(frozen=True, slots=True)
class _Nest:
    """The statements in a nest that touch some buffers, where these are one body: and the loops and conditions around
    them."""

    loops: tuple[Loop, ...]
    conds: tuple[Cond, ...]
    leaves: Body

    @classmethod
    def of(cls, s: Stmt, names: frozenset[str]) -> _Nest:
        loops, conds = list[Loop](), list[Cond]()
        touching: Body = (s,)
        while len(touching) == 1 and isinstance(s := touching[0], Loop | Alloc | If) and not (
            isinstance(s, If) and (s.orelse or names & loaded_buffers(s.cond))
        ):  # fmt: skip
            if isinstance(s, If):
                conds += conjuncts(s.cond)
            elif isinstance(s, Loop):
                loops.append(s)
            inner = s.then if isinstance(s, If) else s.body
            touching = tuple(x for x in inner if names & (loaded_buffers(x) | stored_buffers(x)))
        return cls(tuple(loops), tuple(conds), touching)


def _stored_at_once(first: Stmt, after: Stmt) -> tuple[Reduce, Body] | None:
    """The fold in `after` of a total into elements that `first`, a nest of stores, sets to the values that it begins
    with, and the stores of both; None where that is not so."""
    names = stored_buffers(first)
    nest, total = _Nest.of(first, names), _Nest.of(after, names)
    initial = _initial_values(first, nest)
    fold = total.leaves[0] if len(total.leaves) == 1 else None
    if not initial or not isinstance(fold, Reduce) or names & loaded_buffers(after):
        return None
    env = {x.var: Var(y.var) for x, y in zip(nest.loops, total.loops, strict=False)}
    if not _are_alike(nest, total, env) or not _sets_each(initial, fold, total, env):
        return None
    sides = (*(substitute(s.value, env) for s in initial), *fold.values)
    given = {p.name: v for p, v in zip((*fold.monoid.left, *fold.monoid.right), sides, strict=True)}
    labels = (fold.label, *(s.label for s in initial[1:]))
    new = zip(labels, fold.buffers, fold.monoid.combine, strict=True)
    return fold, tuple(Store(label, b, fold.at, _with_params(c, given)) for label, b, c in new)


def _initial_values(s: Stmt, nest: _Nest) -> list[Store]:
    """The stores of `nest`, which is all of `s`, if these are of what all threads see, and read no memory."""
    stores = [x for x in nest.leaves if isinstance(x, Store) and x.buffer.scope != "local"]
    return stores if len(stores) == len(nest.leaves) and not loaded_buffers(s) else []


def _are_alike(nest: _Nest, total: _Nest, env: Mapping[str, Index]) -> bool:
    """Whether both have the same loops, by `env`, and conditions."""
    same = [x.extent for x in nest.loops] == [x.extent for x in total.loops]
    return same and {substitute(c, env) for c in nest.conds} == set(total.conds)


def _sets_each(initial: list[Store], fold: Reduce, total: _Nest, env: Mapping[str, Index]) -> bool:
    """Whether `fold` folds once into each of the elements that `initial` sets."""
    if fold.init is not None or fold.atomic or fold.over or [s.buffer for s in initial] != list(fold.buffers):
        return False
    loops = frozenset(x.var for x in total.loops)
    there = all(tuple(substitute(x, env) for x in s.at) == fold.at for s in initial)
    return there and all(_tells_apart(fold.at, x, loops) for x in loops)


def _tells_apart(at: tuple[Index, ...], var: str, loops: frozenset[str]) -> bool:
    """Whether a subscript is a multiple of the loop `var`, plus what is the same in all of `loops`."""
    for x in at:
        split = coefficient(poly(x, Context()), Var(var)) if free_vars(x) & loops == frozenset((var,)) else None
        if split is not None and const_of(split[0]) not in (None, 0) and var not in free_vars(to_index(split[1])):
            return True
    return False


def _with_params(v: Value, given: Mapping[str, Value]) -> Value:
    return transform(v, lambda n: given[n.name] if isinstance(n, Param) else n)
