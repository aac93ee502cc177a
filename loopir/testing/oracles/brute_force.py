"""Whether a step was legal, by running both programs at every small size: what the proofs of analysis are held to.

Legal is what leaves every output as it was, over the exact ring or the exact field, and keeps what the kinds of loops
promise: iterations that are to run at once touch no element that one of them writes, lanes that run together give what
they gave one by one. `tagged` makes equal mean the same in every read: each value that is stored speaks of the
iteration that stores it, so that two writes of one statement are never alike by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np

from loopir.errors import InterpretError, Witness
from loopir.interp.interpret import cond_holds, interpret
from loopir.ir.grammar import (
    AXES,
    THREAD_AXES,
    Alloc,
    Arg,
    Body,
    Buffer,
    Cond,
    Func,
    If,
    Index,
    IndexToValue,
    Int,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.ops import MONOIDS, REGISTRY
from loopir.ir.printer import text
from loopir.ir.traverse.walk import fresh_name, leaf_paths, loops, rebuild, rewrite, taken_names
from loopir.ir.verify.verify import evaluate
from loopir.testing.oracles.access_trace import Run, crossing
from loopir.testing.oracles.last_writers import Flow, asks_memory, same_names, unlike
from loopir.testing.oracles.oracles import equal_over_field, first_difference

Sizes = dict[str, int]
LARGEST = {0: 0, 1: 7, 2: 4, 3: 3}
"""By how many sizes there are, the largest value that each is tried at."""


def small_sizes(func: Func, witness: Witness | None = None) -> list[Sizes]:
    """Every assignment of small values to the sizes that `func` assumes nothing against, and that of a witness."""
    every = product(range(LARGEST.get(len(func.sizes), 2) + 1), repeat=len(func.sizes))
    found = [dict(zip(func.sizes, values, strict=True)) for values in every]
    if witness is not None and witness.sizes and max(witness.sizes.values()) < 16:
        found.append(dict(witness.sizes))
    return [at for at in found if all(cond_holds(c, at) for c in func.assumes)]


def larger_sizes(func: Func) -> list[Sizes]:
    """A few larger assignments: each size large beside small ones, and all of them together."""
    names = func.sizes
    found = [{n: 9 if n == large else small for n in names} for large in names for small in (1, 2)] if names else []
    found += [dict.fromkeys(names, 6)] if len(names) > 1 else []
    return [at for at in found if all(cond_holds(c, at) for c in func.assumes)]


def first_violation(
    before: Func, after: Func, sizes: Iterable[Sizes], *, once: bool = False, writers: bool = False, flows: bool = True
) -> str | None:
    """What is no longer so in `after`, at one of `sizes`; None if all is.

    With `once`, statements that kept their names have to run as often as before. With `writers`, every read has to see
    the write of the statement that it saw; else that of another one will do, of a value made in the same way; unless
    `flows` is false, as for a step that makes values in another way.
    """
    at_once = [x for x in loops(after.body) if x.kind == "parallel" or x.kind in AXES]
    flows = flows and not asks_memory(before) and not asks_memory(after)
    for at in sizes:
        why = (
            _outputs(before, after, at)
            or (_flow(before, after, at, once, writers) if flows else None)
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
    different = first_difference(after, wanted, found)
    return None if different is None or equal_over_field(before, after, _arrays(before, at), at) else different


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


def _flow(before: Func, after: Func, at: Sizes, once: bool, writers: bool) -> str | None:
    """A read that sees another write, where the statements are the same and run as often; lanes run together."""
    if told := _lanes_meet(after, at):
        return told
    if not same_names(before, after):
        return None
    one, other = (Flow(f, dict(at)) for f in (before, after))
    if one.values.total() != other.values.total():
        return f"statements run {other.values.total()} times, and not {one.values.total()}" if once else None
    lost = one.filled().values - other.values  # though there are as many: one that nobody reads may be gone
    if any(v in one.used for v in lost):
        why = "some statement reads another write than before"
    else:
        why = unlike(one, other, [b.name for b in before.outputs()])
    return None if why is None or (not writers and _made_alike(before, after, at)) else why


def _made_alike(before: Func, after: Func, at: Sizes) -> bool:
    """Whether both give the same where sums stand for all that swallows one of two values, and none is so by chance."""
    arrays = [x if x.dtype == np.uint32 else _any_integers(x) for x in _arrays(before, at)]
    one, other = (interpret(_with_sums(f), arrays, at, domain="ring") for f in (before, after))
    return all(np.array_equal(one[b.name], other[b.name]) for b in before.outputs())


def _any_integers(x: Any) -> Any:
    """As many elements of the type of `x`, any that it has."""
    if x.dtype.kind not in "iu":
        return x
    ends = np.iinfo(x.dtype)
    return np.random.default_rng(x.size).integers(ends.min, ends.max, x.shape, x.dtype, endpoint=True)


def _lanes_meet(func: Func, at: Sizes) -> str | None:
    """An element that several lanes of a vector store to, or fold into, at a time."""
    if not any(x.kind == "vectorize" for x in loops(func.body)):
        return None
    stores = Counter((e.time, e.home, e.cell) for e in Run(func, dict(at)).events if e.write)
    found = next((where for where, count in stores.items() if count > 1), None)
    return None if found is None else f"several lanes write {found[1][0]}{list(found[2])} at a time"


def _races(after: Func, at_once: Iterable[Loop], at: Sizes) -> Iterator[str]:
    """Two iterations that run at once and touch one element."""
    for loop in at_once:
        folds = {p.stmt.label: p.stmt for p in leaf_paths(after.body) if isinstance(p.stmt, Reduce)}
        for e, f in crossing(Run(after, dict(at)).events, loop.var):
            folding = e.fold and f.fold and not (e.init or f.init)
            r, q = (folds.get(x.label) if folding else None for x in (e, f))
            together = r is q and r is not None and loop.kind in THREAD_AXES and loop.var in r.over
            atomic = r is not None and q is not None and r.atomic and q.atomic and r.monoid == q.monoid
            if not together and not atomic:
                yield f"{e.label} at {e.at()} and {f.label} at {f.at()} touch {e.home[0]}{list(e.cell)}"


# ---------------------------------------------------------------- programs that hide nothing


def tagged(func: Func) -> Func:
    """`func` with another number in every instance added to each value that is stored or folded.

    Maxima, differences, shifts and all else of several numbers become sums, which do not swallow one of two.
    """
    around = {p.stmt.label: [x.var for x in p.loops] for p in leaf_paths(func.body)}
    return _with_sums(func, lambda value, label: _tagged_value(value, around[label]))


def _with_sums(func: Func, made: Callable[[Value, str], Value] = lambda value, _: _summed_value(value)) -> Func:
    """`func` with sums for all of several numbers, and what `made` gives for each value of a statement."""

    def visit(s: Stmt) -> Stmt | None:
        if isinstance(s, Store):
            return replace(s, value=made(s.value, s.label))
        if isinstance(s, Reduce):
            single = len(s.values) == 1 and s.monoid.name in ("max", "min", "prod")
            monoid = MONOIDS["sum"](tuple(b.dtype for b in s.buffers)) if single else s.monoid
            return replace(s, monoid=monoid, values=tuple(made(v, s.label) for v in s.values))
        return None

    return replace(func, body=rewrite(func.body, visit))


def _summed_value(value: Value) -> Value:
    return value if value.dtype.kind == "bool" else cast(Value, _summed(value))


def _tagged_value(value: Value, around: list[str]) -> Value:
    if value.dtype.kind == "bool":
        return value
    number: Index = Int(1)
    for n, v in enumerate(around):
        number = number + Var(v) * 101**n
    return Op(REGISTRY["add"], (_summed_value(value), IndexToValue(number, value.dtype)))


def _summed(n: Node) -> Node:
    if isinstance(n, Buffer | Index | Cond):
        return n
    new = rebuild(n, _summed)
    lossy = isinstance(new, Op) and len(new.args) > 1 and all(a.dtype == new.dtype for a in new.args)
    if not isinstance(new, Op) or not lossy or new.dtype.kind == "bool":
        return new
    first, *rest = list(new.args)
    for other in rest:
        first = Op(REGISTRY["add"], (first, other))
    return first


def observed(func: Func) -> Func:
    """`func` with every intermediate of its own outside of loops copied out in the end, so that nothing is dead.

    For intermediates of which every element is written before anything else is done.
    """
    taken = taken_names(func)
    out: list[Arg] = []

    def visit(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Loop | If):
            return s
        if not isinstance(s, Alloc):
            return None
        seen = replace(s.buffer, name=fresh_name(f"{s.buffer.name}_seen", taken))
        taken.add(seen.name)
        out.append(Arg(seen, "out"))
        at: list[Index] = []
        for _ in seen.shape:
            at.append(Var(fresh_name("o", taken)))
            taken.add(text(at[-1]))
        label = fresh_name(seen.name, taken)
        copy: Body = (Store(label, seen, tuple(at), Load(s.buffer, tuple(at))),)
        for v, size in reversed(list(zip(at, seen.shape, strict=True))):
            copy = (Loop(text(v), size, "serial", copy),)
        return replace(s, body=(*rewrite(s.body, visit), *copy))

    body = rewrite(func.body, visit)
    return replace(func, params=(*func.params, *out), body=body)
