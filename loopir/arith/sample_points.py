"""Refute an inequality by a sample point at which all assumptions hold.

Most guards of a real schedule can be decided neither way, and the search for a proof costs most where there is none.
The points of a place are those of the place around it, at both ends of one more loop, without those that break a new
guard. They only say that a proof cannot be; where there are no points, or an atom has no value, they say nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import nan

from loopir.arith.assumptions import Assumptions, Run
from loopir.arith.poly import Monomial, Poly, const_of
from loopir.errors import VerifyError
from loopir.ir.grammar import Var
from loopir.ir.traverse.walk import free_vars
from loopir.ir.verify.verify import evaluate

TILED_SIZE = 480 * 128 - 8
"""A little less than whole tiles of most lengths, and groups of tiles, whose last ones then stick out."""
UNEVEN_SIZE = 11
"""One less than a whole number of short tiles: what is then left over is none of a split by 2, 3 or 6."""
POINT_KINDS = (
    (TILED_SIZE, 0),
    (TILED_SIZE, 1),
    (UNEVEN_SIZE, 1),
    (0, 0),
    (0, 1),
    (UNEVEN_SIZE, 3),
    (TILED_SIZE - 120, 1),
)
"""How far above its least value a size is, in multiples, and which iteration of a loop is taken: the first, the last,
these by turns, or by turns the other way round."""

OTHERS = range(2, 6)
"""Those that end fewer proofs that fail than the two before."""


class Point(dict[str, int]):
    """The value of each variable; of a size, once it is asked for. `terms` are what products are there."""

    __slots__ = ("above", "ends", "known", "terms")

    def __init__(
        self, values: Mapping[str, int], terms: Mapping[Monomial, float], above: int, ends: int, known: Assumptions
    ) -> None:
        super().__init__(values)
        self.terms = dict(terms)
        self.above, self.ends, self.known = above, ends, known

    def __missing__(self, name: str) -> int:
        step = self.known.multiples.get(name, 1)
        least = -(-self.known.lows.get(name, 0) // step)
        apart = sum(map(ord, name)) % 7 * (6 if self.above == UNEVEN_SIZE else 1) if self.above else 0
        value = self[name] = (least + self.above + apart) * step
        return value

    def iteration(self, depth: int, top: int) -> int:
        """The iteration to take of a loop whose last is `top`."""
        last = self.ends == 1 or (self.ends > 1 and (depth + self.ends) % 2 == 0)
        return top if last else 0

    def value(self, p: Mapping[Monomial, int]) -> float:
        """What `p` is here; not a number where an atom has no value."""
        total: float = 0
        for m, c in p.items():
            found = self.terms.get(m)
            if found is None:
                found = self.terms[m] = _monomial_value(m, self)
            total += c * found
        return total


def _monomial_value(m: Monomial, point: Point) -> float:
    total: float = 1
    for a in m:
        try:
            total *= point[a.name] if isinstance(a, Var) else evaluate(a, point)
        except (ZeroDivisionError, VerifyError):
            return nan
    return total


def refuted_by_sample(p: Mapping[Monomial, int], known: Assumptions, kinds: Iterable[int] | None = None) -> bool:
    """Whether `p` is negative at one of the points of `known`, of these `kinds`."""
    near = _relevant_assumptions(p, known)
    for kind in kinds or (*cheapest_kinds(p, known), *OTHERS):
        x = sample_point(near, kind)
        if x is not None and x.value(p) < 0:
            return True
    return False


def cheapest_kinds(p: Mapping[Monomial, int], known: Assumptions) -> tuple[int, int]:
    """The kinds that end most proofs that fail: if `p` falls with a loop, last iterations, of tiles that stick out by a
    little or by nearly all; else first ones."""
    falls = any(c < 0 and len(m) == 1 and m[0] in known.top for m, c in p.items())
    return (1, 6) if falls else (0, 1)


def _relevant_assumptions(p: Mapping[Monomial, int], known: Assumptions) -> Assumptions:
    """`known` without the innermost loops and facts that do not speak of what `p` does, nor of what ties that.

    As no proof uses two facts, these can have no part in one; and no point has to be found where they hold.
    """
    names: set[str] = set()
    for m in p:
        for a in m:
            names |= free_vars(a)
    for v, top in known.tops:
        if v.name in names:
            for m in top:
                for a in m:
                    names |= free_vars(a)
    while (before := known.before) is not None:
        entered = len(known.tops) > len(before.tops)
        if entered and known.tops[0][0].name in names:
            break
        if known.facts is not before.facts:
            new = known.facts[len(before.facts) :]
            if any(not names.isdisjoint(free_vars(a)) for f in new for m in f for a in m):
                break
            if any(known.lows.get(n) != before.lows.get(n) for n in names):
                break
            if any(known.multiples.get(n) != before.multiples.get(n) for n in names):
                break
        known = before
    return known


def sample_point(known: Assumptions, kind: int) -> Point | None:
    """A point of `known`, worked out once it is asked for: that of the place around, moved under what is added here."""
    points = known.points
    if kind not in points:
        points[kind] = _found(known, kind)
    return points[kind]


def _found(known: Assumptions, kind: int) -> Point | None:
    before = known.before
    if before is None:
        point = Point({}, {}, *POINT_KINDS[kind], known)
        return point if _satisfies(point, known.facts) or _move_point(point, known.facts) else None
    if len(known.tops) > len(before.tops):
        return _entered(known, kind)
    old = sample_point(before, kind)
    if old is None:
        return None
    point = Point(old, old.terms, old.above, old.ends, known)
    new = known.facts[len(before.facts) :]
    return point if _sized(point) and (_satisfies(point, new) or _move_point(point, new)) else None


def _entered(inner: Assumptions, kind: int) -> Point | None:
    """A point in the innermost loop of `inner`: loops of constant lengths, right around each other, all at once."""
    if inner.run is None:
        inner.run = _run(inner)
    outer, lasts = inner.run
    old = sample_point(outer, kind)
    if old is None:
        return None
    if not lasts:
        v, top = inner.tops[0]
        lasts = {v.name: old.value(top)}
    met = not old.keys().isdisjoint(lasts)  # then it was asked for them where they are not known
    point = Point(old, {} if met else old.terms, old.above, old.ends, inner)
    if not min(lasts.values()) >= 0:
        return None
    if old.ends == 0:
        point.update(dict.fromkeys(lasts, 0))
    else:
        for n, (name, last) in enumerate(lasts.items()):
            point[name] = point.iteration(len(inner.tops) - n, int(last))
    return point


def _run(known: Assumptions) -> Run:
    """The loops of constant lengths that are right around each other, inner ones first, and what is known outside."""
    lasts: dict[str, float] = {}
    while (before := known.before) is not None and len(known.tops) > len(before.tops):
        v, top = known.tops[0]
        last = const_of(top)
        if last is None:
            return (known, lasts) if lasts else (before, lasts)
        lasts[v.name] = last
        known = before
    return known, lasts


def _sized(p: Point) -> bool:
    """Whether the sizes of `p` are as is known of them."""
    known = p.known
    return all(p[v] >= low for v, low in known.lows.items() if v in p) and not any(
        p[v] % by for v, by in known.multiples.items() if v in p
    )


def _satisfies(p: Point, facts: Iterable[Mapping[Monomial, int]]) -> bool:
    return all(p.value(f) >= 0 for f in facts)


def _iterates(p: Point) -> bool:
    """Whether every loop is at one of its iterations."""
    return all(0 <= p[v.name] <= p.value(top) for v, top in p.known.tops)


def _move_point(p: Point, new: Collection[Poly]) -> bool:
    """Whether `p` is a point again with the loops of the facts `new` at their first iteration, the fewer the better."""
    known = p.known
    used = {a for f in new for m in f for a in m}
    for v, _ in known.tops:
        if v in used and p[v.name]:
            p[v.name] = 0
            p.terms.clear()
            if _satisfies(p, new) and _iterates(p) and _satisfies(p, known.facts):
                return True
    return False
