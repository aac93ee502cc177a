"""What is refuted without the solver has no solution."""

from itertools import product
from typing import Any

from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.presburger.constraints import ConstraintSystem, combine
from loopir.analysis.presburger.infeasible import Constraint, Divided, Ends, Linear, Reduced, digits, is_infeasible


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_refutation_is_right(data: st.DataObject) -> None:
    """A point between -3 and 3 solves what has solutions, of what is divided, too; what is refuted has none."""
    dims, quotient = ("x", "y", "z"), "_0"
    row = st.dictionaries(st.sampled_from((*dims, quotient, "")), st.integers(-3, 3), max_size=3)
    rows = data.draw(st.lists(st.tuples(row, st.booleans()), max_size=5))
    dividend = data.draw(st.dictionaries(st.sampled_from((*dims, "")), st.integers(-3, 3), max_size=3))
    divisor = data.draw(st.integers(1, 4))
    rest = combine(dividend, {quotient: 1}, -divisor)
    rows += [(rest, False), (combine({"": divisor - 1}, rest, -1), False)]
    order = data.draw(st.lists(st.tuples(row, st.booleans()), max_size=2))
    cases = data.draw(st.lists(st.lists(st.lists(st.tuples(row, st.booleans()), max_size=2), max_size=3), max_size=2))
    ends = [({d: sign, "": 3}, False) for d in dims for sign in (1, -1)]
    system = ConstraintSystem(constraints=[*rows, *ends], cases=cases, hidden=[quotient])
    solved = system.solvable(dims, order)
    assert not solved or not is_infeasible(Reduced([*rows, *ends], [(dividend, divisor, quotient)]), order, cases)

    def met(at: dict[str, int], case: list[Any]) -> bool:
        values = ((sum(c * at[k] for k, c in row.items()), equal) for row, equal in case)
        return all(v == 0 if equal else v >= 0 for v, equal in values)

    def solves(point: tuple[int, ...]) -> bool:
        at = dict(zip(dims, point, strict=True)) | {"": 1}
        at[quotient] = sum(c * at[k] for k, c in dividend.items()) // divisor
        return met(at, [*rows, *order]) and all(any(met(at, c) for c in choice) for choice in cases)

    assert solved == any(map(solves, product(range(-3, 4), repeat=len(dims))))


def test_a_sum_that_is_divided_leaves_its_parts_as_digits() -> None:
    """4 x + y is the same in both, so x is; that something is asked of its quotients by 14 changes nothing."""
    ends = [({v: sign, "": 3 * (sign < 0)}, False) for v in ("x", "y", "u", "v") for sign in (1, -1)]
    divided = [({"x": 4, "y": 1}, 14, "_0"), ({"u": 4, "v": 1}, 14, "_1")]
    rests = [combine(a, {q: 1}, -n) for a, n, q in divided]
    rows = [row for r in rests for row in ((r, False), (combine({"": 13}, r, -1), False))]
    same = ({"x": 4, "y": 1, "u": -4, "v": -1}, True)
    assert Reduced([*ends, *rows, same], divided).refutes([({"u": 1, "x": -1, "": -1}, False)])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_digits_are_told_apart_as_they_are(data: st.DataObject) -> None:
    """The rows that an equality falls into are met by the same points."""
    sizes = {d: data.draw(st.integers(0, 4)) for d in ("x", "y", "z")}
    row = {d: data.draw(st.sampled_from((-12, -6, -4, -3, -1, 1, 2, 3, 4, 6, 12))) for d in sizes}
    row[""] = data.draw(st.integers(-13, 13))
    ends = Ends(dict.fromkeys(sizes, 0), sizes)
    parts = list(digits(row, ends))
    for point in product(*(range(n + 1) for n in sizes.values())):
        at = dict(zip(sizes, point, strict=True)) | {"": 1}
        met = [sum(c * at[k] for k, c in r.items()) == 0 for r in (row, *parts)]
        assert met[0] == all(met[1:]), f"{row} as {parts} at {at}"


def test_bounds_alone_refute() -> None:
    assert is_infeasible(Reduced([({"x": 1}, False), ({"x": -1, "": -1}, False)]), [])
    assert not is_infeasible(Reduced([({"x": 1}, False), ({"x": -1}, False)]), [])
    assert is_infeasible(Reduced([({"x": 2, "y": 2, "": 1}, True), ({"x": 1}, False), ({"y": 1}, False)]), [])


def test_every_case_is_refuted_or_none_is() -> None:
    below, above = ({"x": -1}, False), ({"x": 1, "": -4}, False)
    base = Reduced([({"x": 1, "": -1}, False), ({"x": -1, "": 3}, False)])
    assert is_infeasible(base, [], [[[below], [above]]])
    assert not is_infeasible(base, [], [[[below], [({"x": 1, "": -3}, False)]]])


def system(names: dict[str, str], rows: list[Constraint], divided: list[Divided]) -> ConstraintSystem:
    """The constraints with their dimensions called otherwise."""
    made = ConstraintSystem()
    made.constraints += [(renamed(row, names), equality) for row, equality in rows]
    made.divided += [(renamed(row, names), by, names[q]) for row, by, q in divided]
    return made


def renamed(row: Linear, names: dict[str, str]) -> Linear:
    return {names.get(k, k): c for k, c in row.items()}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_names_of_dimensions_do_not_matter(data: st.DataObject) -> None:
    """What is refuted of a system is what is refuted of its constraints, and is worked out once for all names."""
    names = ["u", "v", "w", "x"]
    some = st.dictionaries(st.sampled_from([*names, ""]), st.integers(-4, 4), min_size=1, max_size=3)
    rows = data.draw(st.lists(st.tuples(some, st.booleans()), max_size=5))
    rows += [({name: 1}, False) for name in names] + [({name: -1, "": 7}, False) for name in names]
    order = data.draw(st.lists(st.tuples(some, st.booleans()), max_size=2))
    other = dict(zip(names, data.draw(st.permutations(["s.a", "s.b", "t.a", "t.b"])), strict=True))
    mine, theirs = system({n: n for n in names}, rows, []), system(other, rows, [])
    found = mine.refutes(order)
    assert found == is_infeasible(Reduced(rows), order)
    assert theirs.refutes([(renamed(row, other), equality) for row, equality in order]) == found
    assert mine.reduced is theirs.reduced
