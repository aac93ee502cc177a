"""A correction of predicted times from one's own records, by least squares: what predictions here are off by.

The logarithm of measured by predicted time is fitted as a sum of two parts. What candidates of one program differ in is
fitted first, and to differences within programs alone, as what a program as a whole is off by says nothing of it: the
recipe, how far each knob is from the formula's value, that squared, and how far a prediction can be trusted beside that
of the formula's choice. Then programs: a constant, the size, and how much of the time is memory's. The fit changes the
order in which candidates are tried, and nothing else: the formula's choice is always the first.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array
from .candidates import FIRST
from .records import Record

LEAST_RECORDS = 24
"""Records from which on a correction is fitted."""
RIDGE = 1.0
"""What keeps coefficients of which little is known small."""
HELD_OUT = 4
"""One of so many programs is left out of the fit, to see what it is worth there."""
GIGA = 1e9

Knobs = Sequence[tuple[str, Any, Any]]


@dataclass(frozen=True)
class Residual:
    """Coefficients by name."""

    coefficients: dict[str, float]

    @staticmethod
    def of(records: Iterable[Record], machine: str | None = None) -> Residual | None:
        """The fit to the records of a machine that have times; None of few."""
        found = [r for r in records if _has_times(r) and machine in (None, r.subject.machine)]
        return _fitted(found) if len(found) >= LEAST_RECORDS else None

    def seconds(self, predicted: float, size: float, knobs: Knobs, name: str = FIRST, first: float = 0.0) -> float:
        """The predicted time of a candidate of recipe `name`, corrected; `first` is that of the formula's choice."""
        known = _program_features(first or predicted, size) | _features(predicted, knobs, name, first or predicted)
        return predicted * math.exp(sum(self.coefficients.get(name, 0.0) * x for name, x in known.items()))


def _has_times(r: Record) -> bool:
    return r.kind == "candidate" and r.outcome == "ok" and r.seconds > 0.0 and r.predicted > 0.0


def _program_features(first: float, size: float) -> dict[str, float]:
    """What candidates of a program have in common."""
    return {"constant": 1.0, "size": math.log10(max(first, 1e-9) * 1e6), "memory": size / GIGA / max(first, 1e-9)}


def _features(predicted: float, knobs: Knobs, name: str, first: float) -> dict[str, float]:
    """What candidates of a program differ in."""
    found = {"beside the first": math.log(max(predicted, 1e-9) / max(first, 1e-9))}
    if name != FIRST:
        found[f"recipe {name}"] = 1.0
    for key, value, formula in knobs:
        name = key.partition("(")[0]
        far = _octaves(value, formula)
        found[name] = found.get(name, 0.0) + far
        found[f"{name} squared"] = found.get(f"{name} squared", 0.0) + far * far
    return found


def _octaves(value: Any, formula: Any) -> float:
    """How far a value is from the formula's, in octaves; 1 for another that has no size."""
    sizes = [float(math.prod(x)) if isinstance(x, tuple) else x for x in (value, formula)]  # pyright: ignore[reportUnknownArgumentType]
    numbers = [float(x) for x in sizes if isinstance(x, int | float) and not isinstance(x, bool) and x > 0]
    return math.log2(numbers[0] / numbers[1]) if len(numbers) == 2 else float(value != formula)


def _fitted(records: Sequence[Record]) -> Residual:
    firsts = _first_seconds(records)
    off = np.array([math.log(r.seconds / r.predicted) for r in records])
    rows = [_features(r.predicted, r.knobs, r.name, firsts[r.subject.key]) for r in records]
    which: dict[str, list[int]] = {}
    for n, r in enumerate(records):
        which.setdefault(r.subject.key, []).append(n)
    names, a = _matrix(rows)
    inside, off_inside = a.copy(), off.copy()
    for rows_of_program in which.values():
        inside[rows_of_program] -= a[rows_of_program].mean(axis=0)
        off_inside[rows_of_program] -= off[rows_of_program].mean()
    solution = _least_squares(inside, off_inside)
    common, c = _matrix([_program_features(firsts[r.subject.key], r.bytes) for r in records])
    whole = _least_squares(c, off - a @ solution, free=1)
    return Residual(dict(zip((*names, *common), map(float, (*solution, *whole)), strict=True)))


def _first_seconds(records: Sequence[Record]) -> dict[str, float]:
    """By program, what is predicted of the formula's choice, or of another where that is not on record."""
    found = {r.subject.key: r.predicted for r in reversed(records)}
    return found | {r.subject.key: r.predicted for r in records if r.name == FIRST and not r.knobs}


def _matrix(rows: Sequence[dict[str, float]]) -> tuple[list[str], Array]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return names, np.array([[row.get(name, 0.0) for name in names] for row in rows])


def _least_squares(a: Array, b: Array, free: int = 0) -> Array:
    """The coefficients, all but the first `free` ones small."""
    ridge = np.eye(a.shape[1]) * RIDGE**0.5
    ridge[:free, :free] = 0.0
    return np.linalg.lstsq(np.vstack([a, ridge]), np.concatenate([b, np.zeros(a.shape[1])]), rcond=None)[0]


@dataclass(frozen=True)
class Report:
    """How far off predictions are, with and without the correction, on programs that had no part in it."""

    machine: str
    records: int
    programs: int
    before: float
    """The median of measured by predicted, or the other way round where that is less: 1 is right."""
    after: float
    order_before: float
    order_after: float
    """The share of pairs of candidates of one program whose order is predicted."""

    def __str__(self) -> str:
        return (
            f"{self.machine}: {self.records} records of {self.programs} programs; on held-out programs predictions are "
            f"off by {self.before:.2f} x before and {self.after:.2f} x after the correction, and "
            f"{self.order_before:.0%} of pairs are in the right order before, {self.order_after:.0%} after"
        )


def residual_report(records: Iterable[Record]) -> list[Report]:
    """By machine, what the correction is worth: each program is predicted by a fit that had no part of it."""
    found = [r for r in records if _has_times(r)]
    out: list[Report] = []
    for machine in dict.fromkeys(r.subject.machine for r in found):
        mine = [r for r in found if r.subject.machine == machine]
        keys = list(dict.fromkeys(r.subject.key for r in mine))
        if len(keys) < HELD_OUT or len(mine) < LEAST_RECORDS:
            continue
        raw: list[tuple[Record, float]] = []
        corrected: list[tuple[Record, float]] = []
        for part in range(HELD_OUT):
            left_out = set(keys[part::HELD_OUT])
            fit, firsts = _fitted([r for r in mine if r.subject.key not in left_out]), _first_seconds(mine)
            for r in mine:
                if r.subject.key in left_out:
                    raw.append((r, r.predicted))
                    first = firsts[r.subject.key]
                    corrected.append((r, fit.seconds(r.predicted, r.bytes, r.knobs, r.name, first)))
        before, after = (statistics.median(_off(r.seconds, x) for r, x in found) for found in (raw, corrected))
        out.append(
            Report(machine, len(mine), len(keys), before, after, _share_in_order(raw), _share_in_order(corrected))
        )
    return out


def _off(a: float, b: float) -> float:
    return max(a / b, b / a)


def _share_in_order(found: Sequence[tuple[Record, float]]) -> float:
    """The share of pairs of one program, 5 % apart or more, whose order is that of what is predicted."""
    right = total = 0
    by_key: dict[str, list[tuple[float, float]]] = {}
    for r, x in found:
        by_key.setdefault(r.subject.key, []).append((r.seconds, x))
    for pairs in by_key.values():
        for n, (a, x) in enumerate(pairs):
            for b, y in pairs[:n]:
                if _off(a, b) > 1.05:
                    total += 1
                    right += (a < b) == (x < y)
    return right / total if total else 1.0
