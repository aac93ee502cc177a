"""Quick proofs that linear constraints are infeasible, before the solver is asked.

Equalities are solved for variables with coefficient 1 and substituted, digits of a number are told apart, and each
constraint is then looked at alone, with the ends of its variables. What is divided is its quotient and its remainder,
which are digits of it. Most dependence questions are settled by that: same row, other column; same element, other tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, inf
from typing import TypeAlias

Linear: TypeAlias = "dict[str, int]"
"""Coefficients by dimension; the constant under ""."""
Constraint: TypeAlias = "tuple[Linear, bool]"
"""(linear, equality): linear >= 0, or == 0."""
Case: TypeAlias = "Sequence[Constraint]"
Divided: TypeAlias = "tuple[Linear, int, str]"
"""(dividend, divisor, the dimension of the quotient): 0 <= dividend - divisor * quotient < divisor."""
DISTANCE, REST = "+", "%"
"""How the dimensions start that say by how much an inequality is met, and what a division leaves."""
MAX_CHOICES = 64
"""Choices of cases that are looked at, one by one."""


class Ends:
    """The least and the greatest value of each variable, as far as constraints on it alone tell."""

    def __init__(self, low: Mapping[str, float] | None = None, high: Mapping[str, float] | None = None) -> None:
        self.low: dict[str, float] = dict(low or {})
        self.high: dict[str, float] = dict(high or {})

    def tighten(self, row: Linear) -> str:
        """Take in `row >= 0`, which speaks of one variable, and give its name."""
        if len(row) == 1:
            ((name, c),) = row.items()
            rest = 0
        else:
            (name, c), (other, rest) = row.items()
            name, c, rest = (name, c, rest) if name else (other, rest, c)
        if c > 0:
            self.low[name] = max(-(rest // c), self.low.get(name, -inf))
        else:
            self.high[name] = min(rest // -c, self.high.get(name, inf))
        return name

    def rows(self, name: str) -> list[Linear]:
        """What is known of `name`, as rows >= 0."""
        low, high = self.low.get(name, -inf), self.high.get(name, inf)
        least = [{name: 1, "": -int(low)}] if low > -inf else []
        return [*least, {name: -1, "": int(high)}] if high < inf else least

    def empty(self, name: str) -> bool:
        return self.low.get(name, -inf) > self.high.get(name, inf)

    def most(self, row: Mapping[str, int], sign: int = 1) -> float:
        """An upper end of `sign * row`."""
        total: float = 0
        for k, c in row.items():
            c *= sign
            total += c * ((self.high.get(k, inf) if c > 0 else self.low.get(k, -inf)) if k else 1)
        return total


class Reduced:
    """Constraints with their equalities solved, ready to be asked with more of them."""

    def __init__(self, constraints: Iterable[Constraint], divided: Iterable[Divided] = ()) -> None:
        self.ends = Ends()
        self.solved: dict[str, Linear] = {}
        self.equal: list[Linear] = []
        equal, at_least = self._sorted(constraints)
        rests = [self._rest(f"{REST}{n}", *d) for n, d in enumerate(divided)]
        met = all(solve(part, self.solved, self.equal) for row in rests for part in self._digits(row))
        parts = [part for row in equal for part in self._digits(row)]
        met = met and all(solve(part, self.solved, self.equal) for part in sorted(parts, key=len))
        self.equal = [_eliminate(row, self.solved) for row in self.equal]
        at_least += (row for name in self.solved for row in self.ends.rows(name))
        self.rows = [_eliminate(row, self.solved) for row in at_least]
        self.speaking: dict[str, list[int]] = {}
        for n, row in enumerate(self.rows):
            for k in row:
                self.speaking.setdefault(k, []).append(n)
        self.possible = (
            met and not any(map(self.ends.empty, self.ends.low)) and self._possible(self.ends, self.rows, ())
        )

    def _sorted(self, constraints: Iterable[Constraint]) -> tuple[list[Linear], list[Linear]]:
        """What is 0, and what of several variables is at least 0; what is so of one variable goes into the ends."""
        equal: list[Linear] = []
        at_least: list[Linear] = []
        for linear, equality in constraints:
            row = {k: c for k, c in linear.items() if c}
            if equality:
                equal.append(row)
            elif _variable_count(row) == 1:
                self.ends.tighten(row)
            else:
                at_least.append(row)
        return equal, at_least

    def _rest(self, rest: str, dividend: Linear, divisor: int, quotient: str) -> Linear:
        """dividend - divisor * quotient - rest, which is 0, and the ends of both."""
        least, most = -self.ends.most(dividend, -1), self.ends.most(dividend)
        bounds = [{rest: 1}, {rest: -1, "": divisor - 1}]
        bounds += [{quotient: 1, "": -(int(least) // divisor)}] if least > -inf else []
        bounds += [{quotient: -1, "": int(most) // divisor}] if most < inf else []
        for row in bounds:
            self.ends.tighten(row)
        row = {**dividend, quotient: -divisor}  # a variable is two digits; of a sum the rest, no part, is solved for
        whole = {**row, rest: -1} if _variable_count(dividend) == 1 else {rest: -1, **row}
        return {k: c for k, c in whole.items() if c}

    def _digits(self, row: Linear) -> Iterator[Linear]:
        return digits(_eliminate(row, self.solved), self.ends)

    def refutes(self, order: Iterable[Constraint]) -> bool:
        """Whether the constraints and `order` are seen to have no solution. False says nothing.

        An inequality of `order` is met by a distance of its own, so that what is the same in both iterations cancels.
        """
        if not self.possible:
            return True
        ends = Ends(self.ends.low, self.ends.high)
        solved: dict[str, Linear] = {}
        equal: list[Linear] = [*self.equal]
        rows: list[Linear] = []
        for n, (linear, equality) in enumerate(order):
            row = _eliminate(_eliminate({k: c for k, c in linear.items() if c}, self.solved), solved)
            if equality or _unit(row) is None:
                if not (solve(row, solved, equal) if equality else ends.most(row) >= 0):
                    return True
                rows += () if equality else (row,)
                continue
            if ends.most(row) < 0:
                return True
            ends.low[f"{DISTANCE}{n}"] = 0
            solve({**row, f"{DISTANCE}{n}": -1}, solved, equal)
        touched = sorted({n for k in solved for n in self.speaking.get(k, ())})
        rows += (self.rows[n] for n in touched)
        rows += (row for name in solved for row in self.ends.rows(name))
        return not self._possible(
            ends, [_eliminate(row, solved) for row in rows], [_eliminate(row, solved) for row in equal]
        )

    def _possible(self, ends: Ends, rows: Iterable[Linear], equal: Iterable[Linear]) -> bool:
        """Whether each row can reach 0, or be 0, between the ends of its variables, as far as can be seen."""
        wide: list[Linear] = []
        tightened: set[str] = set()
        for row in rows:
            if _variable_count(row) == 1:
                tightened.add(name := ends.tighten(row))
                if ends.empty(name):
                    return False
            else:
                wide.append(row)
        wide += (self.rows[n] for k in tightened for n in self.speaking.get(k, ()))
        if any(ends.most(row) < 0 for row in wide):
            return False
        parts = (part for row in equal for part in digits(row, ends))
        return all(ends.most(part) >= 0 and ends.most(part, -1) >= 0 and not _indivisible(part) for part in parts)


def is_infeasible(base: Reduced, order: Sequence[Constraint], cases: Sequence[Sequence[Case]] = ()) -> bool:
    """Whether `base` and `order` have no solution, whichever case of each of `cases` holds. False says nothing."""
    choices = MAX_CHOICES

    def every(taken: list[Constraint], left: int) -> bool:
        nonlocal choices
        choices -= 1
        if base.refutes(taken):
            return True
        if left == len(cases) or choices <= 0:
            return False
        return all(every([*taken, *case], left + 1) for case in cases[left])

    return every([*order], 0)


# ---------------------------------------------------------------- rows


def _variable_count(row: Linear) -> int:
    """How many variables `row` speaks of."""
    return len(row) - ("" in row)


def _unit(row: Linear) -> str | None:
    """A variable that `row` can be solved for; not a distance, which has an end of its own."""
    return next((k for k, c in row.items() if c in (1, -1) and k and k[0] != DISTANCE), None)


def _eliminate(row: Linear, solved: Mapping[str, Linear]) -> Linear:
    """`row` with the solved variables replaced; their values speak of none of them."""
    out = dict(row)
    for name in [k for k in row if k in solved]:
        times = out.pop(name)
        for k, c in solved[name].items():
            total = out.get(k, 0) + times * c
            if total:
                out[k] = total
            else:
                out.pop(k, None)
    return out


def solve(row: Linear, solved: dict[str, Linear], kept: list[Linear]) -> bool:
    """Solve `row == 0` for a variable with coefficient 1 or -1, or keep it; False if it cannot be."""
    row = _eliminate(row, solved)
    if not _variable_count(row):
        return not row.get("", 0)
    name = _unit(row)
    if name is None:
        kept.append(row)
        return not _indivisible(row)
    scale = -row[name]
    value = {name: {k: c * scale for k, c in row.items() if k != name}}
    for k, other in solved.items():
        if name in other:
            solved[k] = _eliminate(other, value)
    solved.update(value)
    return True


def _indivisible(row: Linear) -> bool:
    """Whether `row` cannot be 0 as its coefficients have a common divisor that its constant has not."""
    divisor = gcd(*(c for k, c in row.items() if k))
    return bool(row.get("", 0) % divisor if divisor else row.get("", 0))


def digits(row: Linear, ends: Ends) -> Iterator[Linear]:
    """Rows that are all 0 exactly where `row` is: g * high + low is 0, with |low| < g, only if both are.

    So the element `32 * io + ii` is another one's only if tile and place in the tile are.
    """
    sizes = sorted({abs(c) for k, c in row.items() if k}, reverse=True)
    for g in sizes if len(sizes) > 1 else ():
        low = {k: c for k, c in row.items() if k and c % g}
        if not low:
            continue
        least, most = -ends.most(low, -1), ends.most(low)
        over, rest = divmod(row.get("", 0), g)
        for high, c in ((over, rest), (over + 1, rest - g)):
            if least + c > -g and most + c < g:
                tens = {k: c // g for k, c in row.items() if k and k not in low}
                yield from digits(tens | {"": high} if high else tens, ends)
                yield from digits(low | {"": c} if c else low, ends)
                return
    yield row
