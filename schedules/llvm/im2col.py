"""Convolutions as products of matrices on a CPU, where register tiles on the window itself would be short or strided.

What a product over several loops reads of each operand is copied into a matrix once (im2col); its loops that count
rows, columns and what is folded become one each, and it is a contraction like any other.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import contraction
from ..common.nest_queries import argument_names, extent, fused, written_by
from ..common.products import Product, product, require_product

RUN = 2
"""Vectors of a row of the output from which on tiles of registers take it as it lies."""


def worth_matrices(s: lp.Schedule, stage: str, lanes: int) -> bool:
    """Whether `stage` is a product whose right operand lies along the output, with gaps, or in rows that are short."""
    p = product(s, stage)
    if p is None or any(extent(s, x) is None for x in s.loops(stage)) or len(p.free) + len(p.reduced) == 3:
        return False
    right = next(t for t in s.accesses(stage) if t.buffer == p.right.buffer)
    stride = getattr(right.strides.get(p.column), "value", None)
    if stride is None:
        return False
    short = (extent(s, p.column) or 0) < RUN * lanes
    return len(p.right.loops) > 1 and (stride != 1 or short)


@lp.composite
def im2col(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the product `stage` over matrices that are copied from its operands; ScheduleError if it is none."""
    p = require_product(s, stage)
    columns = matrix_columns(s, stage, p)
    if len(columns) > 1 and _is_given(s, stage):  # the sums are a matrix, whatever the dimensions of the result are
        s, stage = s.cache_write(stage, "global").with_stage
    batch = tuple(x for x in p.free if x not in (*p.left.loops, *columns))
    s = _copy_matrix(s, stage, p.right.buffer, batch, (p.reduced, columns))
    s = _joined_output(s, stage, columns)
    s = s.reorder(*batch, *p.left.loops, *columns, *p.reduced)
    s, _ = fused(s, columns)
    s, row = fused(s, p.left.loops)
    s, k = fused(s, p.reduced)
    left = next(t for t in s.accesses(stage) if t.buffer == p.left.buffer)
    s = s.reindex(stage, p.left.buffer, *(x for x in batch if not left.invariant(x)), row, k)
    if contraction(s, stage) is None:
        raise lp.ScheduleError(f"{stage} is no product of two matrices over its loops together")
    return s


def matrix_columns(s: lp.Schedule, stage: str, p: Product) -> tuple[str, ...]:
    """The loops of the right operand that count columns: the output goes on along them. Those before its rows, as of
    images, are around, and each has a matrix of its own."""
    out = next(t for t in s.accesses(stage) if t.write)
    at = out.subscripts
    rows = [at.index(x) for x in p.left.loops if x in at]
    return tuple(x for x in p.right.loops if not rows or x not in at or at.index(x) > min(rows)) or p.right.loops


def _copy_matrix(
    s: lp.Schedule, stage: str, buffer: str, batch: tuple[str, ...], groups: tuple[tuple[str, ...], tuple[str, ...]]
) -> lp.Schedule:
    """What `stage` makes of `buffer` as a matrix, whose rows and columns are counted by the two groups of loops."""
    touch = next(t for t in s.accesses(stage) if t.buffer == buffer)
    own = tuple(x for x in batch if not touch.invariant(x))
    s = s.reindex(stage, buffer, *own, *groups[0], *groups[1])
    (made,) = s.last.buffers
    for first, group in ((len(own) + len(groups[0]), groups[1]), (len(own), groups[0])):
        s = s.fuse_dims(made, first, len(group)) if len(group) > 1 else s
    return s


def _joined_output(s: lp.Schedule, stage: str, columns: tuple[str, ...]) -> lp.Schedule:
    """The dimensions of an intermediate result that the columns count as one."""
    out = next(t for t in s.accesses(stage) if t.write)
    at = out.subscripts
    first = at.index(columns[0]) if columns[0] in at else None
    if first is None or tuple(at[first : first + len(columns)]) != columns or len(columns) < 2:
        return s
    return s.fuse_dims(out.buffer, first, len(columns))


def _is_given(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` makes a result of the program."""
    return bool(written_by(s, stage) & argument_names(s))
