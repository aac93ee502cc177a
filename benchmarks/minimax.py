"""The coefficients of `loopir.intrinsics.ops.expand*`: weighted minimax polynomials, by Remez's exchange.

    python benchmarks/minimax.py [name]    # coefficients, highest first, and the largest weighted error as a power of 2

Each row is a function g, the interval, the degree of its polynomial, and the weight of its error: what one unit of it
is to the function's result. Remez (1934) as in Muller, "Elementary Functions" (2016), section 3.6: solve for the
polynomial whose error has one magnitude and turns its sign at degree + 2 points, and take the extrema of its error as
the next points.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

Real = Any
Function = Callable[[Real], Real]
GRID, ROUNDS = 24, 12
"""Points of the grid for each coefficient, and exchanges at most."""


def remez(g: Function, low: Real, high: Real, degree: int, weight: Function) -> tuple[list[Real], Real]:
    """The coefficients, highest first, of the polynomial nearest to `g`, and its largest weighted error."""
    count, low = GRID * (degree + 2), low or high / 10**4  # an error at 0 has no weight
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / (count - 1)) for k in range(count)]
    values, weights = [g(x) for x in grid], [weight(x) for x in grid]
    chosen = [round(k * (count - 1) / (degree + 1)) for k in range(degree + 2)]
    coefficients, largest = list[Real](), mp.mpf(0)
    for _ in range(ROUNDS):
        rows = [[grid[n] ** k for k in range(degree + 1)] + [(-1) ** j / weights[n]] for j, n in enumerate(chosen)]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([values[n] for n in chosen]))
        coefficients = [solved[k] for k in range(degree, -1, -1)]
        errors = [(v - mp.polyval(coefficients, x)) * w for v, x, w in zip(values, grid, weights, strict=True)]
        extrema = _extrema(errors, degree + 2)
        largest = max(abs(e) for e in errors)
        if extrema is None or extrema == chosen:
            break
        chosen = extrema
    return coefficients, largest


def rounded(g: Function, low: Real, high: Real, degree: int, weight: Function, digits: int) -> tuple[list[float], Real]:
    """The same with coefficients of so many bits: the lowest is rounded, and the others are fitted to what is left."""
    if degree < 0:
        return [], mp.mpf(0)
    coefficients, error = remez(g, low, high, degree, weight)
    with mp.workprec(digits):
        last = +coefficients[-1]
    rest, other = rounded(lambda x: (g(x) - last) / x, low, high, degree - 1, lambda x: weight(x) * abs(x), digits)
    return [*rest, float(last)], max(error, other)


def _extrema(errors: list[Real], count: int) -> list[int] | None:
    """Where the errors of alternating signs are largest, `count` of them; None where there are fewer."""
    found: list[int] = []
    for n, e in enumerate(errors):
        if found and mp.sign(errors[found[-1]]) == mp.sign(e):
            found[-1] = max(found[-1], n, key=lambda k: abs(errors[k]))
        else:
            found.append(n)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found if len(found) == count else None


ROOT = mp.sqrt(2)
TABLE: dict[str, tuple[Function, Real, Real, int, Function]] = {}


def _rows() -> None:
    half_ln2, most = mp.log(2) / 2, ((ROOT - 1) / (ROOT + 1)) ** 2

    def one(x: Real) -> Real:
        return mp.mpf(1)

    def sine(z: Real) -> Real:
        return (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z

    half_turn = (mp.pi / 2) ** 2

    def across(z: Real) -> Real:
        return z * mp.sqrt(z) / mp.sin(mp.sqrt(z))

    TABLE["sin32: (sin(x)/x - 1)/x^2 in x^2"] = sine, 0, half_turn * 1.02, 4, across
    TABLE["sin64"] = sine, 0, half_turn * 1.001, 7, across

    def power(r: Real) -> Real:
        return (mp.expm1(r) - r) / r**2

    TABLE["exp64: (e^x - 1 - x)/x^2"] = power, -half_ln2 * 1.001, half_ln2 * 1.001, 9, lambda r: r**2

    def logarithm(z: Real) -> Real:
        return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z

    TABLE["log64: (2 atanh(s)/s - 2)/s^2 in s^2"] = logarithm, 0, most, 6, lambda z: z

    def tail(z: Real) -> Real:
        return (logarithm(z) - mp.mpf(2) / 3) / z

    TABLE["pow64: the next of these"] = tail, 0, most, 7, lambda z: z**2

    def ratio(z: Real) -> Real:
        return logarithm(z) / mp.log(2)

    TABLE["log_pow32: (2 atanh(s)/s - 2)/(s^2 ln 2) in s^2"] = ratio, 0, most, 3, lambda z: z
    TABLE["exp_pow32: 2^x"] = lambda r: mp.power(2, r), mp.mpf(-0.5005), mp.mpf(0.5005), 6, one

    def hyperbolic(z: Real) -> Real:
        return (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z

    TABLE["tanh64: (tanh(x)/x - 1)/x^2 in x^2"] = hyperbolic, 0, mp.mpf("0.55") ** 2, 9, lambda z: z

    def complement(x: Real) -> Real:
        return mp.log(mp.erfc(x)) / x + 1

    def share(x: Real) -> Real:
        return x * mp.erfc(x) / mp.erf(x)

    TABLE["erf32: log(1 - erf(x))/x + 1"] = complement, 0, mp.mpf("3.95"), 9, share
    TABLE["erf64"] = complement, 0, mp.mpf(6), 23, share


def main(asked: str) -> None:
    mp.mp.prec = 200
    _rows()
    for name, row in TABLE.items():
        if name.startswith(asked):
            coefficients, error = rounded(*row, digits=24) if name.startswith("sin32") else remez(*row)
            print(f"{name}: 2^{float(mp.log(error, 2)):.1f}\n    {tuple(float(c) for c in coefficients)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
