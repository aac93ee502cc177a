"""Proofs that a polynomial is never negative, from the ends of its variables: cheap, and quiet where they fail.

`least` adds up the ends of the terms. Where that is not enough, atoms are replaced one by one by the bound that makes
the polynomial least, inner loops before outer ones, so that what depends on the same size cancels; and what is known
to be >= 0 is subtracted. Each bound that is used is one of `BOUNDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import gcd

from loopir.arith.assumptions import Assumptions, Ends
from loopir.arith.poly import (
    Monomial,
    Poly,
    coefficient,
    constant_poly,
    divide_monomial,
    expand_index,
    poly_add,
    poly_add_to,
    poly_mul,
    poly_scale,
    quotient,
)
from loopir.arith.rule_statement import RuleStatement
from loopir.arith.sample_points import refuted_by_sample
from loopir.ir.grammar import FloorDiv, Index, Int, Max, Min, Mod, Var, Xor
from loopir.ir.traverse.walk import free_vars

BOUNDS = {
    "loop-ends": RuleStatement("c * v + z >= z and z - c * v >= z - c * t", "0 <= v and v <= t", constants="c"),
    "division-low": RuleStatement("c * (x // c) >= x - (c - 1)", constants="c"),
    "division-high": RuleStatement("c * (x // c) <= x", constants="c"),
    "division-ends": RuleStatement("l // c <= x // c and x // c <= h // c", "l <= x and x <= h", constants="c"),
    "division-by-more": RuleStatement("0 <= x // c and x // c <= x", "0 <= x", constants="c"),
    "quotient-high": RuleStatement("x // c <= q", "x <= c * q + r and r < c", constants="c"),
    "quotient-negative": RuleStatement("x // c <= q - 1", "x <= c * q + r and r < 0", constants="c"),
    "remainder-ends": RuleStatement("0 <= x % c and x % c <= c - 1", constants="c"),
    "remainder-high": RuleStatement("x % c <= x", "0 <= x", constants="c"),
    "xor-ends": RuleStatement("0 <= x % 8 ^ y % 8 and x % 8 ^ y % 8 <= 7"),
    "min-ends": RuleStatement(
        "min(l, m) <= min(x, y) and min(x, y) <= min(h, i) and max(l, m) <= max(x, y) and max(x, y) <= max(h, i)",
        "l <= x and x <= h and m <= y and y <= i",
    ),
    "min-high": RuleStatement("min(x, y) <= x and min(x, y) <= y"),
    "max-low": RuleStatement("max(x, y) >= x and max(x, y) >= y"),
    "min-low": RuleStatement("c * min(x, y) + z >= 0", "c * x + z >= 0 and c * y + z >= 0", constants="c"),
    "max-high": RuleStatement("z - c * max(x, y) >= 0", "z - c * x >= 0 and z - c * y >= 0", constants="c"),
    "scaled": RuleStatement("x >= 0", "c * x + c - 1 >= 0", constants="c"),
    "fact": RuleStatement("x >= 0", "b * x - c * f >= 0 and f >= 0", constants="b c"),
}
"""The bounds, each with what it needs; the tests prove them."""

MAX_PROOF_STEPS = 12
"""How many atoms are replaced before a proof is given up."""
QUESTION = 200_000
"""Terms that a question goes through at most; after these it is not decided. Schedules take some hundreds, one of 30
splits of one loop 134,000."""


class Budget:
    """The terms that a question, with all questions it leads to, may still go through."""

    __slots__ = ("left",)

    def __init__(self, terms: int) -> None:
        self.left = terms

    def spend(self, terms: int) -> bool:
        """Take so many terms more; False where there are not as many."""
        self.left -= terms + 1
        return self.left >= 0


# ---------------------------------------------------------------- ends of terms


def interval(p: Mapping[Monomial, int], known: Assumptions) -> Ends:
    """Constant bounds of `p`: (least, greatest), None where there is none known."""
    high = least(poly_scale(p, -1), known)
    return least(p, known), None if high is None else -high


def least(p: Mapping[Monomial, int], known: Assumptions) -> int | None:
    """The sum of the least values of the terms of `p`; None if one has none that is known."""
    total = 0
    ends = known.ends
    for m, c in p.items():
        low, high = ends.get(m) or _monomial_ends(m, known)
        end = low if c > 0 else high
        if end is None:
            return None
        total += c * end
    return total


def _monomial_ends(m: Monomial, known: Assumptions) -> Ends:
    """The ends of a product, which is remembered: of one atom, or of several that are not negative."""
    low: int | None = 1
    high: int | None = 1
    for a in m:
        x, y = _atom_ends(a, known)
        if len(m) == 1:
            low, high = x, y
        elif x is None or x < 0 or low is None:
            low = high = None
        else:
            low, high = low * x, None if y is None or high is None else high * y
    known.ends[m] = low, high
    return low, high


def _atom_ends(a: Index, known: Assumptions) -> Ends:
    match a:
        case Var(name):
            top = known.top.get(a)
            return known.lows.get(name, 0), None if top is None else interval(top, known)[1]
        case FloorDiv(x, Int(c)):
            low, high = interval(expand_index(x), known)
            return None if low is None else low // c, None if high is None else high // c
        case FloorDiv(x, _):
            low, high = interval(expand_index(x), known)
            return (0, high) if low is not None and low >= 0 else (None, None)
        case Mod(x, b):
            low, high = interval(expand_index(x), known)
            high = high if low is not None and low >= 0 else None
            return 0, high if not isinstance(b, Int) else b.value - 1 if high is None else min(b.value - 1, high)
        case Xor(x, y):
            return _xor_ends(interval(expand_index(x), known), interval(expand_index(y), known))
        case Min(x, y) | Max(x, y):
            (a0, a1), (b0, b1) = interval(expand_index(x), known), interval(expand_index(y), known)
            return _min_max(a0, b0, isinstance(a, Min), low=True), _min_max(a1, b1, isinstance(a, Min), low=False)
        case _:
            return None, None


def _xor_ends(x: Ends, y: Ends) -> Ends:
    """Of numbers that are not negative, no bit of the result is above the highest one of both."""
    if x[0] is None or y[0] is None or min(x[0], y[0]) < 0:
        return None, None
    return 0, None if x[1] is None or y[1] is None else (1 << max(x[1], y[1]).bit_length()) - 1


def _min_max(a: int | None, b: int | None, smaller: bool, *, low: bool) -> int | None:
    if a is None or b is None:
        # min has an upper bound, and max a lower one, if either side has
        return (b if a is None else a) if smaller != low else None
    return min(a, b) if smaller else max(a, b)


# ---------------------------------------------------------------- proofs


def nonnegative(p: Mapping[Monomial, int], known: Assumptions) -> bool:
    """Whether `p >= 0` is proved; False means that it is not known."""
    return decide_nonnegative(p, known) is True


def decide_nonnegative(p: Mapping[Monomial, int], known: Assumptions, budget: Budget | None = None) -> bool | None:
    """Whether `p >= 0` always: True by a proof, False by a case in which it is not so; None if neither is found.

    It is not looked for beyond a budget of operations, so that no question takes long.
    """
    low = least(p, known)
    if low is not None and low >= 0:
        return True
    if (len(p) == 1 and () in p) or _unbounded(p, known) or refuted_by_sample(p, known):
        return False
    budget = budget or Budget(QUESTION)
    if _cancels(p, known, budget):
        return True
    trail: list[Mapping[Monomial, int]] = []
    if _reduced(p, known, MAX_PROOF_STEPS, trail, budget):
        return True
    if any(_reduced(rest, known, MAX_PROOF_STEPS, [], budget) for rest in _without_facts(trail, known, budget)):
        return True
    whole = _undivided(p, budget)
    return True if whole is not None and decide_nonnegative(whole, known, budget) else None


def grows_without_bound(p: Mapping[Monomial, int], known: Assumptions) -> bool:
    """Whether a size that nothing bounds from above takes `p` above every number."""
    return any(c > 0 and m and m[0] not in known.top for m, c in p.items()) and _unbounded(poly_scale(p, -1), known)


def _unbounded(p: Mapping[Monomial, int], known: Assumptions) -> bool:
    """Whether a size that nothing bounds from above takes `p` below 0: then there is no proof to be looked for."""
    for m, c in p.items():
        if c < 0 and len(m) == 1:
            for v in _growing(m[0]):
                if v not in known.top and _rises(p, -1, v) and all(_rises(f, 1, v) for f in known.facts):
                    return True
    return False


def _rises(p: Mapping[Monomial, int], sign: int, v: Var) -> bool:
    """Whether no term of `sign * p` goes down as `v` goes up: none depends on `v` but those that go up without end."""
    for m, c in p.items():
        for a in m:
            if v.name in free_vars(a) and (c * sign < 0 or len(m) > 1 or v not in _growing(a)):
                return False
    return True


def _growing(a: Index) -> Collection[Var]:
    """Variables with which `a` goes up without end: `a` itself, or those of a sum that it divides by a constant."""
    if isinstance(a, Var):
        return (a,)
    if isinstance(a, FloorDiv) and isinstance(a.b, Int):
        x = expand_index(a.a)
        if all(len(m) < 2 and (not m or isinstance(m[0], Var)) for m in x):
            return [m[0] for m, c in x.items() if c > 0 and m and isinstance(m[0], Var)]
    return ()


def _undivided(p: Mapping[Monomial, int], budget: Budget) -> Poly | None:
    """What is left to prove of `p >= 0` without its first quotient x // b by a size: b * p + b - 1 >= 0, as b > 0."""
    for m, k in p.items():
        if len(m) == 1 and isinstance(a := m[0], FloorDiv) and not isinstance(a.b, Int):
            b, x = expand_index(a.b), expand_index(a.a)  # x - b + 1 <= b * (x // b) <= x
            if not budget.spend(len(p) * len(b)):
                return None
            product = x if k < 0 else poly_add(poly_add(x, b, -1), {(): 1})
            rest = poly_mul({n: c for n, c in p.items() if n != m}, b)
            return poly_add(poly_add(rest, product, k), poly_add(b, {(): -1}))
    return None


def _cancels(p: Mapping[Monomial, int], known: Assumptions, budget: Budget) -> bool:
    """Whether the ends of loops in place of their variables show `p >= 0`: a quotient in `p` may be the end of one."""
    below = _without_loop(p, known)
    while below is not None and budget.spend(len(below)):
        low = least(below, known)
        if low is not None and low >= 0:
            return True
        below = _without_loop(below, known)
    return False


def _reduced(
    p: Mapping[Monomial, int], known: Assumptions, steps: int, trail: list[Mapping[Monomial, int]], budget: Budget
) -> bool:
    """Whether replacing atoms by bounds shows `p >= 0`. `trail` gets `p` and what is below it."""
    while budget.spend(len(p)):
        trail.append(p)
        low = least(p, known)
        if low is not None and low >= 0:
            return True
        if steps == 0:
            return False
        steps -= 1
        for m, c in p.items():
            if len(m) == 1 and not isinstance(m[0], Var):
                options = _options(m[0], c, known)
                if options:
                    break
        else:
            lower = _without_loop(p, known)
            if lower is None:
                return False
            p = lower
            continue
        lowered = [poly_add(_replaced(p, m, bound), {(): 1}, bound[1] - 1) for bound in options]
        if len(lowered) == 1:
            p = lowered[0]
        elif isinstance(m[0], Min if c > 0 else Max):
            return all(_reduced(q, known, steps // 2, [], budget) for q in lowered)
        else:
            return any(_reduced(q, known, steps // 2, trail, budget) for q in lowered)
    return False


def _replaced(p: Mapping[Monomial, int], m: Monomial, bound: tuple[Poly, int]) -> Poly:
    """`scale * p` with the term of `m`, so scaled, replaced by `by`."""
    by, scale = bound
    rest = {k: c * scale for k, c in p.items() if k != m}
    poly_add_to(rest, by, 1)
    return rest


def _options(a: Index, k: int, known: Assumptions) -> list[tuple[Poly, int]]:
    """Bounds (b, s) with b <= s * k * a, polynomials in what stands in `a`."""
    match a:
        case FloorDiv(x, Int(c)):
            if k % c and (end := _monomial_ends((a,), known)[0 if k > 0 else 1]) is not None:
                return [(constant_poly(k * end), 1)]
            scale = c // gcd(k, c)
            bound = poly_scale(expand_index(x), k * scale // c)
            return [(poly_add(bound, {(): 1}, k * scale // c * (1 - c)) if k > 0 else bound, scale)]
        case FloorDiv(x, b) if k < 0:
            return [(poly_scale(top, k), 1) for top in _highest_quotient(expand_index(x), expand_index(b), known)]
        case Mod(x, b):
            if k > 0:
                return [({}, 1)]
            below = (poly_scale(poly_add(expand_index(b), {(): -1}), k), 1)
            low = least(expand_index(x), known)
            return [below] if low is None or low < 0 else [below, (poly_scale(expand_index(x), k), 1)]
        case Min(x, y) | Max(x, y):
            return [(poly_scale(expand_index(x), k), 1), (poly_scale(expand_index(y), k), 1)]
        case _:
            return []


def _highest_quotient(x: Mapping[Monomial, int], b: Mapping[Monomial, int], known: Assumptions) -> Iterator[Poly]:
    """q >= x // b, from the greatest value of x: q where that is q * b + r with r < b, q - 1 where r < 0."""
    rest: Poly | None = poly_scale(x, -1)
    for _ in range(MAX_PROOF_STEPS):
        if rest is None:
            return
        q, r = poly_divmod(_without_exact_quotients(poly_scale(rest, -1), known), b)
        for less in (1, 0):
            room = least(poly_add(poly_add(poly_scale(b, 1 - less), r, -1), {(): -1}), known)
            if q and room is not None and room >= 0:
                yield poly_add(q, constant_poly(-less))
                return
        rest = _without_loop(rest, known)


def multiplied_out(p: Mapping[Monomial, int], m: Monomial, a: FloorDiv, known: Assumptions) -> Poly | None:
    """`p` with k * n for its term k * d * (n // d), whose monomial `m` has the atom `a`; None unless d divides n."""
    k = p[m]
    if not (isinstance(a.b, Int) and k % a.b.value == 0 and known.divides(a.b.value, a.a)):
        return None
    out = {x: c for x, c in p.items() if x != m}
    poly_add_to(out, poly_mul(expand_index(a.a), {divide_monomial(m, a): 1}), k // a.b.value)
    return out


def _without_exact_quotients(p: Mapping[Monomial, int], known: Assumptions) -> Mapping[Monomial, int]:
    """`p` with all its exact quotients multiplied out."""
    quotients = ((m, a) for m in p for a in m if isinstance(a, FloorDiv))
    out = next((x for m, a in quotients if (x := multiplied_out(p, m, a, known)) is not None), None)
    return p if out is None else _without_exact_quotients(out, known)


def poly_divmod(p: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> tuple[Poly, Poly]:
    """(q, r) with p = q * b + r, as much as can be seen in q: by the first term of `b` that is no number."""
    lead = next((m for m in b if m), ())
    c = b[lead]
    q: Poly = {}
    r = dict(p)
    for m, k in p.items():
        rest = quotient(m, lead)
        if rest is not None and k % c == 0 and r.get(m) == k:
            poly_add_to(q, {rest: k // c}, 1)
            poly_add_to(r, poly_mul(b, {rest: k // c}), -1)
    return q, r


def _without_loop(p: Mapping[Monomial, int], known: Assumptions) -> Poly | None:
    """`p` with one loop, the innermost that matters, at the end that makes `p` least."""
    products = [m for m in p if len(m) > 1]
    for v, top in known.tops:
        if any(v in m for m in products):
            split = coefficient(p, v)
            if split is None or not split[0]:
                continue
            low = least(split[0], known)
            if low is not None and low >= 0:
                return split[1]
            high = least(poly_scale(split[0], -1), known)
            if high is not None and high >= 0:
                return poly_add(split[1], poly_mul(split[0], top))
        elif (c := p.get((v,), 0)) and not known.constant_top(v):
            rest = {m: k for m, k in p.items() if m != (v,)}
            if c < 0:
                poly_add_to(rest, top, c)
            return rest
    return None


def _without_facts(trail: list[Mapping[Monomial, int]], known: Assumptions, budget: Budget) -> Iterator[Poly]:
    """What is left of a polynomial of `trail` after a multiple of a fact that has a term in common with it."""
    if known.useful_facts is None:
        known.useful_facts = _useful_facts(known)
    for f in known.useful_facts:
        tried: set[tuple[int, int, int]] = set()
        for n, p in enumerate(trail):
            if not budget.spend(len(f)):
                return
            for m, c in f.items():
                k = p.get(m, 0) if m else 0
                if k * c > 0:
                    g = gcd(k, c)
                    for scale, times_f in ((1, 1), (abs(c) // g, abs(k) // g)):
                        if (n, scale, times_f) not in tried:
                            tried.add((n, scale, times_f))
                            yield poly_add(poly_scale(p, scale), f, -times_f)


def _useful_facts(known: Assumptions) -> list[Mapping[Monomial, int]]:
    """The facts, and what is above them by the bounds of their atoms, where the ends do not say as much."""
    while (before := known.before) is not None and known.facts is before.facts and known.lows is before.lows:
        known = before  # another loop tells nothing
        if known.useful_facts is not None:
            return known.useful_facts
    found: list[Mapping[Monomial, int]] = []
    pending, budget = list(known.facts), Budget(QUESTION)
    while pending and len(found) < MAX_PROOF_STEPS:
        f = pending.pop(0)
        if not budget.spend(len(f)):
            break
        low = least(f, known)
        if low is None or low < 0:
            found.append(f)
        for m, c in f.items():
            if len(m) == 1 and not isinstance(m[0], Var) and not isinstance(m[0], Max if c > 0 else Min):
                lowered = (_replaced(poly_scale(f, -1), m, bound) for bound in _options(m[0], -c, known))
                pending += [poly_scale(p, -1) for p in lowered]
                break
    return found
