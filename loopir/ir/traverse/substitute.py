"""Substitute indices for variables; keep mentions of reduced loops in guards when folding drops them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any, TypeVar

from loopir.ir.grammar import (
    Body,
    Buffer,
    Cond,
    FloorDiv,
    If,
    Index,
    Int,
    Load,
    Mod,
    Mul,
    Node,
    Op,
    Reduce,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.index import FOLDED
from loopir.ir.traverse.free_vars import free_vars
from loopir.ir.traverse.queries import reduction_start_loops, statements
from loopir.ir.traverse.rebuild import LEAVES, PAIRS, on_loads, rebuild

N = TypeVar("N", bound=Node)


def substitute(node: N, env: Mapping[str, Index]) -> N:
    """`node` with each variable named in `env` replaced; indices fold as they are rebuilt.

    `env` must not name a variable that a loop inside `node` binds. Buffers are unchanged, as their shapes and layouts
    depend on sizes only. Guards mention the same reduced loops as before. What comes to divide by a number that is not
    positive stands where nothing runs, and becomes 0.
    """
    return _replace_vars(node, env, folds=True) if env else node


def _replace_vars(node: N, env: Mapping[str, Index], *, folds: bool) -> N:

    def visit(n: Any) -> Any:
        kind = n.__class__
        if kind is Var:
            return env.get(n.name, n)
        if kind in PAIRS:
            a, b = visit(n.a), n.b
            b = b if b.__class__ is Int else visit(b)
            if a is n.a and b is n.b:
                return n
            if b.__class__ is Int and b.value <= 0 and (kind is FloorDiv or kind is Mod):
                return Int(0) if folds else Mul(a, Int(0))  # it never runs: no division by what is not positive does
            return FOLDED[kind](a, b) if folds else kind(a, b)
        if kind is Buffer or kind in LEAVES:
            return n
        if kind is Load:  # as `rebuild` has it, sooner
            at = n.at
            new = tuple([visit(x) for x in at])
            return n if all(map(is_, new, at)) else Load(n.buffer, new)
        if kind is If and not reduction_start_loops(n).isdisjoint(free_vars(n.cond)):
            return If(substitute_guard(n, env), tuple(map(visit, n.then)), tuple(map(visit, n.orelse)))
        return on_loads(n, visit) if kind is Op else rebuild(n, visit)

    return visit(node)


def substitute_guard(s: If, env: Mapping[str, Index]) -> Cond:
    """The condition of `s` under `env`, such that the reductions in it initialize the same elements."""
    then, orelse = reduction_starts(s.then), reduction_starts(s.orelse)
    new = conj(*(keep_mentions(t, env, then) for t in conjuncts(s.cond)))
    return (
        new
        if not orelse or keep_mentions(s.cond, env, orelse) == substitute(s.cond, env)
        else _replace_vars(s.cond, env, folds=False)
    )


def keep_mentions(term: Cond, env: Mapping[str, Index], starting: Iterable[frozenset[str]]) -> Cond:
    """`term` of a guard under `env`, which still mentions a reduced loop if it did before.

    A term that mentions none also guards the initialization, and folding may drop a mention, as in `i - i`. `starting`
    has the `over` loops of each reduction.
    """
    new = substitute(term, env)
    for over in starting:
        now = frozenset[str]().union(*(free_vars(env[v]) if v in env else (v,) for v in over))
        if now and not free_vars(term).isdisjoint(over) and free_vars(new).isdisjoint(now):
            return _replace_vars(term, env, folds=False)
    return new


def reduction_starts(body: Body) -> list[frozenset[str]]:
    """For each Reduce in `body` with an `init`, the loops that it is over."""
    return [frozenset(s.over) for s in statements(body) if isinstance(s, Reduce) and s.init is not None]


def refold(ix: Index) -> Index:
    """Apply the folding constructors to the top node, after its children changed."""
    pair: Any = ix
    return FOLDED[type(ix)](pair.a, pair.b) if type(ix) in PAIRS else ix
