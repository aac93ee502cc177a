"""A cheap proof that linear constraints have no solution, for the common case: the solver is asked only if it fails.

Equalities are solved for variables with coefficient 1 and substituted; then each constraint is looked at alone, with
the ends of its variables. Most dependence questions are settled by that: same row, other column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import TypeAlias

Linear: TypeAlias = "dict[str, int]"
"""Coefficients by dimension; the constant under ""."""
Constraint: TypeAlias = "tuple[Linear, bool]"
"""(linear, equality): linear >= 0, or == 0."""


def refuted(constraints: Iterable[Constraint], order: Iterable[Constraint]) -> bool:
    """Whether `constraints` and `order` are seen to have no solution. False says nothing.

    An inequality of `order` is met by a distance of its own, so that what is the same in both iterations cancels.
    """
    rows = [({k: c for k, c in linear.items() if c}, equality) for linear, equality in constraints]
    for n, (linear, equality) in enumerate(order):
        rows.append((linear if equality else {**linear, f"+{n}": -1}, True))
        if not equality:
            rows.append(({f"+{n}": 1}, False))
    pending = sorted((row for row, equality in rows if equality), key=len)
    others = [row for row, equality in rows if not equality]
    kept: list[Linear] = []
    while pending:
        row = pending.pop(0)
        solved = next((k for k, c in row.items() if k and c in (1, -1)), None)
        if solved is None:
            kept.append(row)
            continue
        scale = -row[solved]
        value = {k: c * scale for k, c in row.items() if k != solved}
        pending, others, kept = ([_substituted(x, solved, value) for x in xs] for xs in (pending, others, kept))
    return _impossible(others, kept)


def _substituted(row: Linear, name: str, value: Mapping[str, int]) -> Linear:
    times = row.get(name)
    if times is None:
        return row
    out = dict(row)
    del out[name]
    for k, c in value.items():
        total = out.get(k, 0) + times * c
        if total:
            out[k] = total
        else:
            out.pop(k, None)
    return out


def _impossible(at_least: Iterable[Linear], equal: Iterable[Linear]) -> bool:
    """Whether a row cannot reach 0 from below, or be 0, between the ends of its variables."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    wide: list[Linear] = []
    for row in at_least:
        if len(row) - ("" in row) == 1:
            name, c = next((k, c) for k, c in row.items() if k)
            end = -(row.get("", 0) // c) if c > 0 else row.get("", 0) // -c
            if c > 0:
                low[name] = max(low.get(name, -inf), end)
            else:
                high[name] = min(high.get(name, inf), end)
        else:
            wide.append(row)

    def most(row: Linear, sign: int) -> float:
        total: float = sign * row.get("", 0)
        for k, c in row.items():
            if k:
                total += sign * c * (high.get(k, inf) if sign * c > 0 else low.get(k, -inf))
        return total

    if any(low[k] > high.get(k, inf) for k in low):
        return True
    return any(most(row, 1) < 0 for row in wide) or any(most(row, 1) < 0 or most(row, -1) < 0 for row in equal)
