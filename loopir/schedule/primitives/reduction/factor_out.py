"""factor_out: what all terms of a sum are multiplied by is multiplied with the sum instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopir.analysis.dataflow.definitions import Definition
from loopir.analysis.dataflow.normalization import is_normalized_power
from loopir.analysis.dataflow.reaching_writes import accesses_of, is_written_before
from loopir.analysis.dependence.access import statements_in
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Cast, Const, Func, If, Load, Loop, Op, Reduce, Stmt, Store, Value, Var
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.clone import Renaming, UsedNames, rename_symbols
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    loaded_buffers,
    loops,
    nests_touching,
    nodes,
    rewrite,
    statements,
    stored_buffers,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.legality.reductions import Fold, find_reduce, nested
from loopir.schedule.schedule import primitive

WIDE_EXPONENTS = {"float32", "bfloat16"}
"""Types with the exponents of float32: to move a factor past a cast between them changes the rounding alone."""
NARROW_EXPONENT = "float16"
WIDENED = (NARROW_EXPONENT, "float32")
"""A cast that is exact."""

Factors = list[tuple[int, Value]]
"""What a value is a product of: each to the power 1 or -1."""


@primitive
def factor_out(func: Func, stage: str) -> Func:
    """Multiply the sum `stage` by the factors that all its terms have in common, and no term any more.

    They are what its terms, or a stage that it alone reads, are multiplied or divided by, and what does not change
    along the loops that it is over. A nest after the sum, `stage_1`, multiplies it. Sums are rounded otherwise, and so
    is a stage that is rounded when it is stored, to a type of the same exponents; or to float16, where it is a power
    of at most 1 divided by the sum of such, as in a softmax: the power alone is rounded no worse.

    before:
        def f(A: "float32[3, 8]", L: "float32[3]", V: "float32[8]", S: "out float32[3]"):
            with alloc("float32[3, 8]") as P:
                for i in range(3):
                    for j in range(8):
                        P[i, j] = A[i, j] * (1.0 / L[i])
                for i_1 in range(3):
                    for k in range(8):
                        S[i_1] = sum(P[i_1, k] * V[k], over=k, init=0.0)
    call:    factor_out("S")
    after:
        def f(A: "float32[3, 8]", L: "float32[3]", V: "float32[8]", S: "out float32[3]"):
            with alloc("float32[3, 8]") as P:
                for i in range(3):
                    for j in range(8):
                        P[i, j] = A[i, j]
                for i_1 in range(3):
                    for k in range(8):
                        S[i_1] = sum(P[i_1, k] * V[k], over=k, init=0.0)
                    S[i_1] = S[i_1] * (1.0 / L[i_1])
    refuses: factor_out("P")  # stage 'P' is no reduction

    before:
        def g(n: "size", A: "float32[n + 8]", c: "float32[1]", S: "out float32[1]", T: "out float32[1]"):
            for i in range(8):
                S[0] = sum(A[i] * A[i], over=i, init=0.0)
            for j in range(n):
                T[0] = sum(A[j] * c[0], over=j, init=0.0)
    refuses: factor_out("S")  # S has no factor that is the same in all its terms
    refuses: factor_out("T")  # T may have no terms
    """
    fold = find_reduce(func, stage)
    s = fold.reduce
    _require_plain_sum(func, fold)
    common: Factors = []
    rest: Factors = []
    new: dict[str, Store] = {}
    for power, v in _factors(s.values[0]):
        if _is_fixed(v, s) and not loaded_buffers(v) & stored_buffers(_fold_loop(fold)):
            common.append((power, v))
            continue
        rest.append((power, v))
        producer = _producer(func, fold, v)
        if producer is not None:
            found, left = _split(func, fold, producer)
            if found:
                common += [(power * p, u) for p, u in found]
                value = producer.store.value
                rounded = _rounded(_multiply(left, _exact(func, producer.place, value)), value)
                new[producer.store.label] = replace(producer.store, value=rounded)
    if not common:
        raise ScheduleError(
            f"{s.label} has no factor that is the same in all its terms",
            suggestion="a sum of products of which one factor is free of the loops that it is over",
        )
    folded = replace(s, values=(_multiply(rest, s.values[0]),))
    taken = UsedNames.of(func)
    b = s.buffers[0]
    scaled = _multiply([(1, Load(b, s.at)), *common], Load(b, s.at))
    shells = [x for x in fold.loops() if x.var not in s.over]
    after = nested(shells, (Store(taken.label(s.label), b, s.at, scaled),))
    names = Renaming(loops={x.var: taken.name(x.var) for x in shells})
    after = tuple(rename_symbols(x, names) for x in after)
    start = _fold_loop(fold)

    def divided(x: Stmt) -> Stmt | None:
        return folded if x is s else new.get(x.label) if isinstance(x, Store) else None

    def visit(x: Stmt) -> Stmt | Body | None:
        return (*rewrite((x,), divided), *after) if x is start else divided(x)

    return replace(func, body=rewrite(func.body, visit))


def _require_plain_sum(func: Func, fold: Fold) -> None:
    """Refuse unless the fold is a sum from 0, has a term for each element, and is read when it is done."""
    s = fold.reduce
    if s.monoid.name != "sum" or s.init != s.monoid.identity or {*fold.over} != {*s.over}:
        raise ScheduleError(
            f"{s.label} is no sum that starts from 0 where its loops do",
            suggestion="a sum of products, before its start is decomposed",
        )
    if not s.over:
        raise ScheduleError(f"{s.label} folds over no loop", suggestion="a sum of products over a loop")
    facts = Facts.at(func, _fold_loop(fold))
    empty = [x.var for x in fold.loops() if x.var in s.over and not facts.at_least(x.extent, 1)]
    if empty or len(fold.loops()) < len(fold.shells):
        raise ScheduleError(
            f"{s.label} may have no terms, and 0 of them times a factor that is no number is none",
            suggestion="loops that run at least once, without guards; say so in an assume",
        )
    inside = [p.stmt for p in leaf_paths((_fold_loop(fold),)) if p.stmt is not s]
    early = [x.label for x in inside if (loaded_buffers(x) | stored_buffers(x)) & stored_buffers(s)]
    if early or any(Var(x.var) not in s.at for x in fold.loops() if x.var not in s.over):
        raise ScheduleError(
            f"{s.label} is multiplied after {_fold_loop(fold).var!r}, which has more to do with its elements",
            loop=_fold_loop(fold).var, suggestion="a nest of its own, whose loops are its indices or what it is over",
        )  # fmt: skip


def _fold_loop(fold: Fold) -> Loop:
    assert isinstance(fold.start, Loop)
    return fold.start


def _is_fixed(v: Value, s: Reduce) -> bool:
    """Whether `v` is the same for all terms of a fold, and worth a word."""
    return not isinstance(v, Const) and not free_vars(v) & {*s.over}


def _factors(v: Value, power: int = 1) -> Factors:
    match v:
        case Op(fn, (Const(1.0), b)) if fn.name == "div" and len(_factors(b)) == 1:
            return [(power, v)]  # a reciprocal stays one: it may be shared, where a division is one for each element
        case Op(fn, (a, b)) if fn.name in ("mul", "div") and v.dtype.is_float:
            return _factors(a, power) + _factors(b, power if fn.name == "mul" else -power)
        case _:
            return [(power, v)]


def _unrounded(v: Value) -> Value:
    """What `v` is the rounded value of, by casts that leave no value of its type out of range."""
    while isinstance(v, Cast) and (
        {v.dtype.name, v.value.dtype.name} <= WIDE_EXPONENTS or (v.value.dtype.name, v.dtype.name) == WIDENED
    ):
        v = v.value
    return v


def _exact(func: Func, place: StmtPath, v: Value) -> Value:
    """What the statement at `place` stores in `v`, before it is rounded: by casts that leave no value out of range, or
    by one that rounds a quotient less than its numerator alone would be."""
    v = _unrounded(v)
    if isinstance(v, Cast) and v.dtype.name == NARROW_EXPONENT and v.value.dtype.name == "float32":
        factors = _factors(_unrounded(v.value))
        power = next((u for p, u in factors if p > 0 and not _is_reciprocal(u)), None)
        total = next((u if p < 0 else _below(u) for p, u in factors if p < 0 or _is_reciprocal(u)), None)
        if len(factors) == 2 and power is not None and is_normalized_power(func, place, power, total):
            return _unrounded(v.value)
    return v


def _is_reciprocal(v: Value) -> bool:
    return isinstance(v, Op) and v.fn.name == "div" and v.args[0] == Const(1.0, v.dtype)


def _below(v: Value) -> Value:
    assert isinstance(v, Op)
    return v.args[1]


def _rounded(v: Value, like: Value) -> Value:
    """`v` with the casts at the top of `like`."""
    return replace(like, value=_rounded(v, like.value)) if isinstance(like, Cast) else v


def _multiply(factors: Factors, like: Value) -> Value:
    """The product of `factors`, in their order, of the dtype of `like`."""
    top = [v for power, v in factors if power > 0 and v != Const(1.0, like.dtype)]
    below = [v for power, v in factors if power < 0]
    out: Value = top[0] if top else Const(1.0, like.dtype)
    for v in top[1:]:
        out = Op(REGISTRY["mul"], (out, v))
    for v in below:
        out = Op(REGISTRY["div"], (out, v))
    return out


@dataclass(frozen=True)
class _Producer:
    """A stage that the fold alone reads, where it stands, and the load of it."""

    place: StmtPath
    store: Store
    load: Load


def _producer(func: Func, fold: Fold, v: Value) -> _Producer | None:
    """What stores the factor `v`, if it is a load of a buffer that one statement stores, and the fold alone reads."""
    v = _unrounded(v)
    if not isinstance(v, Load):
        return None
    name = v.buffer.name
    here = [*leaf_paths(func.body)]
    storing = [p for p in here if name in stored_buffers(p.stmt)]
    reading = [p.stmt for p in here if name in loaded_buffers(p.stmt)]
    tests = [x.extent if isinstance(x, Loop) else x.cond for x in statements(func.body) if isinstance(x, Loop | If)]
    once = sum(isinstance(n, Load) and n.buffer.name == name for n in nodes(fold.reduce.values[0])) == 1
    if len(storing) != 1 or reading != [fold.reduce] or not once or any(name in loaded_buffers(t) for t in tests):
        return None
    store = storing[0].stmt
    local = any(isinstance(x, Alloc) and x.buffer.name == name for x in statements(func.body))
    return _Producer(storing[0], store, v) if local and isinstance(store, Store) else None


def _split(func: Func, fold: Fold, producer: _Producer) -> tuple[Factors, Factors]:
    """The factors of what `producer` stores that are the same for all terms, as the fold sees them; and the others."""
    between = _between(func, producer.place, fold)
    if between is None:
        return [], []
    common, own = between
    written = stored_buffers(_fold_loop(fold)).union(*map(stored_buffers, common))
    found: Factors = []
    left: Factors = []
    for power, u in _factors(_exact(func, producer.place, producer.store.value)):
        seen = None if isinstance(u, Const) else Definition(replace(producer.store, value=u), own).at(producer.load.at)
        fixed = seen is not None and _is_fixed(seen, fold.reduce) and not loaded_buffers(u) & written
        if seen is None or not fixed or not _is_as_stored(func, fold, producer, u):
            left.append((power, u))
        else:
            found.append((power, seen))
    return found, left


def _is_as_stored(func: Func, fold: Fold, producer: _Producer, factor: Value) -> bool:
    """Whether all that the fold reads of the stage was stored with the value that `factor` has there: in the same
    iteration of the loops around both, or of a factor that is the same in all of them."""
    buffer, label = producer.store.buffer.name, producer.store.label
    alloc = next(x for x in producer.place.around if isinstance(x, Alloc) and x.buffer.name == buffer)
    shared = {x.var for x in producer.place.loops} & {x.var for x in fold.place.loops}
    same = free_vars(factor).isdisjoint(shared) and loaded_buffers(factor).isdisjoint(stored_buffers(alloc))
    if same or shared.isdisjoint(x.var for x in loops(alloc.body)):
        return True
    statements = statements_in(func, nests_touching(buffer))
    writes = accesses_of([s for s in statements if s.label == label], {buffer}, write=True)
    reads = accesses_of([s for s in statements if s.label == fold.reduce.label], {buffer}, write=False)
    if len(writes) != 1:  # none where nothing runs
        return False
    outer = [v for v in writes[0][0].dims if v in shared]
    return all(is_written_before(func, read, writes[0], outer) for read in reads)


def _between(func: Func, place: StmtPath, fold: Fold) -> tuple[Sequence[Stmt], frozenset[str]] | None:
    """The statements from that with the producer to that with the fold, of the list that both are in; and the loops of
    the producer that are its own. None if the producer does not stand before the fold."""
    mine, other = (*place.around, place.stmt), (*fold.place.around, fold.reduce)
    depth = next(n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a is not b)
    shared = mine[depth - 1] if depth else None
    body = func.body if shared is None else shared.body if isinstance(shared, Loop | Alloc) else None
    if body is None:
        return None
    first, last = (next((n for n, x in enumerate(body) if x is y[depth]), -1) for y in (mine, other))
    own = frozenset(x.var for x in mine[depth:] if isinstance(x, Loop))
    return (body[first : last + 1], own) if 0 <= first < last else None
