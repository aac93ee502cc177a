"""What is legal of an index, a condition or a value, as one rule for each kind of node: the verifier's lower half.

An expression that stands in several places of one scope is checked once. What is loaded in a value is found on the way,
and kept with it: every analysis asks for that first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isinf
from typing import Any

from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Add,
    And,
    Buffer,
    Cast,
    Cmp,
    Const,
    FloorDiv,
    IndexToValue,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    Param,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
)
from loopir.ir.traverse.free_vars import ARITHMETIC, expr_facts
from loopir.ir.traverse.rebuild import operations, seed_operations
from loopir.ir.verify.scope import VerifyContext, fail


def in_scope(b: Buffer, here: VerifyContext) -> None:
    declared = here.buffers.get(b.name)
    if declared is not b and declared != b:
        fail(f"{b.name} is used where it is not declared, or declared otherwise")
    here.used[b.name] = b


def access(b: Buffer, at: tuple[Any, ...], here: VerifyContext) -> None:
    if here.buffers.get(b.name) is not b:
        in_scope(b, here)
    else:
        here.used[b.name] = b
    rank = 1 if here.stage == "flat" else len(b.shape)
    if len(at) != rank:
        fail(f"{b.name} has {rank} dimensions at this stage, and {len(at)} indices are given")
    bound = here.bound
    for x in at:
        part = x.a if x.__class__ is Add and x.b.__class__ is Int else x  # as is met most
        kind = part.__class__
        if kind is not Int and not (kind is Var and part.name in bound):
            expr(x, here)


def value(v: Value, here: VerifyContext) -> DType:
    """Check what is stored or folded, and tell its type; operations on loads alone are kept as such."""
    known, seen = operations(v), here.seen
    if known is not None:
        for n in known[1]:
            if id(n) not in seen:
                access(n.buffer, n.at, here)
                seen.add(id(n))
        return known[0]
    loads: list[Load] = []
    here.loads = loads
    expr(v, here)
    found = v.dtype
    if here.loads is loads and v.__class__ is Op:  # and not None by now
        seed_operations(v, (found, tuple(loads)))
    return found


def expr(n: Any, here: VerifyContext, params: dict[str, DType] | None = None) -> None:
    """Check an index, condition or value and all below it; each shared node once per scope."""
    kind: type = type(n)  # pyright: ignore[reportUnknownVariableType]
    if kind is Var:
        if n.name not in here.bound:
            fail(f"{n.name!r} is no loop around this, and no size")
        return
    if kind is Int or kind is Load:
        return None if kind is Int else _load(n, here, params)
    if id(n) in here.seen:
        here.loads = None
        return
    if kind is Add and n.b.__class__ is Int and n.a.__class__ is Var and n.a.name in here.bound:  # as is met most
        return
    if kind in ARITHMETIC and (known := expr_facts(n))[2] and known[0] <= here.bound:
        return
    check = RULES.get(kind)
    if check is None:
        fail(f"{kind.__name__} is no expression of the language")
    if kind is not Op and kind is not Const:
        here.loads = None
    check(n, here, params)
    if params is None:
        here.seen.add(id(n))


def _pair(n: Any, here: VerifyContext, params: dict[str, DType] | None) -> None:
    expr(n.a, here, params)
    expr(n.b, here, params)


def _division(n: FloorDiv | Mod, here: VerifyContext, params: dict[str, DType] | None) -> None:
    _pair(n, here, params)
    if isinstance(n.b, Int) and n.b.value <= 0:
        fail(f"an index is divided by {n.b.value}; the divisor has to be positive")


def _check_terms(n: And | Or, here: VerifyContext, params: dict[str, DType] | None) -> None:
    if len(n.terms) == 1:
        fail(f"{type(n).__name__} of one term; write the term")
    for t in n.terms:
        expr(t, here, params)


def _load(n: Load, here: VerifyContext, params: dict[str, DType] | None) -> None:
    if id(n) not in here.seen:
        access(n.buffer, n.at, here)
        here.seen.add(id(n))
    if here.loads is not None:
        here.loads.append(n)


def _opaque(n: ValueToIndex, here: VerifyContext, params: dict[str, DType] | None) -> None:
    expr(n.value, here, params)
    if not n.value.dtype.is_integer:
        fail(f"an index from memory is an integer, not {n.value.dtype}")


def _truth(n: ValueToCond, here: VerifyContext, params: dict[str, DType] | None) -> None:
    expr(n.value, here, params)
    if n.value.dtype.kind != "bool":
        fail(f"a condition from memory is a bool, not {n.value.dtype}")


def _const(n: Const, here: VerifyContext, params: dict[str, DType] | None) -> None:
    if n.type.is_integer and not n.type.holds(int(n.value)):
        fail(f"the constant {n.value} does not fit {n.type}")
    if n.type.is_float and not n.type.has_infinity and isinf(n.value):
        fail(f"the constant {n.value} does not fit {n.type}, which has no infinities: it ends at {n.type.greatest}")


def _select(n: Select, here: VerifyContext, params: dict[str, DType] | None) -> None:
    expr(n.cond, here, params)
    _pair(n, here, params)
    if n.a.dtype != n.b.dtype:
        fail(f"select has arms of {n.a.dtype} and {n.b.dtype}")


def _op(n: Op, here: VerifyContext, params: dict[str, DType] | None) -> None:
    if n.fn.lane is not None:
        fail(f"{n.fn.name}, between the lanes of a warp, stands alone in a store, in a kernel")
    arguments(n, here, params)


def arguments(n: Op, here: VerifyContext, params: dict[str, DType] | None) -> DType:
    """Check what an operation is done to, and give the type of what it makes; the commonest by their types."""
    args: tuple[Any, ...] = n.args
    fn, seen = n.fn, here.seen
    if len(args) != fn.arity:
        fail(f"{fn.name} takes {fn.arity} arguments, and has {len(args)}")
    first: DType | None = None
    found: DType
    for a in args:
        if a.__class__ is Load:
            _load(a, here, params)
            found = a.buffer.dtype
        elif a.__class__ is Op and a.fn.lane is None and id(a) not in seen:
            found = arguments(a, here, params)
            if params is None:
                seen.add(id(a))
        else:
            expr(a, here, params)
            found = a.dtype
        if first is None:
            first = found
            if first.kind not in fn.kinds:
                fail(f"{fn.name} takes {' or '.join(sorted(fn.kinds))}, not {first}")
        elif found is not first and found != first:
            fail(f"{fn.name} has arguments of {first} and {found}")
    return n.dtype if first is None or fn.result == "bool" else first


def _param(n: Param, here: VerifyContext, params: dict[str, DType] | None) -> None:
    if params is None or params.get(n.name) != n.type:
        fail(f"{n.name!r} is a monoid's component, used outside it or with another type")


Rule = Callable[[Any, VerifyContext, "dict[str, DType] | None"], None]
RULES: dict[type, Rule] = {
    **dict.fromkeys((Add, Mul, Min, Max, Xor, Cmp), _pair),
    **dict.fromkeys((FloorDiv, Mod), _division),
    **dict.fromkeys((And, Or), _check_terms),
    Not: lambda n, here, params: expr(n.term, here, params),
    Const: _const,
    ValueToIndex: _opaque,
    ValueToCond: _truth,
    Load: _load,
    IndexToValue: lambda n, here, params: expr(n.of, here, params),
    Cast: lambda n, here, params: expr(n.value, here, params),
    Select: _select,
    Op: _op,
    Param: _param,
}
