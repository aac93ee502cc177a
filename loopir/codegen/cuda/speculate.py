"""Speculate: evaluate a guarded function unconditionally where a branch would cost more.

A branch prevents overlap of the functions under it with those before and after it. Where a test guards only the fold of
functions of registers into one register, it costs less to compute the fold always and then to select the old value; and
where a value is selected, to compute both. The registers may hold anything meanwhile, which does no harm; accesses that
are not proved in bounds keep their branch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from loopir.ir.grammar import (
    Add,
    Buffer,
    Cast,
    If,
    Index,
    Int,
    Load,
    Loop,
    Mul,
    Node,
    Op,
    Param,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
    Var,
)
from loopir.ir.layout.shared_memory import elements_of
from loopir.ir.traverse.walk import nodes, rebuild

WORK = 4
"""Instructions of a function that is worth it, at least; a processor skips fewer without a branch."""


def speculated_register(s: If, own: Collection[str], extents: Mapping[str, int]) -> Buffer | None:
    """The register that is folded into, if `s` is such a test; `own` are a thread's buffers, `extents` the loops'."""
    if s.orelse or len(s.then) != 1 or any(isinstance(n, ValueToCond) for n in nodes(s.cond)):
        return None
    inner: Stmt = s.then[0]
    while isinstance(inner, Loop) and inner.kind == "unroll" and len(inner.body) == 1:
        inner = inner.body[0]
    if not isinstance(inner, Reduce) or len(inner.buffers) != 1 or inner.atomic:
        return None
    to = inner.buffers[0]
    if not _is_safe_and_heavy([n for v in inner.values for n in nodes(v)], own, extents):
        return None
    return to if to.name in own and elements_of(to) == 1 else None


def speculated_sides(s: Store, own: Collection[str], extents: Mapping[str, int]) -> Select | None:
    """What `s` stores, if it selects between two floats of which both cost less to evaluate than a branch does."""
    v = s.value
    if not isinstance(v, Select) or v.dtype.name not in ("float32", "float64"):
        return None
    return v if _is_safe_and_heavy([*nodes(v.a), *nodes(v.b)], own, extents) else None


def hoisted_functions(combine: Sequence[Value]) -> tuple[list[tuple[Param, Value]], tuple[Value, ...]]:
    """The functions in `combine`, a fold of registers, to be evaluated first, with the names they get, in order; and
    `combine` with these names.

    What selects between values of them then selects between registers, and a function in both is evaluated once.
    """
    found: dict[Value, Param] = {}

    def visit(n: Node) -> Node:
        made = rebuild(n, visit)
        heavy = isinstance(made, Op) and made.fn.work >= WORK and made.fn.result != "bool"
        chosen = isinstance(made, Select) and any(x in (*found.values(),) for x in (made.a, made.b))
        if not (heavy or chosen) or not isinstance(made, Value):
            return made
        return found.setdefault(made, Param(f"lp_f{len(found)}", made.dtype))

    combined = tuple(cast(Value, visit(v)) for v in combine)
    return [(param, v) for v, param in found.items()], combined


def _is_safe_and_heavy(values: Sequence[Node], own: Collection[str], extents: Mapping[str, int]) -> bool:
    """Whether evaluating these nodes of values always is harmless, on floats in registers, and worth a branch."""
    loads = [n for n in values if isinstance(n, Load)]
    floats = all(n.dtype.is_float for n in values if isinstance(n, Op | Cast))
    heavy = any(n.fn.work >= WORK for n in values if isinstance(n, Op))
    inside = all(n.buffer.name in own and _within(n.at[0], extents, elements_of(n.buffer)) for n in loads)
    return floats and heavy and inside and not any(isinstance(n, Select) for n in values)


def _within(at: Index, ends: Mapping[str, int], size: int) -> bool:
    last = _largest(at, ends)
    return last is not None and last < size


def _largest(at: Index, ends: Mapping[str, int]) -> int | None:
    """The largest that `at` comes to, if it is a sum of products of what is at least 0 and has a known end."""
    match at:
        case Int(value):
            return value if value >= 0 else None
        case Var(name):
            return ends[name] - 1 if name in ends else None
        case Add(a, b) | Mul(a, b):
            x, y = _largest(a, ends), _largest(b, ends)
            return None if x is None or y is None else x + y if isinstance(at, Add) else x * y
        case _:
            return None
