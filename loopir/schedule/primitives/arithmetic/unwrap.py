"""unwrap: what is read round the end of a period is read by a comparison in place of a division."""

from __future__ import annotations

from collections.abc import Mapping

from loopir.errors import ScheduleError
from loopir.ir.grammar import Cmp, Cond, Func, Index, Int, Load, Mod, Select, Store, Value
from loopir.ir.traverse.walk import children, free_vars, nodes, replace, replace_stmt
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.legality.copied_memory import copied, copies_what_is_written
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import with_values


@primitive
def unwrap(func: Func, stage: str) -> Func:
    """Read each element of `stage` whose subscript is `e % n`, with e less than n away from the period, by a test.

    No loop in e is longer than n. That is the element at e, at e + n where e < 0, or at e - n where n <= e. Where
    loops are cut at these ends, by `partition` say, nothing is left of either inside: neighbours on a torus are read
    as others are.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[i] = A[(i + 1) % n] - A[(i - 1) % n]
    call:    unwrap("B")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[i] = select(n <= i + 1, A[i + 1 - n], A[i + 1]) - select(i - 1 < 0, A[i - 1 + n], A[i - 1])

    before:
        def g(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[i] = A[i * 3 % n]
    refuses: unwrap("B")  # no subscript of B wraps round within one period
    """
    places = find_stage(func, stage)
    found = 0
    for place in places:
        s = place.stmt
        facts = Facts.at(func, s)
        read = [x for v in children(s) for x in nodes(v) if isinstance(x, Load)]
        asked = {y for x in read for ix in x.at for y in nodes(ix) if isinstance(y, Load)}  # subscripts are no values
        extents = {x.var: x.extent for x in place.loops}
        new: dict[Value, Value] = {
            x: y
            for x in read
            if x not in asked and _once_round(x, extents, facts) and (y := _unwrapped(x, facts)) is not x
        }
        if isinstance(s, Store) and copied(s.value) in new and not copies_what_is_written(func, s):
            raise ScheduleError(
                f"{s.label} copies what need not be written, and would select it",
                suggestion="write all of it before, or leave it as it is",
            )
        found += len(new)
        func = replace_stmt(func, s, with_values(s, new)) if new else func
    if not found:
        labels = join_names(dict.fromkeys(p.stmt.label for p in places))
        raise ScheduleError(
            f"no subscript of {labels} wraps round within one period, as (i + 1) % n of a loop i over n",
            suggestion="leave it as it is",
        )
    return func


def _once_round(x: Load, extents: Mapping[str, Index], facts: Facts) -> bool:
    """Whether no loop of a subscript that wraps is longer than its period, as one over quotient and remainder is."""
    wraps = [ix for ix in x.at if isinstance(ix, Mod)]
    pairs = ((ix.b, extents[v]) for ix in wraps for v in free_vars(ix.a) if v in extents)
    return all(facts.at_least(n - extent, 0) for n, extent in pairs)


def _unwrapped(x: Load, facts: Facts) -> Value:
    """`x`, chosen by tests of the ends among what it reads inside and on either side."""
    for d, ix in enumerate(x.at):
        if not isinstance(ix, Mod) or (ends := _period_tests(ix, facts)) is None:
            continue
        e, n = ix.a, ix.b
        value = _unwrapped(_read_at(x, d, e), facts)
        below, above = ends
        if above:
            value = Select(above, _unwrapped(_read_at(x, d, e - n), facts), value)
        if below:
            value = Select(below, _unwrapped(_read_at(x, d, e + n), facts), value)
        return value
    return x


def _period_tests(ix: Mod, facts: Facts) -> tuple[Cond | None, Cond | None] | None:
    """When the subscript is below its period, and above it, if it may be; None if it may be further away."""
    e, n = ix.a, ix.b
    if not facts.at_least(e + n, 0) or not facts.at_least(n + n - e, 1):
        return None
    below = None if facts.at_least(e, 0) else Cmp("<", e, Int(0))
    above = None if facts.at_least(n - e, 1) else Cmp("<=", n, e)
    return below, above


def _read_at(x: Load, dim: int, ix: Index) -> Load:
    return replace(x, at=(*x.at[:dim], ix, *x.at[dim + 1 :]))
