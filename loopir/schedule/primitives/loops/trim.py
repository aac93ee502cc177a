"""trim: tighten the bounds of a loop to the iterations that a mask does not leave without effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from loopir.analysis.dataflow.idle_iterations import busy_statement, guarding_tests, guards_around
from loopir.analysis.dependence.access import is_affine_visible
from loopir.arith.poly import Poly, coefficient, const_of, constant_poly, poly_add, poly_scale, to_index
from loopir.arith.simplify import EMPTY, poly
from loopir.errors import ScheduleError
from loopir.ir.grammar import Body, Cmp, Func, If, Index, Int, Load, Loop, Reduce, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import bodies, free_vars, leaf_paths, nodes, replace_loop, statements
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_serial, join_names
from loopir.schedule.legality.asked_memory import outside_elements, unwritten_memory
from loopir.schedule.legality.effects import reads, require_stable_extent, writes
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import loop_part


@primitive
def trim(func: Func, loop: str) -> Func:
    """Skip the first and last iterations of `loop` in which a condition, such as that of a mask, leaves no effect.

    An iteration has no effect if each of its reductions folds in the identity, and each of its stores leaves the value
    in place; memory allocated in the iteration does not count. This is proved with the condition decided: exp(-inf) is
    0, and the maximum of a value and -inf is the value. The new bounds may depend on the loops around. Inputs are
    assumed to be finite, so that 0 times an input is 0.

    before:
        def f(A: "float32[64, 64]", B: "float32[64]", C: "out float32[64]"):
            for i in range(64):
                for k in range(64):
                    C[i] = sum(select(k <= i, A[i, k], 0.0) * B[k], over=k, init=0.0)
    call:    trim("k")
    after:
        def f(A: "float32[64, 64]", B: "float32[64]", C: "out float32[64]"):
            for i in range(64):
                for k in range(i + 1):
                    C[i] = sum(A[i, k] * B[k], over=k, init=0.0)
    refuses: trim("i")  # C is not proved to have no effect where k <= i is true

    before:
        def band(n: "size", A: "float32[n, n]", C: "out float32[n]"):
            for i in range(n):
                for ko in range((n + 15) // 16):
                    for ki in range(16):
                        if i - 4 <= ko * 16 + ki and ko * 16 + ki <= i:
                            C[i] = max(A[i, ko * 16 + ki], over=(ko, ki), init=-inf)
    call:    trim("ko")
    after:
        def band(n: "size", A: "float32[n, n]", C: "out float32[n]"):
            for i in range(n):
                for ko in range(min((n + 15) // 16, i // 16 + 1) - max(0, (i + 12) // 16 - 1)):
                    for ki in range(16):
                        if (i - 4 <= max(0, (i + 12) // 16 - 1) * 16 + ko * 16 + ki
                                and max(0, (i + 12) // 16 - 1) * 16 + ko * 16 + ki <= i):
                            C[i] = max(A[i, max(0, (i + 12) // 16 - 1) * 16 + ko * 16 + ki], over=(ko, ki), init=-inf)

    before:
        def counts(A: "float32[64, 64]", C: "out float32[64]"):
            for i in range(64):
                for k in range(64):
                    C[i] = sum(select(k <= i, A[i, k], 1.0), over=k, init=0.0)
    refuses: trim("k")  # C is not proved to have no effect where k <= i is false
    """
    target = find_serial(func, loop)
    require_outside_lanes(func, target)
    require_stable_extent(target)
    _require_starts_inside(func, target)
    facts = Facts.at(func, target)
    lows: list[Index] = []
    highs: list[Index] = []
    busy: str | None = None
    ends = list(_ends(target, facts))
    for test, held, late, end in ends:
        decided = {x: not h for x, h, way, e in ends if way == late and facts.at_least(e - end if late else end - e, 0)}
        found = busy_statement(target, decided)
        if found is not None:
            where = f"{text(test)} is {'false' if held else 'true'}"
            busy = busy or f"{found} is not proved to have no effect where {where}"
        elif end not in (bounds := lows if late else highs):
            bounds.append(end)
    if not lows and not highs:
        reason = busy or f"no condition in {target.var!r} masks its first or its last iterations"
        mask = "mask with the identity of the reduction, as by select(k <= i, x, 0.0) in a sum"
        raise ScheduleError(reason, loop=target.var, suggestion=mask)
    low = reduce(facts.greater, lows, Int(0))
    high = reduce(facts.less, highs, target.extent)
    begins = True if not lows else False if not highs else None
    _require_bounds_there(func, target, (low, high))
    part = loop_part(target, low, facts.tidy(high - low), target.var, facts.place, goes_on=False, begins=begins)
    new = replace_loop(func, target.var, lambda _: part)
    require_still_together(func, new, target)
    return new


def _require_starts_inside(func: Func, loop: Loop) -> None:
    """Refuse if a reduction in `loop` that is not over it is initialized outside: skipped iterations need the init."""
    inner = {s.var for s in statements(loop.body) if isinstance(s, Loop)}
    for s in statements(loop.body):
        if isinstance(s, Reduce) and s.init is not None and loop.var not in s.over and not {*s.over} <= inner:
            reason = f"{s.label} is initialized outside of {loop.var!r}, for iterations that would be skipped, too"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"decompose_reduction({s.label!r}) first")


def _require_bounds_there(func: Func, loop: Loop, ends: Sequence[Index]) -> None:
    """Refuse if the new bounds ask memory, for the lengths of loops inside, that the loop writes, or that nothing may
    have written, or that lies outside, where no iteration of these asked it."""
    known = {n for n in nodes(loop.extent) if isinstance(n, Load)}
    asked = [n for end in ends for n in nodes(end) if isinstance(n, Load) and n not in known]
    left = (loop, *(s for s in statements(loop.body) if isinstance(s, Loop | If)))
    first = next((p.stmt.label for p in leaf_paths((loop,))), "")
    told = reads(asked)
    if told & writes((loop,)) or unwritten_memory(func, first, asked, left) or outside_elements(func, asked, left):
        reason = f"the bounds of {loop.var!r} would be read from {join_names(sorted(told))} where it is not now"
        raise ScheduleError(reason, loop=loop.var, suggestion="inner loops whose lengths are not read from memory")


_End = tuple[Cmp, bool, bool, Index]
"""A test, how it can turn out, whether from an iteration on, and that iteration; or else the one after the last."""


def _ends(loop: Loop, facts: Facts) -> Iterator[_End]:
    """The tests that can turn out so only from an iteration on, or only before one, wherever the loops inside are."""
    seen: set[tuple[Cmp, bool]] = set()

    def visit(body: Body, inside: tuple[Loop, ...]) -> Iterator[_End]:
        for s in body:
            inner = [*bodies(s)]
            for test, held in guards_around(s) if inner else guarding_tests(s):
                if (test, held) not in seen and (end := _end(test, held, loop, inside, facts)) is not None:
                    seen.add((test, held))
                    yield test, held, *end
            for b in inner:
                yield from visit(b, (*inside, s) if isinstance(s, Loop) else inside)

    yield from visit(loop.body, ())


def _end(test: Cmp, held: bool, loop: Loop, inside: tuple[Loop, ...], facts: Facts) -> tuple[bool, Index] | None:
    """Where `test` comes to turn out so at some iteration of the loops `inside`, or no more does; None if not known."""
    if loop.var not in free_vars(test) or test.op not in ("<", "<=") or not is_affine_visible(test):
        return None
    difference = poly_add(poly(test.b - test.a, EMPTY), constant_poly(-1 if test.op == "<" else 0))
    p: Poly = difference if held else poly_add(poly_scale(difference, -1), constant_poly(-1))
    for x in reversed(inside):  # at most, over these
        found = coefficient(p, Var(x.var))
        slope = const_of(found[0]) if found is not None else None
        if found is None or slope is None:
            return None
        most = poly_add(poly(x.extent, EMPTY), constant_poly(-1)) if slope > 0 else constant_poly(0)
        p = poly_add(found[1], most, slope)
    found = coefficient(p, Var(loop.var))
    slope = const_of(found[0]) if found is not None else None
    if found is None or not slope:
        return None
    rest = to_index(found[1])
    if free_vars(rest) & {loop.var, *(x.var for x in inside)}:
        return None
    end = facts.tidy((-rest + (slope - 1)) // slope if slope > 0 else rest // -slope + 1)
    left_out = end if slope > 0 else loop.extent - end
    return None if facts.at_least(-left_out, 0) else (slope > 0, end)
