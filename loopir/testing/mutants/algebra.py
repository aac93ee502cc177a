"""Faults in loop algebra: divisions, remainders, minima what is known of loops; in the simplifier and its proofs."""

from __future__ import annotations

from loopir.testing.generate.index_values import index_values
from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family

SIMPLIFY = steps("simplify", programs=index_values(), most=1)

ALGEBRA = family(
    "loop algebra",
    Mutant(
        "below 0 is within", "a quotient is 0 where what is divided is less than the divisor, even below 0",
        "arith.rules:within", "nonnegative(r, known) and", "", SIMPLIFY,
    ),
    Mutant(
        "rounds to zero", "a constant is divided as C divides", "arith.rules:split",
        "poly_add_to(q, constant_poly(k // c), 1)", "poly_add_to(q, constant_poly(int(k / c)), 1)", SIMPLIFY,
    ),
    Mutant(
        "divisors added", "x // d // c is x // (d + c)", "arith.rules:divide_division",
        "{(): d * c}", "{(): d + c}", SIMPLIFY,
    ),
    Mutant(
        "remainder too large", "x % (c * d) // c is x // c % (c * d)", "arith.rules:divide_remainder",
        "{(): d // c}", "{(): d}", SIMPLIFY,
    ),
    Mutant(
        "remainder dropped", "x % c % d is x % d whatever c is", "arith.rules:without_remainders",
        "k * m[0].b.value % c == 0", "True", SIMPLIFY,
    ),
    Mutant(
        "factor not put back", "(g * y) % (g * c) is y % c", "arith.rules:common_out",
        "poly_scale(modulo(big, {(): c // g}, known), g)", "modulo(big, {(): c // g}, known)", SIMPLIFY,
    ),
    Mutant(
        "the other side", "min(x, y) is x where y <= x", "arith.rules:extreme",
        "return b if smaller else a", "return a if smaller else b", SIMPLIFY,
    ),
    Mutant(
        "joins what is apart", "a quotient and a remainder are joined whatever their factors are",
        "arith.rules:rejoin", "if p.get(twin) != k:", "if twin not in p:", SIMPLIFY,
    ),
    Mutant(
        "not less is more", "where x < y does not hold, x > y is taken to", "arith.simplify:Context._facts",
        'case Not(Cmp("<", a, b)):\n            return [self._difference(a, b)]',
        'case Not(Cmp("<", a, b)):\n            return [self._difference(a, b, -1)]', SIMPLIFY,
    ),
    Mutant(
        "last iteration forgotten", "a loop is taken to end one iteration early", "arith.simplify:Context._looped",
        "top = poly_add(size, {(): -1})", "top = poly_add(size, {(): -2})", SIMPLIFY,
    ),
)  # fmt: skip
