"""A few points at which everything holds that is known at a place: one where a polynomial is negative ends a proof.

Most guards of a real schedule can be decided neither way, and the search for a proof costs most where there is none.
The points of a place are those of the place around it, at both ends of one more loop, without those that break a new
guard. They only say that a proof cannot be; where there are no points, or an atom has no value, they say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

from loopir.analysis.affine import Monomial, Poly
from loopir.analysis.premises import Premises
from loopir.errors import VerifyError
from loopir.ir.grammar import Var
from loopir.ir.verify import evaluate

KINDS = ((0, 0), (0, 1), (13, 1), (13, 2), (13, 3), (1009, 0))
"""How far above its least value a size is, in multiples, and which iteration of a loop is taken: the first, the last,
these by turns, or by turns the other way round."""


class Point(dict[str, int]):
    """The value of each variable; of a size, once it is asked for."""

    __slots__ = ("above", "ends", "known")

    def __init__(self, values: Mapping[str, int], above: int, ends: int, known: Premises) -> None:
        super().__init__(values)
        self.above, self.ends, self.known = above, ends, known

    def __missing__(self, name: str) -> int:
        step = self.known.multiples.get(name, 1)
        least = -(-self.known.lows.get(name, 0) // step)
        value = self[name] = (least + self.above + (sum(map(ord, name)) % 7 if self.above else 0)) * step
        return value

    def iteration(self, depth: int, top: int) -> int:
        """The iteration to take of a loop whose last is `top`."""
        last = self.ends == 1 or (self.ends > 1 and (depth + self.ends) % 2 == 0)
        return top if last else 0


def _product(m: Monomial, point: Point) -> float:
    total: float = 1
    for a in m:
        try:
            total *= point[a.name] if isinstance(a, Var) else evaluate(a, point)
        except (ZeroDivisionError, VerifyError):
            return nan
    return total


def refuted(p: Mapping[Monomial, int], known: Premises) -> bool:
    """Whether `p` is negative at one of the points of `known`."""
    return any(t < 0 for t in values(p, known))


def values(p: Mapping[Monomial, int], known: Premises) -> list[float]:
    """What `p` is at each point of `known`; not a number where an atom has no value."""
    if known.points is None:
        _find_points(known)
    points: list[Point] = known.points or []
    totals = [0.0] * len(points)
    if points:
        for m, c in p.items():
            found = known.values.get(m)
            if found is None:
                found = known.values[m] = [_product(m, x) for x in points]
            totals = [t + c * v for t, v in zip(totals, found, strict=True)]
    return totals


def _find_points(known: Premises) -> None:
    """The points of the place around, in the loop and under the facts that `known` adds to it."""
    before = known.before
    if before is None:
        known.points = [Point({}, above, ends, known) for above, ends in KINDS]
        _keep(known, known.facts)
    elif len(known.tops) > len(before.tops):
        v, top = known.tops[0]
        last = values(top, before)
        _inherit(known, before, [n for n, x in enumerate(last) if x >= 0])
        for p, x in zip(known.points or [], (x for x in last if x >= 0), strict=True):
            p[v.name] = p.iteration(len(known.tops), int(x))
        known.values.pop((v,), None)
    else:
        values({}, before)
        _inherit(known, before, [n for n, p in enumerate(before.points or []) if _sized(p, known)])
        _keep(known, known.facts[len(before.facts) :])


def _inherit(known: Premises, before: Premises, kept: list[int]) -> None:
    """Take the points of `before` that are `kept`, with what terms are there."""
    old: list[Point] = before.points or []
    known.points = [Point(old[n], old[n].above, old[n].ends, known) for n in kept]
    same = len(kept) == len(old)
    known.values = {m: v if same else [v[n] for n in kept] for m, v in before.values.items()}


def _sized(p: Point, known: Premises) -> bool:
    """Whether the sizes of `p` are as `known` has them."""
    return all(p[v] >= low for v, low in known.lows.items() if v in p) and not any(
        p[v] % by for v, by in known.multiples.items() if v in p
    )


def _keep(known: Premises, new: tuple[Poly, ...]) -> None:
    """Leave the points under the facts `new`: moved there, if that can be."""
    good = list(zip(*([t >= 0 for t in values(f, known)] for f in new), strict=True))
    if all(map(all, good)):
        return
    points: list[Point] = known.points or []
    known.points = [p for p, oks in zip(points, good, strict=True) if all(oks) or _moved(p, new, known)]
    known.values = {}


def _moved(p: Point, new: tuple[Poly, ...], known: Premises) -> bool:
    """Whether `p` is a point again with the loops of a new guard at their first iteration, the fewer the better."""
    used = {a for f in new for m in f for a in m}
    for v, _ in known.tops:
        if v in used and p[v.name]:
            p[v.name] = 0
            inside = all(0 <= p[w.name] <= _at(p, top) for w, top in known.tops)
            if inside and all(_at(p, f) >= 0 for f in known.facts):
                return True
    return False


def _at(point: Point, p: Mapping[Monomial, int]) -> float:
    return sum(c * _product(m, point) for m, c in p.items())
