"""Whether a step was legal, by running both programs at every small size: what the proofs of analysis are held to.

Legal is what leaves every output as it was, over the exact ring, and keeps what the kinds of loops promise: iterations
that are to run at once touch no element that one of them writes, lanes that run together give what they gave one by
one. `tagged` makes equal mean the same in every read: each value that is stored speaks of the iteration that stores it,
so that two writes of one statement are never alike by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from loopir.errors import InterpretError, Witness
from loopir.ir.grammar import AXES, THREAD_AXES, Func, Index, Int, Loop, Of, Op, Reduce, Stmt, Store, Value, Var
from loopir.ir.interpret import holds, interpret
from loopir.ir.ops import REGISTRY
from loopir.ir.verify import evaluate
from loopir.ir.walk import loops, places, rewrite
from loopir.testing.dataflow import Flow, asks_memory, same_names, unlike
from loopir.testing.instances import Run, crossing
from loopir.testing.oracles import first_difference

Sizes = dict[str, int]
LARGEST = {0: 0, 1: 7, 2: 4, 3: 3}
"""By how many sizes there are, the largest value that each is tried at."""


def small_sizes(func: Func, witness: Witness | None = None) -> list[Sizes]:
    """Every assignment of small values to the sizes that `func` assumes nothing against, and that of a witness."""
    every = product(range(LARGEST.get(len(func.sizes), 2) + 1), repeat=len(func.sizes))
    found = [dict(zip(func.sizes, values, strict=True)) for values in every]
    if witness is not None and witness.sizes and max(witness.sizes.values()) < 16:
        found.append(dict(witness.sizes))
    return [at for at in found if all(holds(c, at) for c in func.assumes)]


def broken(before: Func, after: Func, sizes: Iterable[Sizes]) -> str | None:
    """What is no longer so in `after`, at one of `sizes`; None if all is."""
    promised = _promises(before, after)
    at_once = [x for x in promised if x.kind != "vectorize"]
    flows = not asks_memory(before) and not asks_memory(after)
    for at in sizes:
        why = (
            _outputs(before, after, at)
            or (_flow(before, after, at) if flows else None)
            or next(_races(after, at_once, at), None)
        )
        if why is not None:
            return f"{why} (at {at})"
    return None


def runs(func: Func, sizes: Iterable[Sizes]) -> bool:
    """Whether `func` reads nothing unwritten, and writes its outputs, at one of `sizes` at least."""
    return any(_over_ring(func, at) is not None for at in sizes)


def _outputs(before: Func, after: Func, at: Sizes) -> str | None:
    wanted = _over_ring(before, at)
    if wanted is None:
        return None
    try:
        found = [*interpret(after, _arrays(before, at), at, domain="ring").values()]
    except InterpretError as error:
        return str(error)
    return first_difference(after, wanted, found)


def _over_ring(func: Func, at: Sizes) -> list[Any] | None:
    try:
        return [*interpret(func, _arrays(func, at), at, domain="ring").values()]
    except InterpretError:
        return None


def _arrays(func: Func, at: Sizes) -> list[Any]:
    """Any element of the ring for floats, and small integers."""
    rng = np.random.default_rng(len(func.args))
    out: list[Any] = []
    for a in func.args:
        if a.access != "out":
            t, shape = a.buffer.dtype, [max(0, evaluate(d, at)) for d in a.buffer.shape]
            high, kind = (2**32, np.uint32) if t.is_float else (5, t.numpy)
            out.append(rng.integers(0, high, shape, np.int64).astype(kind))
    return out


# ---------------------------------------------------------------- what kinds promise


def _promises(before: Func, after: Func) -> list[Loop]:
    """The loops that have come to be run at once, or as lanes."""
    kinds = {x.var: x.kind for x in loops(before.body)}
    return [x for x in loops(after.body) if x.kind in ("parallel", "vectorize", *AXES) and kinds.get(x.var) != x.kind]


def _flow(before: Func, after: Func, at: Sizes) -> str | None:
    """A read that sees another write, where the statements are the same and run as often; lanes run together."""
    if not same_names(before, after):
        return None
    one, other = (Flow(f, dict(at)) for f in (before, after))
    if one.values.total() != other.values.total():
        return None
    if one.values != other.values:
        return "some statement reads another write than before"
    return unlike(one, other, [b.name for b in before.outputs()])


def _races(after: Func, at_once: Iterable[Loop], at: Sizes) -> Iterator[str]:
    """Two iterations that run at once and touch one element."""
    for loop in at_once:
        folds = {p.stmt.label: p.stmt for p in places(after.body) if isinstance(p.stmt, Reduce)}
        for e, f in crossing(Run(after, dict(at)).events, loop.var):
            fold = folds.get(e.label) if e.fold and f.fold and e.label == f.label and not (e.init or f.init) else None
            together = fold is not None and loop.kind in THREAD_AXES and loop.var in fold.over
            if not together and not (fold is not None and fold.atomic):
                yield f"{e.label} at {e.at()} and {f.label} at {f.at()} touch {e.home[0]}{list(e.cell)}"


# ---------------------------------------------------------------- values that tell where they were stored


def tagged(func: Func) -> Func:
    """`func` with a number added to every value that is stored or folded: another one in each instance."""
    around = {id(p.stmt): [x.var for x in p.loops] for p in places(func.body)}

    def visit(s: Stmt) -> Stmt | None:
        if isinstance(s, Store):
            return replace(s, value=_plus(s.value, around[id(s)]))
        if isinstance(s, Reduce):
            return replace(s, values=tuple(_plus(v, around[id(s)]) for v in s.values))
        return None

    return replace(func, body=rewrite(func.body, visit))


def _plus(value: Value, around: list[str]) -> Value:
    if value.dtype.kind == "bool":
        return value
    number: Index = Int(1)
    for n, v in enumerate(around):
        number = number + Var(v) * 101**n
    return Op(REGISTRY["add"], (value, Of(number, value.dtype)))
