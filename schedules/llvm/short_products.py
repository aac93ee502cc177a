"""Products of matrices that are smaller than a vector, of which there are many, as of 4 x 4: on a CPU.

Tiles of registers would be masked, and their panels copied for nothing: a vector takes the columns that there are.
"""

from __future__ import annotations

from math import prod

import loopir as lp

from ..common.contraction import contraction
from ..common.nest_queries import extent, if_legal
from .split_reduction import lanes_of


@lp.composite
def short_product(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """`s` with the product `stage` by vectors of all of its columns, if these, and its terms, are fewer than `lanes`,
    by default those of a vector of this machine; rows and terms are unrolled. Any other stage is left as it is.
    """
    c, lanes = contraction(s, stage), lanes or lanes_of(s, stage)
    if c is None:
        return s
    columns, terms, rows = (extent(s, x) or lanes for x in (c.column, c.reduced, c.row))
    if not (1 < columns < lanes and terms < lanes) or columns & (columns - 1):
        return s
    first = [x for x in s.loops(stage) if x not in (c.column, c.reduced)]
    t = if_legal(s, "reorder", *first, c.reduced, c.column)
    if t.loops(stage)[-1] != c.column or t.why("vectorize", c.column) is not None:
        return s
    t = if_legal(t.vectorize(c.column), "unroll", c.reduced)
    if prod((rows, terms)) <= lanes * lanes and c.row == first[-1]:
        t = if_legal(t, "unroll", c.row)
    return t if t.loop(first[0]).kind != "serial" else if_legal(t, "parallel", first[0])
