"""specialize: a second version of a loop for when a condition holds, where the condition simplifies it."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import cast

from loopir.analysis.dependence.access import is_affine_visible
from loopir.analysis.regions.retile import Retiling
from loopir.arith.poly import expand_index
from loopir.arith.simplify import simplify_cond
from loopir.errors import ParseError, ScheduleError
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Loop,
    Monoid,
    Node,
    Select,
    Stmt,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.parser.parse import condition
from loopir.ir.printer import text
from loopir.ir.traverse.rebuild import transform
from loopir.ir.traverse.walk import (
    children,
    free_vars,
    loops,
    nodes,
    path_to,
    rebuild,
    replace_stmt,
    statements,
    substitute,
    taken_names,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.core.naming import clone_fresh
from loopir.schedule.legality.effects import reads, writes
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.legality.reduction_starts import require_starts_in_versions
from loopir.schedule.schedule import primitive


@primitive
def specialize(func: Func, loop: str, when: str | None = None) -> Func:
    """Make a version of `loop` for where `when` holds, and keep the loop as it is for where it does not.

    `when` is a condition on sizes and on the loops around, as text; by default, it is what the selections in the loop
    ask that is the same in all of its iterations. The version keeps the names and is simplified by what `when` says,
    so that it can be scheduled further; the names of the other get numbers.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range((n + 3) // 4):
                for j in range(4):
                    if i * 4 + j < n:
                        B[i * 4 + j] = A[i * 4 + j]
    call:    specialize("i", "n % 4 == 0")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            if n % 4 == 0:
                for i in range(n // 4):
                    for j in range(4):
                        B[i * 4 + j] = A[i * 4 + j]
            else:
                for i_1 in range((n + 3) // 4):
                    for j_1 in range(4):
                        if i_1 * 4 + j_1 < n:
                            B[i_1 * 4 + j_1] = A[i_1 * 4 + j_1]
    refuses: specialize("i", "m > 4")   # is no condition on n
    refuses: specialize("j", "j == 0")  # speaks of 'j', which stands inside
    refuses: specialize("i", "n >= 0")  # always holds
    refuses: specialize("i")            # nothing that is selected in 'i' is the same in all of its iterations

    before:
        def g(n: "size", A: "float32[n, 4]", B: "out float32[n + 2, 4]"):
            for i in range(n + 2):
                for j in range(4):
                    B[i, j] = select(1 <= i and i < n + 1, A[i - 1, j], 0.0)
    call:    specialize("j")
    after:
        def g(n: "size", A: "float32[n, 4]", B: "out float32[n + 2, 4]"):
            for i in range(n + 2):
                if 1 <= i and i < n + 1:
                    for j in range(4):
                        B[i, j] = A[i - 1, j]
                else:
                    for j_1 in range(4):
                        B[i, j_1] = 0.0

    before:
        def h(A: "float32[4]", B: "out float32[6]"):
            for i in range(6):
                for j in range(1):
                    B[i + j] = select(1 <= i + j and i + j < 5, A[i + j - 1], 0.0)
    call:    specialize("j")
    after:
        def h(A: "float32[4]", B: "out float32[6]"):
            for i in range(6):
                if 1 <= i and i < 5:
                    for j in range(1):
                        B[i + j] = A[i + j - 1]
                else:
                    for j_1 in range(1):
                        B[i + j_1] = 0.0

    before:
        def v(A: "float32[5, 12]", B: "out float32[5, 16]"):
            for i in range(5):
                for j in range(4):
                    for k in range(4):
                        B[i, j * 4 + k] = select(j * 4 + k < 12, A[i, j * 4 + k], 0.0)
    call:    specialize("k")
    after:
        def v(A: "float32[5, 12]", B: "out float32[5, 16]"):
            for i in range(5):
                for j in range(4):
                    if j * 4 < 12:
                        for k in range(4):
                            B[i, j * 4 + k] = A[i, j * 4 + k]
                    else:
                        for k_1 in range(4):
                            B[i, j * 4 + k_1] = 0.0
    """
    target = find_loop(func, loop)
    require_outside_lanes(func, target)
    if when is None and isinstance(target.extent, Int):
        once = _asked_once(target, target.extent.value)
        func, target = replace_stmt(func, target, once), once
    around = _around(func, target)
    cond = _selected(target) if when is None else _condition(func, when, target, around)
    require_starts_in_versions(func, target, cond)
    known = known_at(func, target)
    decided = simplify_cond(cond, known.here)
    if decided in (TRUE, FALSE):
        always = "always holds" if decided == TRUE else "never holds"
        raise ScheduleError(f"{text(cond)} {always} where {target.var!r} stands", loop=target.var,
                            suggestion="leave the loop as it is")  # fmt: skip
    told = Retiling({v: Var(v) for v in _linked(func, target, cond)}, {}, decides=True)
    version = told.body((target,), known.given(cond))
    other = clone_fresh(func, (target,), taken_names(func))
    made = If(cond, version, other if when is not None else _deselected(other, cond))
    new = replace_stmt(func, target, made)
    require_still_together(func, new, target)
    return new


def _linked(func: Func, target: Loop, cond: Cond) -> set[str]:
    """The names that `cond` may tell something of: those that it speaks of, and what extents and guards tie to them."""
    inside = [*statements((target,))]
    shells = [*path_to(func, target)[:-1], *inside, *(n for s in inside for n in _selects(s))]
    ties = [free_vars(s.extent) | {s.var} for s in shells if isinstance(s, Loop)]
    ties += [free_vars(t) for s in shells if isinstance(s, If | Select) for t in conjuncts(s.cond)]
    found, before = set(free_vars(cond)), 0
    while len(found) > before:
        before = len(found)
        found.update(*(tie for tie in ties if not found.isdisjoint(tie)))
    return found


def _selects(s: Stmt) -> Iterator[Select]:
    """The selections in what a statement evaluates itself."""
    pending = [n for n in children(s) if not isinstance(n, Stmt | Buffer | Monoid)]
    for n in pending:  # which grows on the way
        if isinstance(n, Select):
            yield n
        if type(n) is not Buffer and not (isinstance(n, Index | Cond) and is_affine_visible(n)):
            pending += children(n)


def _around(func: Func, target: Loop) -> tuple[str, ...]:
    """The loops around `target`."""
    return tuple(s.var for s in path_to(func, target)[:-1] if isinstance(s, Loop))


def _condition(func: Func, when: str, target: Loop, around: tuple[str, ...]) -> Cond:
    """`when`, which may speak of sizes and of the loops around `target`."""
    inside = [x.var for x in loops((target,))]
    try:
        cond = condition(when, [*func.sizes, *(x.var for x in loops(func.body))])
    except ParseError:
        cond = None
    if cond is None or not is_affine_visible(cond):
        there = join_names([*func.sizes, *around])
        raise ScheduleError(f"{when!r} is no condition on {there}", loop=target.var,
                            suggestion="comparisons, as in \"n % 4 == 0 and n > 8\"")  # fmt: skip
    if bad := [v for v in inside if v in free_vars(cond)]:
        raise ScheduleError(f"{when!r} speaks of {join_names(map(repr, bad))}, which stands inside", loop=target.var,
                            suggestion="a condition on sizes and on loops around the loop")  # fmt: skip
    if bad := sorted(free_vars(cond) - {*func.sizes, *around}):
        reason = f"{when!r} speaks of {join_names(map(repr, bad))}, which does not stand around {target.var!r}"
        raise ScheduleError(reason, loop=target.var, suggestion=f"a condition on {join_names([*func.sizes, *around])}")
    return cond


def _selected(target: Loop) -> Cond:
    """What the selections in `target` ask that does not change in it."""
    own, written = {x.var for x in loops((target,))}, writes((target,))
    asked = [t for n in nodes(target) if isinstance(n, Select) for t in conjuncts(n.cond)]
    fixed = [
        t for t in dict.fromkeys(asked) if is_affine_visible(t) and not free_vars(t) & own and not reads([t]) & written
    ]
    if not fixed:
        raise ScheduleError(f"nothing that is selected in {target.var!r} is the same in all of its iterations",
                            loop=target.var, suggestion="a condition to make a version for")  # fmt: skip
    return conj(*fixed)


def _asked_once(target: Loop, count: int) -> Loop:
    """`target`, of `count` iterations, with what its selections ask about all of them alike asked about the first."""
    first: dict[str, Index] = {target.var: Int(0)}

    def asked(n: Node) -> Node:
        if not isinstance(n, Select):
            return n
        terms = (substitute(t, first) if _is_uniform(t, target.var, count) else t for t in conjuncts(n.cond))
        return Select(conj(*terms), n.a, n.b)

    return transform(target, asked)


def _is_uniform(cond: Cond, var: str, count: int) -> bool:
    """Whether `cond` is the same for all values of `var` below `count`, whatever the values of all else are.

    So it is for a comparison of g * m + c + k * var with 0, where g is what divides all other coefficients, if no
    multiple of g lies between the least and the largest of c + k * var.
    """
    if var not in free_vars(cond) or count == 1:
        return True
    if not isinstance(cond, Cmp) or cond.op not in ("<", "<="):
        return False
    p = dict(expand_index(cond.b - cond.a))
    own, constant = p.pop((Var(var),), 0), p.pop((), 0)
    if not p or any(var in free_vars(atom) for m in p for atom in m):
        return False
    step, ends = gcd(*p.values()), sorted((constant, constant + own * (count - 1)))
    strict = int(cond.op == "<")
    return (ends[0] - strict) // step == (ends[1] - strict) // step


def _deselected(body: Body, cond: Cond) -> Body:
    """`body` where `cond` fails: without the selections that ask for all of it."""
    asked = set(conjuncts(cond))

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        if isinstance(n, Select) and asked <= set(conjuncts(n.cond)):
            return visit(n.b)
        return rebuild(n, visit)

    return tuple(cast(Stmt, visit(s)) for s in body)
