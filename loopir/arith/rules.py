"""Simplification rules for divisions, remainders, minima and sums of them, each with its statement.

A rule is a function that returns the simpler polynomial, or None where it does not apply. `divide`, `modulo`, `extreme`
and `fold` try the tables at the end of each section in order. The tests prove the statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from loopir.arith.assumptions import Assumptions
from loopir.arith.poly import (
    Monomial,
    Poly,
    atom_poly,
    const_of,
    constant_poly,
    divide_monomial,
    expand_index,
    monomial_product,
    poly_add,
    poly_add_to,
    poly_mul,
    poly_scale,
    to_index,
)
from loopir.arith.prove import grows_without_bound, interval, multiplied_out, nonnegative, poly_divmod
from loopir.arith.rule_statement import rule
from loopir.ir.grammar import Add, FloorDiv, Index, Int, Max, Min, Mod
from loopir.ir.traverse.walk import free_vars


def within(r: Mapping[Monomial, int], b: Mapping[Monomial, int], known: Assumptions) -> bool:
    """Whether 0 <= r < b."""
    return nonnegative(r, known) and nonnegative(poly_add(poly_add(b, r, -1), {(): -1}), known)


# ---------------------------------------------------------------- p // b


@rule("quotient-up", "(x + c - 1) // c == 1", "1 <= x and x <= c", constants="c")
def divide(p: Poly, b: Poly, known: Assumptions) -> Poly:
    """`p // b`."""
    q, r = split(p, b, known)
    c = const_of(b)
    bounded = c is None or not grows_without_bound(r, known)
    if not r or (bounded and within(r, b, known)):
        return fold(q, known)
    if c is not None:
        if bounded and r.get(()) == c - 1 and within(poly_add(r, {(): -c}), b, known):
            return fold(poly_add(q, {(): 1}), known)
        for simpler in DIVISIONS:
            found = simpler(r, c, known)
            if found is not None:
                return fold(poly_add(q, found), known)
    return fold(poly_add(q, atom_poly(FloorDiv(to_index(r), to_index(b)))), known)


@rule("quotient", "(c * q + r) // c == q", "0 <= r and r < c", constants="c")
@rule("quotient-out", "(c * q + r) // c == q + r // c", constants="c")
@rule("quotient-of-multiple", "(k * n + r) // (k * d) == n // d + r // (k * d)", "n % d == 0", constants="k d")
@rule("quotient-of-negative", "(r - k * n) // (k * d) == r // (k * d) - n // d", "n % d == 0", constants="k d")
@rule("quotient-of-product", "(k * x * n + r) // (k * d) == x * (n // d) + r // (k * d)", "n % d == 0", "k d x")
def split(p: Poly, b: Poly, known: Assumptions) -> tuple[Poly, Poly]:
    """(q, r) with p = q * b + r, as much as can be seen in q."""
    c = const_of(b)
    if c is None:
        return _split_by_terms(p, b, known)
    q: Poly = {}
    r: Poly = {}
    for m, k in p.items():
        if k % c == 0:
            poly_add_to(q, {m: k // c}, 1)
        elif not m:
            poly_add_to(q, constant_poly(k // c), 1)
            r[m] = k % c
        elif (n := next((a for a in m if known.divides(c // gcd(k, c), a)), None)) is not None:
            g = gcd(k, c)
            poly_add_to(q, poly_mul({divide_monomial(m, n): k // g}, atom_poly(FloorDiv(n, Int(c // g)))), 1)
        else:
            r[m] = k
    return q, r


def _split_by_terms(p: Poly, b: Poly, known: Assumptions) -> tuple[Poly, Poly]:
    """By a product, as far as it goes; by a sum, only if nothing is left to divide."""
    q, r = poly_divmod(p, b)
    if len(b) == 1:
        return q, r
    for by, rest in ((q, r), (poly_add(q, {(): -1}), poly_add(r, b))):
        if by and within(rest, b, known):
            return by, rest
    return {}, p


@rule("common-divisor", "(g * y + s) // (g * c) == y // c", "0 <= s and s < g", constants="g c")
def divide_common(r: Poly, c: int, known: Assumptions) -> Poly | None:
    for g, big, small in _common(r, c):
        if within(small, {(): g}, known):
            return divide(big, {(): c // g}, known)
    return None


def _common(r: Poly, c: int) -> Iterator[tuple[int, Poly, Poly]]:
    """(g, y, s) with r = g * y + s, for the divisors g of c that some or all of the terms have, greatest first."""
    divisors = {gcd(k, c) for m, k in r.items() if m}
    for g in sorted((divisors | {gcd(*divisors)}) - {0, 1, c}, reverse=True):
        big = {m: k // g for m, k in r.items() if k % g == 0}
        small = {m: k for m, k in r.items() if k % g}
        if small.get((), 0):
            poly_add_to(big, constant_poly(small[()] // g), 1)
            small[()] %= g
        yield g, big, small


@rule("nested-divisions", "x // d // c == x // (d * c)", constants="c d")
def divide_division(r: Poly, c: int, known: Assumptions) -> Poly | None:
    match _alone(r):
        case FloorDiv(x, Int(d)):
            return divide(dict(expand_index(x)), {(): d * c}, known)
        case FloorDiv(x, d):
            return divide(dict(expand_index(x)), poly_scale(expand_index(d), c), known)
        case _:
            return None


@rule("division-of-remainder", "x % (c * d) // c == x // c % d", constants="c d")
def divide_remainder(r: Poly, c: int, known: Assumptions) -> Poly | None:
    match _alone(r):
        case Mod(x, Int(d)) if d % c == 0:
            return modulo(divide(dict(expand_index(x)), {(): c}, known), {(): d // c}, known)
        case _:
            return None


def _alone(r: Poly) -> Index | None:
    """The atom that `r` is."""
    if len(r) == 1:
        ((m, k),) = r.items()
        if k == 1 and len(m) == 1:
            return m[0]
    return None


DIVISIONS = (divide_common, divide_division, divide_remainder)


# ---------------------------------------------------------------- p % b


def modulo(p: Poly, b: Poly, known: Assumptions) -> Poly:
    """`p % b`."""
    r = split(p, b, known)[1]
    if not r or within(r, b, known):
        return r
    c = const_of(b)
    if c is None:
        return atom_poly(Mod(to_index(r), to_index(b)))
    r = split(without_remainders(least_terms(r, c), c), b, known)[1]
    if not r or within(r, b, known):
        return r
    return common_out(r, c, known) or atom_poly(Mod(to_index(r), Int(c)))


@rule("remainder", "(c * q + r) % c == r", "0 <= r and r < c", constants="c")
@rule("remainder-of-terms", "(c * q + k * x + r) % c == (k % c * x + r) % c", constants="c k")
@rule("remainder-of-negative", "(r - k * x) % c == (-k % c * x + r) % c", constants="c k")
@rule("remainder-of-multiple", "(k * n + r) % (k * d) == r % (k * d)", "n % d == 0", constants="k d")
def least_terms(r: Poly, c: int) -> Poly:
    """`r` with coefficients from 1 to c - 1."""
    return {m: k % c for m, k in r.items() if k % c}


@rule("remainder-of-remainder", "(k * (x % (c * d)) + r) % (k * c) == (k * x + r) % (k * c)", constants="k c d")
@rule("remainder-of-scaled", "(k * d * (x % c) + r) % (k * c) == (k * d * x + r) % (k * c)", constants="k c d")
def without_remainders(r: Poly, c: int) -> Poly:
    for m, k in r.items():
        if len(m) == 1 and isinstance(m[0], Mod) and isinstance(m[0].b, Int) and k * m[0].b.value % c == 0:
            rest = {x: v for x, v in r.items() if x != m}
            poly_add_to(rest, expand_index(m[0].a), k)
            return without_remainders(least_terms(rest, c), c)
    return r


@rule("common-factor", "(g * y + s) % (g * c) == g * (y % c) + s", "0 <= s and s < g", constants="g c")
def common_out(r: Poly, c: int, known: Assumptions) -> Poly | None:
    for g, big, small in _common(r, c):
        if within(small, {(): g}, known):
            return poly_add(poly_scale(modulo(big, {(): c // g}, known), g), small)
    return None


def divisible(p: Poly, c: int, known: Assumptions) -> bool:
    """Whether `p % c` is known to be 0: as `modulo` finds it, without asking whether what is left is below `c`."""
    r = split(p, constant_poly(c), known)[1]
    return not r or not split(without_remainders(least_terms(r, c), c), constant_poly(c), known)[1]


# ---------------------------------------------------------------- min, max


@rule("min-known", "min(x, y) == x and min(y, x) == x", "x <= y")
@rule("max-known", "max(x, y) == y and max(y, x) == y", "x <= y")
def extreme(a: Poly, b: Poly, smaller: bool, known: Assumptions) -> Poly:
    """`min(a, b)` or `max(a, b)`; the one side where it is known."""
    d = poly_add(b, a, -1)
    if nonnegative(d, known):
        return a if smaller else b
    if nonnegative(poly_scale(d, -1), known):
        return b if smaller else a
    return atom_poly((Min if smaller else Max)(to_index(a), to_index(b)))


# ---------------------------------------------------------------- a ^ b


@rule("xor-of-multiple", "(8 * q + r) ^ s % 8 == 8 * q + (r ^ s % 8)")
def exclusive(a: Poly, b: Poly, known: Assumptions) -> Poly:
    """`a ^ b`. Its rule is proved for 8, and every power of two is like it: the low bits alone differ."""
    out: Poly = {}
    for _ in range(2):
        low, high = interval(b, known)
        if low is not None and low >= 0 and high is not None:
            size = 1 << high.bit_length()
            low_bits = {m: r for m, k in a.items() if (r := k if m and k % size else k % size)}
            poly_add_to(out, poly_add(a, low_bits, -1), 1)
            a = low_bits
        a, b = b, a
    x, y = to_index(a), to_index(b)
    return poly_add(out, dict(expand_index(y ^ x if isinstance(x, Int) else x ^ y)))


# ---------------------------------------------------------------- sums


def fold(p: Poly, known: Assumptions) -> Poly:
    """`p` with quotients and remainders put together again."""
    for m in p:
        for a in m:
            found = None
            if isinstance(a, FloorDiv):
                found = next((x for simpler in SUMS if (x := simpler(p, m, a, known)) is not None), None)
            elif isinstance(a, Mod) and isinstance(a.a, FloorDiv | Add):
                found = rejoin_remainders(p, m, a, known)
            if found is not None:
                return fold(found, known)
    return p


@rule(
    "rejoin-remainders",
    "k * c * (y // c % d) + k * (z % c) == k * (y % (c * d))",
    "(y - z) % c == 0",
    constants="c d k",
)
def rejoin_remainders(p: Poly, m: Monomial, a: Mod, known: Assumptions) -> Poly | None:
    high = _shifted_quotient(a.a)
    if high is None or not isinstance(a.b, Int):
        return None
    (y, c), rest = high, divide_monomial(m, a)
    if a.b.value <= 0 or p[m] % c != 0:
        return None
    k = p[m] // c
    for twin, times in p.items():
        low = next((x for x in twin if isinstance(x, Mod) and x.b == Int(c)), None)
        if low is None or times != k or divide_monomial(twin, low) != rest:
            continue
        apart = poly_add(y, dict(expand_index(low.a)), -1)
        if all(v % c == 0 for v in apart.values()):
            out = {n: v for n, v in p.items() if n not in (m, twin)}
            poly_add_to(out, poly_mul(modulo(y, {(): c * a.b.value}, known), {rest: 1}), k)
            return out
    return None


@rule("rejoin", "k * c * (y // c) + k * (y % c) == k * y", constants="c k")
@rule("rejoin-negative", "-k * c * (y // c) - k * (y % c) == -k * y", constants="c k")
def rejoin(p: Poly, m: Monomial, a: FloorDiv, known: Assumptions) -> Poly | None:
    if len(p) - (() in p) < 2:  # there is no remainder beside it
        return None
    b = expand_index(a.b)
    by, left = poly_divmod({divide_monomial(m, a): p[m]}, b) if len(b) == 1 else ({}, b)
    if left:
        return None
    ((rest, k),) = by.items()
    twin = monomial_product((Mod(a.a, a.b),), rest)
    if p.get(twin) != k:
        asked = free_vars(a.a)  # of which the remainder speaks, too
        others = (v for x, c in p.items() if c == k and x != m for v in x)
        if asked and all(asked.isdisjoint(free_vars(v)) for v in others):
            return None
        least = modulo(
            dict(expand_index(a.a)), dict(b), known
        )  # the remainder as it is simplified, its terms less than c
        ((atoms, one),) = least.items() if len(least) == 1 else (((), 0),)
        twin = monomial_product(atoms, rest)
        if one != 1 or not atoms or p.get(twin) != k:
            return None
    out = {x: c for x, c in p.items() if x not in (m, twin)}
    poly_add_to(out, poly_mul(expand_index(a.a), {rest: 1}), k)
    return out


@rule("shifted-quotient", "y // c + z == (y + z * c) // c", constants="c")
def _shifted_quotient(x: Index) -> tuple[Poly, int] | None:
    """`x` as one quotient, if it is one with something added: what is divided, and by what number."""
    p = dict(expand_index(x))
    quotients = [(m, v) for m, k in p.items() if k == 1 and len(m) == 1 and isinstance(v := m[0], FloorDiv)]
    if len(quotients) != 1:
        return None
    ((m, quotient),) = quotients
    if not isinstance(quotient.b, Int) or quotient.b.value <= 0:
        return None
    del p[m]
    return poly_add(dict(expand_index(quotient.a)), p, quotient.b.value), quotient.b.value


@rule(
    "rejoin-digit",
    "k * d * (x // (c * d)) + k * (y // c % d) == k * (x // c)",
    "(x - y) % (c * d) == 0",
    constants="c d k",
)
def rejoin_digit(p: Poly, m: Monomial, a: FloorDiv, known: Assumptions) -> Poly | None:
    if len(p) - (() in p) < 2 or not isinstance(a.b, Int) or a.b.value <= 0:
        return None
    rest = divide_monomial(m, a)
    for twin, k in p.items():
        digit = next((v for v in twin if isinstance(v, Mod) and isinstance(v.a, FloorDiv | Add)), None)
        if digit is None or divide_monomial(twin, digit) != rest or p[m] != k * (const_of(expand_index(digit.b)) or 0):
            continue
        if (both := _digit_below(a, a.b.value, digit, known)) is not None:
            out = {n: v for n, v in p.items() if n not in (m, twin)}
            poly_add_to(out, poly_mul(both, {rest: 1}), k)
            return out
    return None


@rule("scaled-quotient", "x // n == (r * x + e) // (r * n)", "0 <= e and e < r", constants="n r")
def _digit_below(a: FloorDiv, n: int, digit: Mod, known: Assumptions) -> Poly | None:
    """The quotient of which `a`, a quotient by `n`, has the upper digits, and `digit` the one below; None if there is
    none."""
    high, d = _shifted_quotient(digit.a), digit.b.value if isinstance(digit.b, Int) else 0
    if high is None or d <= 0 or high[1] * d % n:
        return None
    (y, c), x = high, poly_scale(expand_index(a.a), high[1] * d // n)
    more = poly_add(y, x, -1)
    left = more.get((), 0) % (c * d)
    if left >= c * d // n or any(v % (c * d) for m, v in more.items() if m):
        return None
    return divide(poly_add(x, {(): left} if left else {}), {(): c}, known)


@rule("multiple-of-quotient", "k * d * (n // d) == k * n", "n % d == 0", constants="k d")
def exact_quotient(p: Poly, m: Monomial, a: FloorDiv, known: Assumptions) -> Poly | None:
    return multiplied_out(p, m, a, known)


SUMS = (rejoin, rejoin_digit, exact_quotient)
