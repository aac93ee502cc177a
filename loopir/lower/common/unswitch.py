"""Loop unswitching: hoist loop-invariant tests out of loops, and merge equal tests of neighbouring statements.

A tile at the edge is tested where its sums are initialized, in every iteration of the reduced loop, and where they are
stored; LLVM would unswitch these loops at its highest optimization level only, and slowly. Where unrolled copies have a
test each, such as the rows of a tile, the loop is duplicated: without tests, for when all of them hold, and as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from loopir.arith.poly import coefficient, const_of, expand_index, poly_add
from loopir.ir.grammar import (
    TRUE,
    Alloc,
    Body,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Int,
    Loop,
    Mod,
    Node,
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    ValueToCond,
    ValueToIndex,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.traverse.clone import UsedNames
from loopir.ir.traverse.labels import labels_in
from loopir.ir.traverse.walk import free_vars, map_body, map_stmts, nodes, rebuild, statements, substitute
from loopir.lower.target import Target


def unswitch(func: Func, target: Target) -> Func:
    """`func` with each test hoisted as far as it is invariant, and neighbouring statements under shared tests."""
    guarded = _Guards(UsedNames.of(func))
    return replace(func, body=map_body(func.body, guarded.visit))


@dataclass
class _Guards:
    taken: UsedNames
    lane: str = ""
    """The variable of the vectorized loop around: its lanes run a loop together, so a test may not part them there."""

    def visit(self, s: Stmt) -> Stmt:
        match s:
            case Loop(kind="vectorize") if not self.lane:
                self.lane = s.var
                s = self.visit(s)
                self.lane = ""
                return s
            case Loop() | Alloc():
                tests, s = _common_guards(replace(s, body=_joined(map_body(s.body, self.visit))))
                s = self.twice(s) if isinstance(s, Loop) else s
                return If(conj(*tests), (s,)) if tests else s
            case If(cond, then, orelse):
                then, orelse = _joined(map_body(then, self.visit)), map_body(orelse, self.visit)
                if len(then) == 1 and isinstance(then[0], If) and not orelse and not then[0].orelse:
                    return If(conj(cond, then[0].cond), then[0].then)
                return If(cond, then, orelse)
            case _:
                return map_stmts(s, self.visit)

    def twice(self, s: Loop) -> Stmt:
        """`s`; if it is without loops, where all tests hold that it does not change, without these."""
        if s.kind != "serial":
            return s
        inner = [x for x in statements(s.body) if isinstance(x, Loop)]
        copies = {x.var: x.extent.value for x in inner if x.kind == "unroll" and isinstance(x.extent, Int)}
        others = {s.var, self.lane, *(x.var for x in inner if x.var not in copies)}
        if any(x.kind not in ("unroll", "vectorize") for x in inner):
            return s
        worst = {t: w for t in _tests(s) if not others & free_vars(t) and (w := _worst(t, copies)) is not None}
        if not worst or not all(x.isidentifier() for x in labels_in(s)):  # others are messages, of which there is one
            return s
        whole = replace(s, body=map_body(s.body, lambda x: _assume(x, worst.keys())))
        return If(conj(*worst.values()), (whole,), self.taken.copy((s,)))


# ---------------------------------------------------------------- tests that leave


def _common_guards(s: Loop | Alloc) -> tuple[list[Cond], Loop | Alloc]:
    """The tests that all of `s` is under, which leave it, and it without them."""
    tested = [x for x in s.body if not _hint(x)]
    if not tested or (isinstance(s, Loop) and s.kind == "parallel"):  # a kernel is rooted at one
        return [], s
    common = [t for t in _common_tests(*tested) if not isinstance(s, Loop) or s.var not in free_vars(t)]
    return common, replace(s, body=tuple(y for x in s.body for y in _drop_tests(x, common))) if common else s


def _joined(body: Body) -> Body:
    """`body` with neighbours under the tests that both are under."""
    out: list[Stmt] = []
    for s in body:
        common = _common_tests(out[-1], s) if out else ()
        if common:
            out[-1] = If(conj(*common), _joined((*_drop_tests(out[-1], common), *_drop_tests(s, common))))
        else:
            out.append(s)
    return tuple(out)


def _common_tests(*stmts: Stmt) -> tuple[Cond, ...]:
    """The tests of indices that all of `stmts` are under, if there are any."""
    if not all(isinstance(s, If) and not s.orelse for s in stmts):
        return ()
    first, *rest = (conjuncts(s.cond) for s in stmts if isinstance(s, If))
    return tuple(t for t in first if is_uniform(t) and all(t in other for other in rest))


def is_uniform(test: Cond) -> bool:
    """Whether `test` is one of indices alone, the same wherever its variables are, and can be evaluated there."""
    inside = list(nodes(test))
    divisors = (n.b for n in inside if isinstance(n, FloorDiv | Mod))
    return not any(isinstance(n, ValueToCond | ValueToIndex) for n in inside) and all(
        isinstance(d, Int) for d in divisors
    )


def _drop_tests(s: Stmt, tests: Collection[Cond]) -> Body:
    """`s` where `tests` are known to hold."""
    if not isinstance(s, If):
        return (s,)
    rest = _rest(s.cond, tests)
    return s.then if rest == TRUE else (If(rest, s.then, s.orelse),)


def _rest(cond: Cond, tests: Collection[Cond]) -> Cond:
    """What of `cond` is open where `tests` hold."""
    return conj(*(t for t in conjuncts(cond) if t not in tests))


def _hint(s: Stmt) -> bool:
    return isinstance(s, Prefetch) or (isinstance(s, Loop) and all(map(_hint, s.body)))


# ---------------------------------------------------------------- tests of copies


def _tests(s: Loop) -> Iterator[Cond]:
    for n in nodes(s):
        if isinstance(n, If | Select):
            yield from filter(is_uniform, conjuncts(n.cond))


def _worst(test: Cond, copies: dict[str, int]) -> Cond | None:
    """What holds if `test` does for all copies: it for that which is next to fail, if copies go steadily towards it."""
    for var in free_vars(test) & copies.keys():
        if not isinstance(test, Cmp) or test.op not in ("<", "<="):
            return None
        split = coefficient(poly_add(expand_index(test.b), expand_index(test.a), -1), Var(var))
        slope = None if split is None else const_of(split[0])
        if split is None or slope is None or any(var in free_vars(a) for m in split[1] for a in m):
            return None
        test = substitute(test, {var: Int(0 if slope > 0 else copies[var] - 1)})
    return test


def _assume(s: Stmt, tests: Collection[Cond]) -> Stmt | Body:
    """`s` and all that is in it, where `tests` hold."""

    def value(n: Node) -> Node:
        n = rebuild(n, value)
        if not isinstance(n, Select):
            return n
        rest = _rest(n.cond, tests)
        return n.a if rest == TRUE else replace(n, cond=rest)

    if isinstance(s, Store | Reduce):
        return rebuild(s, value)
    return _drop_tests(map_stmts(s, lambda x: _assume(x, tests)), tests)
