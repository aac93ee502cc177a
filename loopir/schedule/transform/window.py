"""What a loop's iteration needs of a stage and earlier iterations have not computed: the new edge of a sliding window.

A box slides if it moves along one dimension, its leading end by a constant step. Then each iteration computes that
step, and the first one all of its box: with `min(i, 1)`, which is 0 in the first iteration and 1 in all others, both
are one range. An end that is clamped to the buffer is let go beyond it, where the stage computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from loopir.analysis.regions.footprint import Footprint, poly_variables, proved, upper_sides
from loopir.arith.poly import Poly, coefficient, const_of, constant_poly, poly_add, poly_scale, to_index
from loopir.arith.simplify import EMPTY, Context, poly
from loopir.ir.grammar import TRUE, Cmp, Cond, Index, Int, Loop, Or, Var, minimum
from loopir.ir.traverse.walk import free_vars, substitute

Part = tuple[Index, Index, Cond]
"""Of one dimension: where it starts, how long it is, and a condition on the index."""


def unseen(box: Footprint, loop: Loop, at: Sequence[Index], known: Context) -> tuple[Footprint, Cond]:
    """The part of `box` that is new in each iteration of `loop`: a box, and where in it a condition holds.

    `at` is the stage's element, for the condition. A box that does not slide is new as a whole.
    """
    moving = [d for d in range(len(at)) if loop.var in free_vars(box.base[d]) | free_vars(box.extent[d])]
    if not moving:
        return box, Cmp("==", Var(loop.var), Int(0))
    if len(moving) > 1:
        return box, TRUE
    (d,) = moving
    first, last = poly(box.base[d], known), poly(box.base[d] + box.extent[d] - 1, known)
    lows = [first, *(poly_scale(p, -1) for p in upper_sides(poly_scale(first, -1)))]
    highs = [last, *upper_sides(last)]
    found = [edge for low, high in product(lows, highs) for edge in _edges(low, high, loop.var, at[d], known)]
    if not found:
        return box, TRUE
    start, length, cond = min(found, key=lambda edge: (edge[2] != TRUE, len(repr(edge))))
    return Footprint(
        _replace_dim(box.base, d, start), _replace_dim(box.extent, d, length), _replace_dim(box.size, d, length)
    ), cond


def _replace_dim(values: tuple[Index, ...], d: int, value: Index) -> tuple[Index, ...]:
    return (*values[:d], value, *values[d + 1 :])


def _edges(low: Poly, high: Poly, var: str, at: Index, known: Context) -> Iterator[Part]:
    """The new part of `low .. high`, if that slides up, or down."""
    v = Var(var)
    start = poly_add(_at(high, var, Int(0)), _at(low, var, Int(0)), -1)
    for lead, trail, sign in ((high, low, 1), (low, high, -1)):
        step = _step(lead, v)
        behind = poly_add(_at(trail, var, v + 1), trail, -1)
        if step is None or step * sign <= 0 or not proved(poly_scale(behind, sign), known):
            continue
        more = poly_add(start, constant_poly(1 - abs(step)))  # what the first iteration computes beyond a step
        extra = const_of(more)
        if extra is None:
            edge = to_index(poly_add(lead, constant_poly(step), -1))
            new = Cmp("<", edge, at) if sign > 0 else Cmp("<", at, edge)
            yield (
                to_index(low),
                to_index(poly_add(poly_add(high, low, -1), constant_poly(1))),
                Or((Cmp("<", v, Int(1)), new)),
            )
        elif extra >= 0:
            seen = minimum(v, 1) * extra
            begin = to_index(poly_add(lead, constant_poly(1 - step - extra))) + seen if sign > 0 else to_index(low)
            yield begin, Int(abs(step) + extra) - seen, TRUE


def _step(p: Poly, v: Var) -> int | None:
    """By how much `p` grows when `v` grows by one, where that is a constant."""
    split = coefficient(p, v)
    return None if split is None or v.name in poly_variables(split[1]) else const_of(split[0])


def _at(p: Poly, var: str, value: Index) -> Poly:
    return poly(substitute(to_index(p), {var: value}), EMPTY)
