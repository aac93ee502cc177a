"""Free variables of an expression, and whether analysis sees all of it; memoized.

Every check and every rewrite asks this of every index, so the answers are stored with the nodes when the verifier
visits them first.
"""

from __future__ import annotations

from typing import Any

from loopir.ir.grammar import (
    Add,
    And,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    Select,
    Store,
    Var,
    Xor,
    conjuncts,
)
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.rebuild import LEAVES, children, operations

ExprFacts = tuple[frozenset[str], bool, bool]
"""The names of the variables; whether nothing of it comes from memory; whether it is legal wherever these are bound."""

_PAIRS = frozenset({Add, Mul, Min, Max, Xor, Cmp})
_DIVISIONS = frozenset({FloorDiv, Mod})
ARITHMETIC = frozenset({*_PAIRS, *_DIVISIONS, And, Or, Not})
"""Indices and conditions that are made of others: what is looked at as a whole."""
_NOTHING: frozenset[str] = frozenset()


def free_vars(node: Node) -> frozenset[str]:
    """Names of the variables that `node` reads."""
    kind = type(node)
    return _NOTHING if kind is Int else frozenset((node.name,)) if kind is Var else expr_facts(node)[0]  # type: ignore[attr-defined]


def is_affine_visible(n: Node) -> bool:
    """Whether no part of an index or condition is read from memory, so that analysis sees all of it."""
    kind = type(n)
    if kind is Add and n.b.__class__ is Int and n.a.__class__ is Var:  # type: ignore[attr-defined]
        return True
    return kind is Var or kind is Int or expr_facts(n)[1]


@memoized
def expr_facts(node: Node) -> ExprFacts:
    """All memoized facts about an expression at once; for other nodes, the free variables alone."""
    names: set[str] = set()
    seen = legal = True
    pending: list[Any] = [node]
    for n in pending:  # which grows on the way
        kind = n.__class__
        if kind is Var:
            names.add(n.name)
        elif kind in _PAIRS:
            pending += (n.a, n.b)
        elif kind is Int:
            pass
        elif kind in _DIVISIONS:
            pending += (n.a, n.b)
            legal = legal and not (n.b.__class__ is Int and n.b.value <= 0)
        elif kind is And or kind is Or:
            pending += n.terms
            legal = legal and len(n.terms) != 1
        elif kind is Not:
            pending.append(n.term)
        else:
            seen = legal = False
            if kind is Load:
                names.update(*map(free_vars, n.at))
            elif kind is not Buffer and kind not in LEAVES:
                pending += children(n)
    return frozenset(names), seen, legal


Loads = tuple[tuple[Load, tuple[Cond, ...]], ...]
"""Loads, each with the conditions of the Selects around it."""


@memoized
def guarded_loads(node: Node) -> Loads:
    """The loads under `node`, each with the conditions of the Selects around it: one side alone is evaluated."""
    if isinstance(node, Store) and all(map(is_affine_visible, node.at)):
        return guarded_loads(node.value)  # which the verifier has seen
    if (known := operations(node)) is not None and all(is_affine_visible(x) for n in known[1] for x in n.at):
        return tuple([(n, ()) for n in known[1]])
    found: list[tuple[Load, tuple[Cond, ...]]] = []
    pending: list[tuple[Any, tuple[Cond, ...]]] = [(node, ())]
    while pending:
        n, conds = pending.pop()
        kind = n.__class__
        if kind is Load:
            found.append((n, conds))
            pending += [(x, conds) for x in n.at[::-1] if not is_affine_visible(x)]
        elif kind is Op:
            pending += [(x, conds) for x in n.args[::-1]]
        elif kind is Select:
            pending += [(n.b, (*conds, Not(n.cond))), (n.a, (*conds, *conjuncts(n.cond))), (n.cond, conds)]
        elif kind is not Buffer and kind not in LEAVES and not (kind in ARITHMETIC and is_affine_visible(n)):
            pending += [(x, conds) for x in reversed(children(n))]
    return tuple(found)
