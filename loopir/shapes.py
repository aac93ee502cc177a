"""The sizes that shapes tell: each dimension of an array that was given is an equation, if it is linear in the sizes.

Plain data and integers only, so that the interpreter and the runtime, which know nothing of one another, ask the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(count * size) + constant`, no count 0; `text` is how it was written."""

    terms: Mapping[str, int]
    constant: int
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """An array of a call: its name, the dimensions that are asked of it (None: not linear), and its shape."""

    name: str
    dims: Sequence[Linear | None]
    shape: tuple[int, ...]


def sizes_of(arrays: Iterable[Given], told: Mapping[str, int]) -> dict[str, int]:
    """The sizes in `told` and those that the shapes determine; ValueError for a shape that no sizes make.

    A dimension below 0 is a dimension of 0, so that an empty one tells a size only where that can be but 0. What is
    found is not checked against every dimension: some are not linear, some were not needed.
    """
    equations = [(a, d, n) for a in arrays for d, n in zip(a.dims, a.shape, strict=True) if d is not None]
    equations.sort(key=lambda e: not _is_plain(e[1]))
    found = dict(told)
    while new := next((x for a, d, n in equations if (x := _determined_size(a, d, n, found)) is not None), None):
        found[new[0]] = new[1]
    exact = [(d, n) for _, d, n in equations if n > 0]
    return found | {k: v for k, v in _eliminated(exact, found).items() if v >= 0}


def _is_plain(d: Linear) -> bool:
    return not d.constant and [*d.terms.values()] == [1]


def _determined_size(a: Given, d: Linear, extent: int, found: Mapping[str, int]) -> tuple[str, int] | None:
    """The one size in `d` that is not found yet, if `extent` tells it."""
    unknown = [name for name in d.terms if name not in found]
    if len(unknown) != 1:
        return None
    (name,) = unknown
    count = d.terms[name]
    rest = d.constant + sum(c * found[k] for k, c in d.terms.items() if k != name)
    if extent == 0 and (count < 0 or rest < 0):
        return None
    value, left = divmod(extent - rest, count)
    if left or value < 0:
        where = [f"{k}={found[k]}" for k in d.terms if k != name]
        at = f" (at {', '.join(where)})" if where else ""
        raise ValueError(f"{a.name} has shape {a.shape}, and no {name} makes {d.text} {extent}{at}")
    return name, value


def _eliminated(equations: Iterable[tuple[Linear, int]], found: Mapping[str, int]) -> dict[str, int]:
    """The sizes that several equations determine together, as integers, by Gauss and Jordan's elimination."""
    rows: list[tuple[dict[str, Fraction], Fraction]] = []
    for d, extent in equations:
        row = {k: Fraction(c) for k, c in d.terms.items() if k not in found}
        right = Fraction(extent - d.constant - sum(c * found[k] for k, c in d.terms.items() if k in found))
        for pivot, value in rows:
            row, right = _reduced_row(row, right, pivot, value)
        if row:
            scale = next(iter(row.values()))
            row, right = {k: c / scale for k, c in row.items()}, right / scale
            rows = [_reduced_row(*other, row, right) for other in rows] + [(row, right)]
    return {next(iter(row)): int(right) for row, right in rows if len(row) == 1 and right.denominator == 1}


def _reduced_row(
    row: Mapping[str, Fraction], right: Fraction, pivot: Mapping[str, Fraction], value: Fraction
) -> tuple[dict[str, Fraction], Fraction]:
    """The row less as much of the row `pivot` as takes its first size away."""
    times = row.get(next(iter(pivot)), Fraction(0))
    out = {k: row.get(k, Fraction(0)) - times * pivot.get(k, Fraction(0)) for k in {**row, **pivot}}
    return {k: c for k, c in out.items() if c}, right - times * value
