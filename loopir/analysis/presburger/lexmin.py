"""Lexicographic minimum of a system whose dimensions are bounded one after the other, without a solver.

Most counterexamples are such corners: the first iterations, one of them a step ahead. A point found so is checked, and
where none is found, nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from math import inf
from typing import TypeAlias

from loopir.analysis.presburger.infeasible import Constraint, Linear

Case: TypeAlias = "Sequence[Constraint]"


def lexmin_by_bounds(
    dims: Sequence[str],
    hidden: Set[str],
    constraints: Sequence[Constraint],
    cases: Sequence[Case],
    refuted: Callable[[Case], bool],
) -> dict[str, int] | None:
    """Each of `dims` in turn at the least value that those before it leave, in the case where these are least.

    What speaks of `hidden` dimensions is left aside at first: a least solution without it, for which there are values
    of these, is the least. `refuted` says whether there is nothing in a case.
    """
    every, open_ = _split_hidden(constraints, hidden)
    least: dict[str, int] = {}
    rows = _rows(every, least)
    starts: list[tuple[list[int], dict[str, int], list[Linear], Case]] = []
    for case in cases:
        low = dict(least)
        more = [*rows, *_rows(_split_hidden(case, hidden)[0], low)]
        for row in (*reversed(more), *reversed(more)):
            _raise(low, row)
        if not all(name in low for name in dims):
            return None
        starts.append(([low[name] for name in dims], low, more, case))
    starts.sort(key=lambda x: x[0])
    best: list[int] | None = None
    for start, low, more, case in starts:
        if best is not None and best <= start:
            break  # no solution of this case, or of a later one, is less
        point = _at_corner(dims, low, more)
        mine, own = _split_hidden(case, hidden)
        if not _met((*every, *mine), point) or not _extends((*open_, *own), hidden, point):
            if not refuted(case):
                return None
        elif best is None or [*point.values()] < best:
            best = [*point.values()]
    return None if best is None else dict(zip(dims, best, strict=True))


def _at_corner(dims: Sequence[str], least: Mapping[str, int], rows: Iterable[Linear]) -> dict[str, int]:
    below = _lower_ends({name: n for n, name in enumerate(dims)}, least, rows)
    point: dict[str, int] = {}
    for name in dims:
        end = least[name]
        for c, row in below.get(name, ()):
            end = max(end, -(_value(row, point) // c))
        point[name] = end
    return point


def _met(constraints: Iterable[Constraint], point: Mapping[str, int]) -> bool:
    for linear, equal in constraints:
        value = _value(linear, point)
        if value < 0 or (equal and value):
            return False
    return True


def _split_hidden(constraints: Iterable[Constraint], hidden: Set[str]) -> tuple[list[Constraint], list[Constraint]]:
    """The constraints without hidden dimensions, and those with."""
    if not hidden:
        return [*constraints], []
    found: tuple[list[Constraint], list[Constraint]] = ([], [])
    for row in constraints:
        found[not hidden.isdisjoint(row[0])].append(row)
    return found


def _extends(constraints: Iterable[Constraint], hidden: Set[str], point: Mapping[str, int]) -> bool:
    """Whether there are values of the hidden dimensions for `point`, if no constraint speaks of two of them."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for linear, equal in constraints:
        mine = [v for v, c in linear.items() if c and v in hidden]
        if len(mine) != 1:
            return False
        (v,) = mine
        c, rest = linear[v], _value({k: x for k, x in linear.items() if k != v}, point)
        if equal and rest % c:
            return False
        if equal or c > 0:
            low[v] = max(low.get(v, -inf), -(rest // c))
        if equal or c < 0:
            high[v] = min(high.get(v, inf), -rest // c if equal else rest // -c)
    return all(x <= high.get(v, inf) for v, x in low.items())


def _value(row: Linear, point: Mapping[str, int]) -> int:
    total = 0
    for v, c in row.items():
        if c:  # what has gone out of a row may be of no point
            total += c * point[v] if v else c
    return total


def _rows(every: Iterable[Constraint], least: dict[str, int]) -> list[Linear]:
    """The rows >= 0 that speak of several dimensions; those of one alone raise what is `least`."""
    rows: list[Linear] = []
    for linear, equal in every:
        row = {v: c for v, c in linear.items() if c}
        if len(row) - ("" in row) > 1:
            rows.append(row)
        else:
            _raise(least, row)
        if equal:
            rows.append({v: -c for v, c in row.items()})
    return rows


def _raise(least: dict[str, int], row: Linear) -> None:
    """Take in `row >= 0`, if one dimension alone counts for it."""
    name, rest = "", 0
    for v, c in row.items():
        if not v:
            rest += c
        elif c < 0:
            if v not in least:
                return
            rest += c * least[v]
        elif name:
            return
        else:
            name = v
    if name and (name not in least or -(rest // row[name]) > least[name]):
        least[name] = -(rest // row[name])


def _lower_ends(
    position: Mapping[str, int], least: Mapping[str, int], rows: Iterable[Linear]
) -> dict[str, list[tuple[int, Linear]]]:
    """By dimension d, (c, row) with c * d + row >= 0, where `row` speaks of dimensions before it alone.

    A row bounds the last of those that it speaks of, or an earlier one, where the later ones are at their least.
    """
    found: dict[str, list[tuple[int, Linear]]] = {}
    for row in rows:
        left = sorted((v for v in row if v), key=position.__getitem__)
        rest = row.get("", 0)
        while left and row[left[-1]] < 0 and left[-1] in least:
            last = left.pop()
            rest += row[last] * least[last]
        if len(left) > 1 and row[left[-1]] > 0:
            found.setdefault(left[-1], []).append((row[left[-1]], {"": rest, **{v: row[v] for v in left[:-1]}}))
    return found
