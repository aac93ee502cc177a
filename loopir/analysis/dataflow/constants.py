"""Constant propagation over value-based dataflow, to recognize padding with the identity of a fold."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from loopir.analysis.dataflow.value_flow import Expr, Flow, Site
from loopir.analysis.presburger.solver import isl
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Cast, Const, Load, Op, Select, Value

MAX_READ_DEPTH = 6
"""How many reads in a row are looked through."""
Known = tuple[Const, isl.Set]


def known_constants(flow: Flow, site: Site, value: Value, deep: int = MAX_READ_DEPTH) -> Iterator[Known]:
    """The constants that `value` is proved to equal, each with its instances of `site`."""
    match value:
        case Const():
            yield value, site.domain
        case Select(cond, a, b):
            held = flow.where(site, cond)
            yield from ((c, at.intersect(held)) for c, at in known_constants(flow, site, a, deep))
            yield from ((c, at.subtract(held)) for c, at in known_constants(flow, site, b, deep))
        case Load() if deep:
            for term, back in flow.pieces(site, value):
                if isinstance(term, Expr):
                    for c, at in known_constants(flow, term.site, term.node, deep - 1):
                        yield c, back.intersect_range(at).domain()
        case Cast(x, t):
            yield from ((_cast(c, t), at) for c, at in known_constants(flow, site, x, deep))
        case Op(f, xs) if f.lane is None:
            for found in product(*(_unique_constants(known_constants(flow, site, x, deep)) for x in xs)):
                at = found[0][1]
                for _, other in found[1:]:
                    at = at.intersect(other)
                if not at.is_empty():
                    with np.errstate(all="ignore"):
                        made = f.meaning(*(np.asarray(c.value, c.type.numpy) for c, _ in found))
                    yield Const(np.asarray(made).item(), value.dtype), at
        case _:
            pass


def _unique_constants(found: Iterator[Known]) -> list[Known]:
    """Each constant once."""
    out: dict[Const, isl.Set] = {}
    for c, at in found:
        if not at.is_empty():
            out[c] = at if c not in out else out[c].union(at)
    return list(out.items())


def _cast(c: Const, t: DType) -> Const:
    with np.errstate(all="ignore"):
        return Const(np.asarray(c.value, c.type.numpy).astype(t.numpy).item(), t)
