"""Powers that are divided by their sum, as in a softmax: proof that each is in [0, 1], and their sum at least 1."""

from __future__ import annotations

from loopir.ir.grammar import Func, Index, Load, Loop, Op, Reduce, Value, Var
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths_of,
    loaded_buffers,
    stored_buffers,
    substitute,
    top_level_nests,
)

POWERS = ("exp", "exp2", "exp_16", "exp2_16")


def is_normalized_power(func: Func, place: StmtPath, power: Value, total: Value | None) -> bool:
    """Whether `power`, which the statement at `place` computes for each element of a row, is exp(x - m) where m is the
    maximum of x along that row, and `total` the sum of these powers along it."""
    if not (isinstance(total, Load) and isinstance(power, Op) and power.fn.name in POWERS):
        return False
    (exponent,) = power.args
    if not (isinstance(exponent, Op) and exponent.fn.name == "sub" and isinstance(exponent.args[1], Load)):
        return False
    x, largest = exponent.args
    assert isinstance(largest, Load)
    return _is_fold_of(func, place, total, "sum", power) and _is_fold_of(func, place, largest, "max", x)


def _is_fold_of(func: Func, place: StmtPath, folded: Load, monoid: str, term: Value) -> bool:
    """Whether `folded` is the fold from the identity of `term` along one loop around `place`, over all of it."""
    writers = [p for p in leaf_paths_of(func) if folded.buffer.name in stored_buffers(p.stmt)]
    if len(writers) != 1 or not _is_final(func, writers[0], place):
        return False
    s, count = writers[0].stmt, _terms_of_plain_fold(writers[0], monoid)
    if count is None or not isinstance(s, Reduce):
        return False
    env = dict(zip((x.name for x in s.at if isinstance(x, Var)), folded.at, strict=True))
    fixed = {v for x in folded.at for v in free_vars(x)}
    along = [x.var for x in place.loops if x.var not in fixed and x.extent == count]
    return any(substitute(s.values[0], {**env, s.over[0]: Var(v)}) == term for v in along)


def _terms_of_plain_fold(p: StmtPath, monoid: str) -> Index | None:
    """How many terms a plain fold by `monoid` has: one of one value from the identity over one loop, in loops for its
    elements and that one alone; None if it is none."""
    s, around = p.stmt, p.around[p.allocs :]
    if not (isinstance(s, Reduce) and s.monoid.name == monoid and s.init == s.monoid.identity):
        return None
    own = [x.name for x in s.at if isinstance(x, Var)]
    loops = {x.var: x.extent for x in around if isinstance(x, Loop)}
    plain = len(s.values) == len(s.over) == 1 and len({*own}) == len(s.at) and len(loops) == len(around)
    return loops[s.over[0]] if plain and sorted(loops) == sorted((*own, *s.over)) else None


def _is_final(func: Func, writer: StmtPath, reader: StmtPath) -> bool:
    """Whether the nest of `writer` ends before that of `reader` begins, and all that it reads was stored before."""
    nest_of = {id(p.stmt): top.nth for top in top_level_nests(func) for p in top.places}
    end = nest_of[id(writer.stmt)]
    read = loaded_buffers(writer.stmt)
    stored = [nest_of[id(p.stmt)] for p in leaf_paths_of(func) if stored_buffers(p.stmt) & read]
    return end < nest_of[id(reader.stmt)] and all(n < end for n in stored)
