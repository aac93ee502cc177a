"""Hoist a test that is uniform over the lanes of a vector loop out of the loop.

`x + lane < n` is uniform if x and n are multiples of the number of lanes. Once it is outside, a guarded or padded copy
moves whole vectors, and unrolled copies have no tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopir.arith.poly import coefficient, const_of, poly_add, to_index
from loopir.arith.simplify import Context, poly, simplify, simplify_cond
from loopir.ir.grammar import (
    TRUE,
    Body,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    Int,
    Loop,
    Mod,
    Not,
    Select,
    Stmt,
    Store,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    free_vars,
    leaf_paths,
    loaded_buffers,
    map_body,
    map_stmts,
    nodes,
    substitute,
    take_name,
    taken_names,
)
from loopir.lower.target import Target


def hoist_vector_guards(func: Func, target: Target) -> Func:
    """`func` with such tests outside the lanes of every vector loop that holds one statement."""
    labels = taken_names(func) | {p.stmt.label for p in leaf_paths(func.body)}

    def inside(s: Loop, ctx: Context) -> Stmt:
        inner = ctx.loop(s.var, s.extent)
        return map_stmts(s, lambda x: visit(x, inner))

    def visit(s: Stmt, ctx: Context) -> Stmt | Body:
        match s:
            case Loop(kind="vectorize", body=(only,)):
                return _lifted(s, only, ctx, labels)
            case Loop(kind="unroll", body=(If() as only,)) if _in_registers(only):
                made = _lifted(s, only, ctx, labels)
                return map_stmts(made, lambda x: visit(x, ctx)) if isinstance(made, If) else inside(s, ctx)
            case Loop(kind="unroll") if target.branches:
                return _outside(inside(s, ctx), ctx)
            case Loop():
                return inside(s, ctx)
            case If(cond, then, orelse):
                cond = conj(*(_undivided(t, ctx) for t in conjuncts(cond)))
                yes, no = ctx.inside(cond), ctx.inside(Not(cond))
                return If(cond, map_body(then, lambda x: visit(x, yes)), map_body(orelse, lambda x: visit(x, no)))
            case _:
                return map_stmts(s, lambda x: visit(x, ctx))

    return replace(func, body=map_body(func.body, lambda s: visit(s, Context.of(func))))


def _outside(s: Stmt, ctx: Context) -> Stmt:
    """The unrolled loop `s` with tests that are the same in all of its copies around it, if all are under them."""
    match s:
        case Loop(var, _, _, (If(cond, then, ()),)):
            terms = conjuncts(cond)
            same = [t for t in terms if var not in free_vars(t) and _for_all(t, s, ctx) is not None]
            rest = conj(*(t for t in terms if t not in same))
            body = then if rest == TRUE else (If(rest, then),)
            return If(conj(*same), (replace(s, body=body),)) if same else s
        case _:
            return s


def _undivided(test: Cond, ctx: Context) -> Cond:
    """`x < n // k` as `x * k < n`, if n is a multiple of k: as the tests of elements, so that one of them will do."""
    match test:
        case Cmp("<", a, FloorDiv(n, Int(k))) if k > 1 and simplify(n % k, ctx) == Int(0):
            return Cmp("<", simplify(a * k, ctx), n)
        case _:
            return test


def _in_registers(s: If) -> bool:
    """Whether all that `s` touches is a thread's own: no proof that an access is in bounds needs the test of a lane."""
    return all(n.scope == "local" for n in nodes(s) if isinstance(n, Buffer))


def _lifted(loop: Loop, only: Stmt, ctx: Context, labels: set[str]) -> Stmt:
    """The vector loop around the statement `only`, with what is uniform outside."""
    match only:
        case If(cond, (inner,), ()):
            terms = conjuncts(cond)
            outside = {t: u for t in terms if (u := _for_all(t, loop, ctx)) is not None}
            kept = conj(*(t for t in terms if t not in outside))
            body = inner if kept == TRUE else If(kept, (inner,))
            rest = _lifted(replace(loop, body=(body,)), body, ctx, labels) if outside else replace(loop, body=(body,))
            return If(conj(*outside.values()), (rest,)) if outside else loop
        case Store(value=Select(cond, a, b)):
            tests = [_for_all(t, loop, ctx) for t in conjuncts(cond)]
            if None in tests or not tests:
                return loop
            other = take_name(only.label, labels)
            yes, no = (replace(loop, body=(x,)) for x in (replace(only, value=a), replace(only, value=b, label=other)))
            lane = take_name(loop.var, labels)
            renamed = replace(no, var=lane, body=tuple(substitute(x, {loop.var: Var(lane)}) for x in no.body))
            return If(conj(*_not_none(tests)), (yes,), (renamed,))
        case _:
            return loop


def _not_none(tests: Iterable[Cond | None]) -> list[Cond]:
    return [t for t in tests if t is not None]


def _divides(divisor: Index, ctx: Context) -> bool:
    """Whether `divisor` is known to be at least 1."""
    return isinstance(divisor, Int) or simplify_cond(Cmp("<=", Int(1), divisor), ctx) == TRUE


def _for_all(test: Cond, loop: Loop, ctx: Context) -> Cond | None:
    """The test of all lanes of `loop` at once, if they agree; None if they may not, or memory is read."""
    if loaded_buffers(test) or not all(_divides(n.b, ctx) for n in nodes(test) if isinstance(n, FloorDiv | Mod)):
        return None  # it may stand after a test that keeps it from being evaluated
    if loop.var not in free_vars(test):
        return test
    if not isinstance(test, Cmp) or test.op not in ("<", "<="):
        return None
    lane = Var(loop.var)
    inner = ctx.loop(loop.var, loop.extent)
    split = coefficient(poly_add(poly(test.b, inner), poly(test.a, inner), -1), lane)  # it holds where this is positive
    step = None if split is None else const_of(split[0])
    if split is None or step is None or any(loop.var in free_vars(a) for m in split[1] for a in m):
        return None
    if step == 0:
        return substitute(test, {loop.var: Int(0)})
    least = to_index(split[1]) - (1 if test.op == "<" else 0)
    stride: Index = loop.extent * abs(step)
    agree = least % stride if step > 0 else (least - step) % stride
    return substitute(test, {loop.var: Int(0)}) if simplify(agree, ctx) == Int(0) else None
