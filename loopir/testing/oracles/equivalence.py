"""`assert_equivalent`: two programs compute the same, exactly over a ring, or in floats up to what rounding can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, Literal

import numpy as np

from loopir.errors import InterpretError
from loopir.interp.interpret import cond_holds, interpret
from loopir.ir.dtypes import Array
from loopir.ir.grammar import Func
from loopir.ir.printer import text
from loopir.ir.verify.verify import evaluate
from loopir.schedule import Schedule
from loopir.testing.oracles.oracles import Case, exact_ring, first_difference
from loopir.testing.oracles.rounding import error_bounds

Sizes = Mapping[str, int]


def assert_equivalent(
    a: Func | Schedule,
    b: Func | Schedule,
    *,
    sizes: Sizes | Iterable[Sizes] | None = None,
    trials: int = 5,
    domain: Literal["ring", "real"] = "ring",
    seed: int = 0,
) -> None:
    """AssertionError unless `a` and `b` give equal outputs for equal inputs, at `sizes` and with `trials` inputs each.

    `sizes` is one assignment of the symbolic sizes, or several; without it they are drawn, small and odd ones, 0
    included. Parameters are matched by their order. First the outputs are compared over the ring of integers modulo
    2^32, exactly: `a` and `b` may differ by the order of the folds of their monoids, and by nothing else.

    With `domain="real"` they are also run in their dtypes on numbers in [-1, 1), and each element may then differ by
    the sum of what rounding may do to either: gamma_h * m, with h the roundings on the longest way to the element and m
    the sum of the absolute values of its terms (`loopir.testing.oracles.rounding`, after Higham 2002, sec. 3.1).
    NoBound where a function that they use has no rule.
    """
    one, other = (x.func if isinstance(x, Schedule) else x for x in (a, b))
    rng = np.random.default_rng(seed)
    for at in _several(one, sizes, trials, rng):
        for _ in range(trials if sizes is not None else 1):
            case = Case(one, other, at, _arrays(one, at, rng, whole=True))
            _require(exact_ring(case), case)
            if domain == "real":
                case = Case(one, other, at, _arrays(one, at, rng, whole=False))
                _require(_first_beyond_rounding(case), case)


def _require(why: str | None, case: Case) -> None:
    if why is not None:
        at = f" (at {', '.join(f'{k}={v}' for k, v in case.sizes.items())})" if case.sizes else ""
        raise AssertionError(f"{why}{at}\n\n{text(case.before)}\nis not\n\n{text(case.after)}")


def _several(func: Func, sizes: Any, trials: int, rng: np.random.Generator) -> list[dict[str, int]]:
    if isinstance(sizes, Mapping):
        return [dict(sizes)]
    if sizes is not None:
        return [dict(x) for x in sizes]
    every = [dict(zip(func.sizes, v, strict=True)) for v in product(range(8), repeat=min(len(func.sizes), 3))] or [{}]
    found = [x for x in every if all(cond_holds(c, x) for c in func.assumes)]
    return [found[int(n)] for n in rng.integers(0, len(found), trials)]


def _arrays(func: Func, at: Sizes, rng: np.random.Generator, *, whole: bool) -> dict[str, Array]:
    """Integers from -4 to 4, or floats in [-1, 1)."""
    out: dict[str, Array] = {}
    for a in func.args:
        if a.access != "out":
            t, shape = a.buffer.dtype, [max(0, evaluate(d, dict(at))) for d in a.buffer.shape]
            low = 0 if t.kind in ("uint", "bool") else -4
            drawn = rng.integers(low, 5, shape) if whole or not t.is_float else rng.uniform(-1, 1, shape)
            out[a.buffer.name] = drawn.astype(t.numpy)
    return out


def _first_beyond_rounding(case: Case) -> str | None:
    """The first element in which the two differ by more than rounding explains."""
    given = list(case.arrays.values())
    with np.errstate(all="ignore"):
        try:
            one = list(interpret(case.before, given, case.sizes).values())
        except InterpretError:
            return None
        try:
            other = list(interpret(case.after, given, case.sizes).values())
        except InterpretError as error:
            return str(error)
    bounds = [error_bounds(f, given, case.sizes) for f in (case.before, case.after)]
    for b, x, y, e, f in zip(case.before.outputs(), one, other, *bounds, strict=True):
        if not b.dtype.is_float:
            if told := first_difference(case.before, one, other):
                return told
            continue
        apart = np.abs(x.astype(np.float64) - y.astype(np.float64))
        if (wrong := ~((apart <= e + f) | (x == y))).any():
            where = tuple(int(k) for k in np.argwhere(wrong)[0])
            most = f"rounding makes at most {(e + f)[where]:.3g} of it"
            return f"{b.name}{list(where)} is {y[where]} and {x[where]}; {most}"
    return None
