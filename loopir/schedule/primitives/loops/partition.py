"""partition: a loop is cut where the guards in its body change, so that most iterations have none.

The iterations at which every guard, select, minimum and maximum that depends on the loop has settled are the interior;
those before and after it get loops of their own, with what guards are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar, cast

from loopir.analysis.dependence.access import is_affine_visible
from loopir.arith.poly import Poly, coefficient, const_of, constant_poly, poly_add, poly_scale, to_index
from loopir.arith.simplify import EMPTY, poly
from loopir.arith.simplify_func import starts_alike
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    FALSE,
    THREAD_AXES,
    TRUE,
    Alloc,
    And,
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
    Max,
    Min,
    Mod,
    Node,
    Not,
    Or,
    Reduce,
    Select,
    Stmt,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    bodies,
    children,
    free_vars,
    loops,
    map_body,
    map_stmts,
    nodes,
    rebuild,
    reduction_start_loops,
    reduction_starts,
    refold,
    replace,
    replace_loop,
    rewrite,
    statements,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.core.naming import UsedNames
from loopir.schedule.legality.effects import require_known_starts, require_stable_extent
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.legality.reduction_starts import require_starts_in_parts
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import loop_part

N = TypeVar("N", bound=Node)


@primitive
def partition(func: Func, loop: str) -> Func:
    """Cut `loop` into an interior without the guards that depend on it, and the iterations before it and after it.

    The iterations stay in order, so it is always legal. The interior keeps the names, the edges are i_first and
    i_last; one in which no statement runs is left out. A guard that speaks of a loop inside, which has a constant
    length, has settled where it holds for all iterations of that.

    before:
        def pad(n: "size", A: "float32[n]", B: "out float32[n]"):
            assume(2 <= n)
            for i in range(n):
                B[i] = 0.0
                for k in range(3):
                    if 1 <= i + k and i + k < n + 1:
                        B[i]: "step" = B[i] + A[i + k - 1]
    call:    partition("i")
    after:
        def pad(n: "size", A: "float32[n]", B: "out float32[n]"):
            assume(2 <= n)
            for i_first in range(1):
                B[i_first]: "B_1" = 0.0
                for k_1 in range(3):
                    if 1 <= i_first + k_1:
                        B[i_first]: "step_1" = B[i_first] + A[i_first + k_1 - 1]
            for i in range(n - 2):
                B[i + 1] = 0.0
                for k in range(3):
                    B[i + 1]: "step" = B[i + 1] + A[i + k]
            for i_last in range(1):
                B[n + i_last - 1] = 0.0
                for k_2 in range(3):
                    if n + i_last + k_2 - 1 < n + 1:
                        B[n + i_last - 1]: "step_2" = B[n + i_last - 1] + A[n + i_last + k_2 - 2]

    before:
        def tiles(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range((n + 7) // 8):
                for j in range(8):
                    if i * 8 + j < n:
                        B[i * 8 + j] = A[i * 8 + j]
    call:    partition("i")
    after:
        def tiles(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n // 8):
                for j in range(8):
                    B[i * 8 + j] = A[i * 8 + j]
            for i_last in range((n + 7) // 8 - n // 8):
                for j_1 in range(8):
                    if n // 8 * 8 + i_last * 8 + j_1 < n:
                        B[n // 8 * 8 + i_last * 8 + j_1] = A[n // 8 * 8 + i_last * 8 + j_1]
    refuses: partition("j_2")  # there is no loop

    before:
        def plain(A: "float32[8]", B: "out float32[8]"):
            for i in range(8):
                B[i] = A[i]
    refuses: partition("i")  # no guard in 'i' changes at an iteration that is known
    """
    target = find_loop(func, loop)
    if target.kind in ("vectorize", "unroll", *THREAD_AXES):
        reason = f"{target.var!r} is {target.kind}, so its length has to stay a constant"
        raise ScheduleError(reason, loop=target.var, suggestion="take this step before that one")
    require_outside_lanes(func, target)
    require_stable_extent(target)
    facts = Facts.at(func, target)
    settled = Interior.of(target, facts)
    low, high = settled.low(), settled.high()
    if not settled.lows and not settled.highs:
        reason = f"no guard in {target.var!r} changes at an iteration that is known"
        if held := [x for x in statements(target.body) if isinstance(x, If) and _restarts(x)]:
            starting = join_names(
                r.label for x in held for r in statements(x.orelse) if isinstance(r, Reduce) and r.init is not None
            )
            reason += f", but one at whose other side {starting} starts all the same"
        raise ScheduleError(
            reason, loop=target.var, suggestion="a loop that a guard, a select, a min or a max speaks of"
        )
    require_known_starts(target, low, high)
    require_starts_in_parts(func, target)
    new = replace_loop(func, target.var, lambda _: _pieces(func, target, settled, low, high))
    made = {x.var for x in loops(new.body)} - {x.var for x in loops(func.body)} | {target.var}
    empty = rewrite(new.body, lambda s: _pruned(s) if isinstance(s, Loop) and s.var in made else None)
    new = replace(new, body=empty)
    require_still_together(func, new, target)
    return new


def _pieces(func: Func, loop: Loop, settled: Interior, low: Index, high: Index) -> Body:
    taken, facts, n = UsedNames.of(func), settled.facts, loop.extent
    out: Body = ()
    if settled.before and settled.lows:
        first, name = facts.less(low, n), taken.name(f"{loop.var}_first")
        decided = settled.decided_conds(early=True)
        out = (
            loop_part(loop, Int(0), first, name, facts.place, goes_on=False, copy=taken, decided=decided, begins=True),
        )
    inside = replace(loop, body=map_body(tuple(settled.decided(s) for s in loop.body), _opened))
    middle = loop_part(inside, low, high - low, loop.var, facts.place, goes_on=bool(out), decided={})
    out = (*out, middle)  # none, where they cross
    if settled.after and settled.highs:
        crosses = not all(facts.at_least(a - b, 0) for a in (n, *settled.highs) for b in (Int(0), *settled.lows))
        end = facts.greater(high, low, one=False, other=bool(settled.lows)) if crosses else high
        name = taken.name(f"{loop.var}_last")
        decided = settled.decided_conds(early=False)
        last = loop_part(loop, end, n - end, name, facts.place, goes_on=True, copy=taken, decided=decided, begins=False)
        out = (*out, last)
    return out


def _opened(s: Stmt) -> Stmt | Body:
    """`s` without guards that are decided."""
    s = map_stmts(s, _opened)
    return (s.then if s.cond == TRUE else s.orelse) if isinstance(s, If) and s.cond in (TRUE, FALSE) else s


def _pruned(s: Stmt) -> Body:
    """`s` without loops, guards and allocations of nothing."""
    s = map_stmts(s, _pruned)
    return () if isinstance(s, Loop | If | Alloc) and not any(bodies(s)) else (s,)


# ---------------------------------------------------------------- where guards settle


@dataclass(slots=True)
class Interior:
    """What is decided in the interior of `loop`, and how far that interior goes."""

    loop: Loop
    facts: Facts
    conds: dict[Cond, bool] = field(default_factory=dict[Cond, bool])
    arms: dict[Index, Index] = field(default_factory=dict[Index, Index])
    lows: list[Index] = field(default_factory=list[Index])
    highs: list[Index] = field(default_factory=list[Index])
    needed: frozenset[tuple[Cond, bool]] = frozenset()
    """What has to hold for anything to run: where such a condition fails, nothing is left of an edge."""
    begins: dict[Cond, Index | None] = field(default_factory=dict[Cond, "Index | None"])
    ends: dict[Cond, Index | None] = field(default_factory=dict[Cond, "Index | None"])
    """Conditions that turn out as they do from an iteration on, or before one: which, if they do so nowhere else."""
    before: bool = False
    after: bool = False
    """Whether there may be something to do before the interior, and after it."""

    @staticmethod
    def of(loop: Loop, facts: Facts) -> Interior:
        settled = Interior(loop, facts, needed=frozenset(_needed(loop)))
        for s in loop.body:
            settled.visit(s, ())
        return settled

    def decided_conds(self, *, early: bool) -> dict[Cond, tuple[bool, bool]]:
        """How conditions turn out in all of the iterations before the interior, if `early`, or in all after it, or
        else may: what decides an edge does not turn out there as in the interior, and fails where it alone does so.

        What holds from some iteration on has come to hold by the end.
        """
        mine, bounds = (self.begins, self.lows) if early else (self.ends, self.highs)
        fails = {c: (not self.conds[c], [at] == bounds) for c, at in mine.items()}
        return fails if early else fails | {c: (self.conds[c], True) for c in self.begins}

    def low(self) -> Index:
        """Where the interior begins; that no bound is at 0 was seen when it was found."""
        if not self.lows:
            return Int(0)
        first, *others = self.lows
        return reduce(self.facts.greater, others, self.facts.greater(Int(0), first, one=False))

    def high(self) -> Index:
        """Where the interior ends; that no bound is at the end of the loop was seen when it was found."""
        if not self.highs:
            return self.loop.extent
        first, *others = self.highs
        return reduce(self.facts.less, others, self.facts.less(self.loop.extent, first, one=False))

    def visit(self, n: Node, inside: tuple[Loop, ...]) -> None:
        """Bound the interior so that the conditions and extremes under `n`, in the loops `inside`, are decided."""
        if isinstance(n, Stmt):
            if isinstance(n, Loop):
                self.full(n, inside)
            elif isinstance(n, If) and not _restarts(n):
                self.want(n.cond, True, inside)
            for child in children(n):
                self.visit(child, (*inside, n) if isinstance(n, Loop) else inside)
        elif self.loop.var in free_vars(n):
            for x in nodes(n):
                if isinstance(x, Select):
                    self.want(x.cond, True, inside)
                elif isinstance(x, Min | Max):
                    self.choose(x, inside)

    def want(self, c: Cond, held: bool, inside: tuple[Loop, ...]) -> None:
        """Let `c` hold, or not, in the interior, as far as it is a matter of where that ends."""
        match c:
            case And(terms) | Or(terms):
                for t in terms:
                    self.want(t, held, inside)
            case Not(term):
                self.want(term, not held, inside)
            case Cmp("==" | "!=" as op, a, b) if c not in self.conds:
                self.avoid(c, poly(a - b, EMPTY), op == "!=")
            case Cmp(op, a, b) if c not in self.conds:
                difference = poly_add(poly(b - a, EMPTY), constant_poly(-1 if op == "<" else 0))
                p = difference if held else poly_add(poly_scale(difference, -1), constant_poly(-1))
                if (found := self.require(p, inside, live=(c, held) not in self.needed)) is not None:
                    self.conds[c] = held
                    late, exact, at = found
                    (self.begins if late else self.ends)[c] = at if exact else None
            case _:
                pass

    def full(self, loop: Loop, inside: tuple[Loop, ...]) -> None:
        """Let a loop be as long as it gets: of a minimum that cuts the last tile short, the side that does not."""
        for n in nodes(loop.extent):
            if isinstance(n, Min):
                self.choose(n, inside, moving=False)

    def choose(self, n: Min | Max, inside: tuple[Loop, ...], *, moving: bool = True) -> None:
        """Let `n` be its side that speaks of the loop, or the other one."""
        sides = {self.loop.var in free_vars(x): x for x in (n.a, n.b)}
        if len(sides) == 2 and n not in self.arms:
            mine, other = sides[moving], sides[not moving]
            more = other - mine if isinstance(n, Min) else mine - other
            if self.require(poly(more, EMPTY), inside) is not None:
                self.arms[n] = mine

    def avoid(self, c: Cond, p: Poly, held: bool) -> None:
        """Leave the one iteration out at which `p` is 0, if it is the first or the last."""
        found = coefficient(p, Var(self.loop.var))
        slope = const_of(found[0]) if found is not None else None
        if found is None or slope not in (1, -1) or not self.known(found[1]):
            return
        at = self.facts.tidy(to_index(poly_scale(found[1], -slope)))
        live = (c, held) not in self.needed
        if self.facts.equal(at, Int(0)):
            self.start(Int(1), live)
        elif self.facts.equal(at, self.loop.extent - 1):
            self.stop(self.loop.extent - 1, live)
        else:
            return
        self.conds[c] = held

    def start(self, low: Index, live: bool) -> None:
        """Let the interior start at `low` at least; `live`: something may run before."""
        if not self.facts.at_least(-low, 0):
            self.lows.append(low)
            self.before = self.before or live

    def stop(self, high: Index, live: bool) -> None:
        """Let the interior stop before `high` at the latest; `live`: something may run from there on."""
        if not self.facts.at_least(high - self.loop.extent, 0):
            self.highs.append(high)
            self.after = self.after or live

    def require(self, p: Poly, inside: tuple[Loop, ...], live: bool = True) -> tuple[bool, bool, Index] | None:
        """Let `p >= 0` in the interior, whatever the loops `inside` are at; None if that is not an end of it.

        Whether it is so from an iteration on, or else before one; whether nowhere else; and which iteration that is.
        """
        least = _least_of_digits(p, inside)
        exact, live, p = least is p, live or least is not p, least
        for x in reversed(inside):
            found = coefficient(p, Var(x.var))
            slope = const_of(found[0]) if found is not None else None
            if found is None or slope is None or (slope and not isinstance(x.extent, Int)):
                return None
            live, exact = live or slope != 0, exact and not slope
            least = poly_add(poly(x.extent, EMPTY), constant_poly(-1)) if slope < 0 else constant_poly(0)
            p = poly_add(found[1], least, slope)
        found = coefficient(p, Var(self.loop.var))
        slope = const_of(found[0]) if found is not None else None
        if found is None or not slope or not self.known(found[1], inside):
            return None
        rest = to_index(found[1])
        end = (-rest + (slope - 1)) // slope if slope > 0 else rest // -slope + 1
        nothing_left = end - self.loop.extent if slope > 0 else -end
        if self.facts.at_least(nothing_left, 0):
            return None
        (self.start if slope > 0 else self.stop)(end, live)
        return slope > 0, exact, end

    def known(self, p: Poly, inside: tuple[Loop, ...] = ()) -> bool:
        """Whether `p` is the same for all of the loop."""
        rest = to_index(p)
        return is_affine_visible(rest) and not free_vars(rest) & {self.loop.var, *(x.var for x in inside)}

    def decided(self, node: N) -> N:
        """`node` as it is in the interior."""

        def visit(n: Node) -> Node:
            if isinstance(n, Buffer) or not (isinstance(n, Stmt) or self.loop.var in free_vars(n)):
                return n
            if isinstance(n, Index) and not self.arms:
                return n
            if isinstance(n, If):
                then, orelse = (tuple([cast(Stmt, visit(s)) for s in body]) for body in (n.then, n.orelse))
                return If(
                    n.cond if _restarts(n) else conj(*(guard(t, n.then) for t in conjuncts(n.cond))), then, orelse
                )
            if isinstance(n, Cmp) and n in self.conds:
                return TRUE if self.conds[n] else FALSE
            if isinstance(n, Min | Max) and n in self.arms:
                return visit(self.arms[n])
            out = rebuild(n, visit)
            if out is n or not isinstance(out, Index | Cond):
                return out
            return refold(out) if isinstance(out, Index) else _drop_decided(out)

        def guard(t: Cond, body: Body) -> Cond:
            new = cast(Cond, visit(t))
            return new if starts_alike(t, new, reduction_starts(body)) else t

        return cast(N, visit(node))


def _least_of_digits(p: Poly, inside: tuple[Loop, ...]) -> Poly:
    """What `p` is at least, with quotients and remainders of the loops `inside` by constants at their least; `p` itself
    if it has none."""
    lengths = {x.var: x.extent.value for x in inside if isinstance(x.extent, Int)}
    out = p
    for m, c in p.items():
        match m:
            case (FloorDiv(Var(v), Int(d)) | Mod(Var(v), Int(d)) as digit,) if d > 0 and v in lengths:
                most = (lengths[v] - 1) // d if isinstance(digit, FloorDiv) else min(lengths[v], d) - 1
                out = poly_add(poly_add(out, {m: -c}), constant_poly(min(c * most, 0)))
            case _:
                pass
    return out


def _restarts(s: If) -> bool:
    """Whether a reduction in what would be left out starts all the same, as the condition speaks of what it is over."""
    return any(not reduction_start_loops(x).isdisjoint(free_vars(s.cond)) for x in s.orelse)


def _drop_decided(c: Cond) -> Cond:
    """`c` without terms that are decided."""
    match c:
        case And(terms):
            return conj(*terms)
        case Or(terms):
            open_ = tuple(t for t in terms if t != FALSE)
            return TRUE if TRUE in terms else FALSE if not open_ else open_[0] if len(open_) == 1 else Or(open_)
        case Not(term) if term in (TRUE, FALSE):
            return FALSE if term == TRUE else TRUE
        case _:
            return c


def _needed(loop: Loop) -> Iterator[tuple[Cond, bool]]:
    """Comparisons, with how they have to turn out, without which nothing runs in an iteration of `loop`.

    A reduction starts whatever the guards say that speak of a loop it is over; over `loop`, in the first part there is.
    """
    inits = (s for s in statements(loop.body) if isinstance(s, Reduce) and s.init is not None)
    outside = {v for s in inits if loop.var not in s.over for v in s.over}
    body = loop.body
    while len(body) == 1 and isinstance(s := body[0], Loop | Alloc | If):
        if isinstance(s, If):
            if s.orelse:
                return
            kept = (t for t in conjuncts(s.cond) if not free_vars(t) & outside)
            yield from (term for t in kept for term in _decided_terms(t, True))
        body = s.then if isinstance(s, If) else s.body


def _decided_terms(c: Cond, held: bool) -> Iterator[tuple[Cond, bool]]:
    """Comparisons that turn out in one way wherever `c` is `held`."""
    if isinstance(c, Not):
        yield from _decided_terms(c.term, not held)
    elif isinstance(c, And if held else Or):
        yield from (t for term in c.terms for t in _decided_terms(term, held))
    elif isinstance(c, Cmp):
        yield c, held
