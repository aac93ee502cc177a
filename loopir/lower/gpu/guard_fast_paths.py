"""Guard a vector with one range test; take the fast path of a function if all lanes pass.

Sine and cosine of large arguments are found another way, in a branch. A branch in every lane parts each from the next:
constants are loaded again, and nothing overlaps. One test for all lanes of a vector leaves them one run of code; the
other version is as it was. Which function has such a short form, and where, its record says (`Intrinsic.variants`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import cast

from loopir.intrinsics.ops.arith import abs_, add, mul
from loopir.intrinsics.ops.compare import lt
from loopir.ir.dtypes import float32
from loopir.ir.grammar import (
    Body,
    Cast,
    Const,
    Func,
    If,
    Int,
    Loop,
    Node,
    Op,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
    Var,
)
from loopir.ir.ops import REGISTRY, Variant
from loopir.ir.traverse.walk import fresh_name, leaf_paths, map_body, map_stmts, nodes, rebuild, substitute, taken_names
from loopir.lower.target import Target

MAX_ARGUMENTS = 16
"""Arguments that are tested, at most."""


def guard_fast_paths(func: Func, target: Target) -> Func:
    """`func` with a fast-path version of each unrolled loop over one store that evaluates such functions."""
    taken = taken_names(func) | {p.stmt.label for p in leaf_paths(func.body)}

    def visit(s: Stmt) -> Stmt | Body:
        match s:
            case Loop(kind="unroll", extent=Int(lanes), body=(Store() as only,)):
                return _versions(s, only, lanes, taken)
            case _:
                return map_stmts(s, visit)

    return replace(func, body=map_body(func.body, visit))


def _versions(loop: Loop, s: Store, lanes: int, taken: set[str]) -> Stmt:
    """Both versions, and the test; the loop as it is where nothing has a short form, or not all can be tested first."""
    found = [(n, v) for n in nodes(s.value) if (v := _variant(n)) is not None]
    arguments = dict.fromkeys(n.args[0] for n, _ in found if isinstance(n, Op))
    nested = any(_variant(n) for a in arguments for n in nodes(a))
    guarded = any(isinstance(n, Select) for n in nodes(s.value))  # an arm of it may be out of bounds
    if not found or nested or guarded or len(arguments) * lanes > MAX_ARGUMENTS:
        return loop
    bound = Const(min(v.below for _, v in found), float32)
    each = (substitute(a, {loop.var: Int(k)}) for k in range(lanes) for a in arguments)
    # no sum of magnitudes is below one of them; NaN if one is, and not below
    most = reduce(lambda a, b: Op(add, (a, b)), (Op(abs_, (x,)) for x in each))
    var, label = fresh_name(loop.var, taken), fresh_name(s.label, taken)
    taken |= {var, label}
    quick = substitute(replace(s, label=label, value=_shortened(s.value)), {loop.var: Var(var)})
    return If(ValueToCond(Op(lt, (most, bound))), (replace(loop, var=var, body=(quick,)),), (loop,))


def _shortened(v: Value) -> Value:
    """`v` by short forms; what is multiplied by itself, by the function that is that product."""

    def visit(n: Node) -> Node:
        match n:
            case Op(fn, (Op() as a, b)) if fn is mul and a == b and (square := _variant(a, squared=True)) is not None:
                return rebuild(Op(REGISTRY[square.name], a.args), visit)
            case Op() if (short := _variant(n)) is not None:
                return rebuild(Op(REGISTRY[short.name], n.args), visit)
            case _:
                return rebuild(n, visit)

    return cast(Value, visit(v))


def _variant(n: Node, *, squared: bool = False) -> Variant | None:
    """The first variant of the operation `n`, or of its square, for arguments with as many digits as that of `n`."""
    if not isinstance(n, Op) or not n.fn.variants or n.args[0].dtype != float32:
        return None
    digits = _digits(n.args[0])
    return next((v for v in n.fn.variants if v.squared == squared and digits <= v.digits), None)


def _digits(v: Value) -> int:
    """How many significant bits `v`, a float, has at most."""
    of = v.value.dtype if isinstance(v, Cast) and v.value.dtype.is_float else v.dtype
    return of.digits
