"""Footprints: the box of a buffer that a subtree touches in one iteration of the loops around it.

The ends of each index are computed on its affine form, inner loops first, each at its first or last iteration;
divisions, remainders and minima by their monotonicity. Ends that the forms cannot compare are compared by the solver.
The box contains every element touched, and for affine indices its ends are touched. Guards are not used, so the box may
exceed the buffer where a guard keeps the accesses inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from loopir.analysis.dependence.access import guarded_loads, is_affine_visible
from loopir.analysis.presburger.constraints import ConstraintSystem, combine
from loopir.arith.poly import (
    Poly,
    coefficient,
    const_of,
    constant_part,
    constant_poly,
    poly_add,
    poly_add_to,
    poly_mul,
    poly_scale,
    to_index,
)
from loopir.arith.prove import decide_nonnegative
from loopir.arith.sample_points import refuted_by_sample
from loopir.arith.simplify import EMPTY, Context, divide, extreme, interval, modulo, nonnegative, poly
from loopir.arith.simplify_func import Known, statements_known
from loopir.errors import VerifyError
from loopir.ir.grammar import (
    Add,
    Body,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    If,
    Index,
    Int,
    Load,
    Loop,
    Max,
    Min,
    Mod,
    Node,
    Reduce,
    Stmt,
    Store,
    Var,
    record,
)
from loopir.ir.layout.layouts import evaluate, reads_only
from loopir.ir.traverse.walk import free_vars, loops, nodes

EXAMPLES = (1, 6, 64)
"""Sizes at which a claim is tried before the solver is asked to prove it."""
Tops = Sequence[tuple[Var, Poly]]
"""Loops, inner ones first, with the greatest value of each."""
Dim = tuple[Index, Index, Index]
"""Of one dimension of a box: its base, extent and size."""
GuardFacts = Mapping[Context, Sequence[Poly]]
"""What guards say where something is touched."""
Ends = Callable[[Index, Context, Context], "tuple[Poly, Poly] | None"]


@record
class Footprint:
    """Elements `base <= at < base + extent` in each dimension; `size` bounds `extent` and speaks of sizes only."""

    base: tuple[Index, ...]
    extent: tuple[Index, ...]
    size: tuple[Index, ...]


@record
class RegionAccess:
    """An access to an element of a buffer, with what is known where it stands."""

    buffer: Buffer
    at: tuple[Index, ...]
    write: bool
    known: Context
    inner: frozenset[str] = frozenset()
    """Loops that the region is to be free of, also where `known` does not know how often they run."""


def accesses_in(body: Body, known: Known, names: Iterable[str]) -> Iterator[RegionAccess]:
    """Every access in `body`, which stands where `known` holds, to the buffers called `names`; folds are writes."""
    wanted, inner = set(names), frozenset(x.var for x in loops(body))
    for s, here in statements_known(body, known):
        for b in written_by(s):
            if b.name in wanted and isinstance(s, Store | Reduce):
                starts = isinstance(s, Reduce) and s.init is not None
                yield RegionAccess(b, s.at, True, here.start if starts else here.here, inner)
        for part, ctx in evaluated_parts(s, here):
            for n, known_there in guarded_loads_in(part, ctx):
                if n.buffer.name in wanted:
                    yield RegionAccess(n.buffer, n.at, False, known_there, inner)


def guarded_loads_in(part: Node, known: Context) -> Iterator[tuple[Load, Context]]:
    """The loads in `part`, and what is known where each is done: of a choice, one side alone is evaluated."""
    for load, conds in guarded_loads(part):
        yield load, known.inside(*conds) if conds else known


def evaluated_parts(s: Stmt, here: Known) -> Iterator[tuple[Node, Context]]:
    """The parts of a statement that may load, with what is known there: less where a reduction starts."""
    if isinstance(s, Store):
        yield from ((x, here.here) for x in (*(x for x in s.at if not is_affine_visible(x)), s.value))
    elif isinstance(s, Reduce):
        started = (*(x for x in s.at if not is_affine_visible(x)), *(s.init or ()))
        yield from ((x, here.start if s.init else here.here) for x in started)
        yield from ((x, here.here) for x in s.values)
    elif isinstance(s, Loop | If):
        part = s.extent if isinstance(s, Loop) else s.cond
        if not is_affine_visible(part):
            yield part, here.here


def written_by(s: Stmt) -> tuple[Buffer, ...]:
    return (s.buffer,) if isinstance(s, Store) else s.buffers if isinstance(s, Reduce) else ()


def footprint(
    found: Iterable[RegionAccess], outer: Context, shape: Sequence[Index], *, guarded: bool = False
) -> Footprint:
    """The least box around what `found` touches in one iteration of the loops that `outer` knows.

    A dimension whose ends are not known (an index from memory) is taken whole, as `shape` has it. With `guarded`, the
    guards that all of it stands under order the ends; where they fail, an extent may be more than a constant size.
    """
    found = tuple(found)
    under = guarded and any(t.known.facts is not outer.facts for t in found)
    inside = _guard_facts(found, outer) if under else outer
    told = {known: guard_facts(known, outer) for known in {t.known: None for t in found}}
    dims = [_empty_below_zero(_hull(found, d, outer, inside, size, told)) for d, size in enumerate(shape)]
    return Footprint(*(tuple(x[part] for x in dims) for part in range(3)))


def _guard_facts(found: Sequence[RegionAccess], outer: Context) -> Context:
    """What is known wherever something is touched: of the guards around, what holds for some of the inner loops."""
    sets = [outer_facts(t, outer) for t in {(t.known, t.inner): t for t in found}.values()]
    return outer.given(*(c for c in sets[0] if all(c in others for others in sets[1:]))) if sets else outer


def outer_facts(t: RegionAccess, outer: Context) -> list[Cond]:
    """What the guards around `t` say of the loops that `outer` knows."""
    inner = _inner(t.known, outer)
    ends = (end(f, inner, t.known, least=False) for f in t.known.facts if f not in outer.facts)
    return [Cmp("<=", Int(0), to_index(f)) for f in ends if f is not None and not poly_variables(f) & t.inner]


def _inner(known: Context, outer: Context) -> list[tuple[Var, Poly]]:
    around = {v for v, _ in outer.tops}
    return [(v, top) for v, top in known.tops if v not in around]


def widen_to_sizes(box: Footprint, shape: Sequence[Index], sizes: Iterable[str], known: Context) -> Footprint:
    """`box`, whole in each dimension whose room is not told by sizes alone, or by a division by what may be 0.

    It is worked out where `known` holds, the room where nothing is known.
    """
    names = frozenset(sizes)

    def told(base: Index, extent: Index, size: Index) -> bool:
        safe = _divides(size, EMPTY) and _divides(base, known) and _divides(extent, known)
        return safe and reads_only(size, names) and is_affine_visible(extent)

    parts = zip(box.base, box.extent, box.size, shape, strict=True)
    kept = [(b, e, s) if told(b, e, s) else (Int(0), d, d) for b, e, s, d in parts]
    return Footprint(*(tuple(x[n] for x in kept) for n in range(3)))


def _divides(ix: Index, known: Context) -> bool:
    """Whether what `ix` divides by is positive wherever `known` holds."""
    if type(ix) is Add and type(ix.b) is Int:  # as is met most
        ix = ix.a
    if type(ix) is Int or type(ix) is Var:
        return True
    by = [n.b for n in nodes(ix) if isinstance(n, FloorDiv | Mod) and not isinstance(n.b, Int)]
    return all(nonnegative(poly_add(poly(x, known), constant_poly(-1)), known) for x in by)


def _empty_below_zero(dim: Dim) -> Dim:
    """`dim`, empty where its size comes out below 0: its loops do not run."""
    base, _, size = dim
    return (base, Int(0), Int(0)) if isinstance(size, Int) and size.value < 0 else dim


def _hull(found: Sequence[RegionAccess], d: int, outer: Context, inside: Context, size: Index, told: GuardFacts) -> Dim:
    """Base, extent and bound of the extent for one dimension; `inside` is known where something is touched at all.

    A number of elements that is known stays as it is; guards on the inner loops make less of another, as in triangles.
    """
    loosely = _spanned(found, d, outer, inside, size, ends_of)
    if isinstance(loosely[2], Int) or (inside is outer and not any(told.values())):
        return loosely
    closely = _spanned(found, d, outer, outer, size, lambda at, known, _: ends_within(at, known, outer, told[known]))
    return loosely if closely[1] == size else closely


def _spanned(found: Sequence[RegionAccess], d: int, outer: Context, inside: Context, size: Index, ends_at: Ends) -> Dim:
    low: Poly | None = None
    high: Poly | None = None
    whole = (Int(0), size, size)
    for t, at, ahead in _group_alike(found, d):
        ends = ends_at(at, t.known, outer)
        if ends is None or any(p and not t.inner.isdisjoint(poly_variables(p)) for p in ends):
            return whole
        first, last = poly_add(ends[0], constant_poly(min(ahead))), poly_add(ends[1], constant_poly(max(ahead)))
        low = first if low is None else hull(low, first, inside, least=True)
        high = last if high is None else hull(high, last, inside, least=False)
    if low is None or high is None:
        return whole
    extent = poly_add(poly_add(high, low, -1), constant_poly(1))
    bound = size_bound(extent, inside)
    if bound is not None and inside is not outer and const_of(bound) is None:
        extent = bound  # where the guards fail, the ends may lie further apart
    if bound is None:
        return whole
    if not low and const_of(bound) is None and proved(poly_add(bound, poly(size, outer), -1), outer):
        changes = poly_variables(extent) & {v.name for v, _ in outer.tops}
        return (Int(0), to_index(extent), size) if changes else whole
    return (to_index(low), to_index(extent), to_index(bound))


def _group_alike(found: Iterable[RegionAccess], d: int) -> Iterator[tuple[RegionAccess, Index, list[int]]]:
    """Those alike in subscript `d` but for a constant: one of them, what is alike, and the constants."""
    alike: dict[object, tuple[RegionAccess, Index, list[int]]] = {}
    for t in found:
        ix, ahead = constant_part(t.at[d])
        alike.setdefault((ix, t.known, t.inner), (t, ix, []))[2].append(ahead)
    yield from alike.values()


def ends_of(at: Index, known: Context, outer: Context) -> tuple[Poly, Poly] | None:
    """The least and the greatest value of `at` over the loops that `known` has inside `outer`; None if not known."""
    if type(at) is Var:
        top = None if at in outer.top else known.top.get(at)
        if top is None:
            return {(at,): 1}, {(at,): 1}
        if const_of(top) is not None:
            return {}, top
    inner = _inner(known, outer)
    p = poly(at, known)
    low, high = end(p, inner, known, least=True), end(p, inner, known, least=False)
    return None if low is None or high is None else (low, high)


def ends_within(at: Index, known: Context, outer: Context, told: Sequence[Poly]) -> tuple[Poly, Poly] | None:
    """`ends_of`, where the guards hold that say what is `told`; if none of these fit, the last may be less."""
    ends = ends_of(at, known, outer)
    if ends is None:
        return None
    p, inner = poly(at, known), _inner(known, outer)
    low, high = ends
    for top in _distinct(_tops_of(p, inner, known, told)):
        high = hull(high, top, outer, least=True)
    for top in _distinct(_tops_of(poly_scale(p, -1), inner, known, told)):
        low = hull(low, poly_scale(top, -1), outer, least=False)
    return low, high


def _distinct(found: Iterable[Poly]) -> Iterable[Poly]:
    return {frozenset(p.items()): p for p in found}.values()


def guard_facts(known: Context, outer: Context) -> list[Poly]:
    """What guards say of the loops that `known` has inside `outer`: polynomials that are >= 0, memory left aside."""
    told = [f for f in known.facts if f not in outer.facts] if known.facts is not outer.facts else []
    if not told:
        return told
    names = {v.name for v, _ in _inner(known, outer)}
    tops = [top for _, top in known.tops]
    return [f for f in told if f not in tops and poly_variables(f) & names and is_affine_visible(to_index(f))]


def _tops_of(p: Poly, inner: Tops, ctx: Context, told: Sequence[Poly], depth: int = 2) -> Iterator[Poly]:
    """Bounds of `p` from above that are free of the loops `inner`: with a multiple of a fact added, it loses a loop."""
    mine = [(v, a) for v, _ in inner if (a := p.get((v,), 0))]
    for n, f in enumerate(told) if mine else ():
        for v, a in mine:
            b = f.get((v,), 0)
            if a * b >= 0:
                continue
            more = poly_add(poly_scale(p, abs(b)), poly_scale(f, abs(a)))
            if (most := end(more, inner, ctx, least=False)) is not None:
                yield divide(most, constant_poly(abs(b)), ctx)
            if depth > 1:
                rest = [*told[:n], *told[n + 1 :]]
                yield from (divide(q, constant_poly(abs(b)), ctx) for q in _tops_of(more, inner, ctx, rest, depth - 1))


def end(p: Poly, inner: Tops, ctx: Context, *, least: bool) -> Poly | None:
    """The least or greatest value of `p` over the loops `inner`, free of them; None if it is not known."""
    names = {v.name for v, _ in inner}
    if all(len(m) < 2 and (not m or type(m[0]) is Var) for m in p):
        p = _linear_end(p, inner, least)
    for _ in range(4 * len(inner) + 4):
        used = [a for m in p for a in m if free_vars(a) & names]
        if not used:
            return p
        pick = _next(used, inner)
        split = coefficient(p, pick)
        if split is None:
            return None
        q, r = split
        up = nonnegative(q, ctx)
        if not up and not nonnegative(poly_scale(q, -1), ctx):
            return None
        bound = _atom_end(pick, inner, ctx, up == least)
        if bound is None:
            return None
        p = poly_add(r, poly_mul(q, bound))
    return None


def _linear_end(p: Poly, inner: Tops, least: bool) -> Poly:
    """`p`, a sum of variables, with the loops `inner`, inner ones first, each at the end that its coefficient tells.

    A loop that an inner one's end brings into a product, a quotient or an extreme is left where it is.
    """
    out = dict(p)
    for v, top in inner:
        c = out.get((v,), 0)
        if c and not any(v.name in free_vars(a) for m in out for a in m if len(m) > 1 or type(a) is not Var):
            del out[(v,)]
            if (c > 0) != least:
                poly_add_to(out, top, c)
    return out


def _next(used: Sequence[Index], inner: Tops) -> Index:
    """A loop that stands alone goes first, inner ones before, as what bounds it may cancel; then what holds loops."""
    held = {v for a in used if not isinstance(a, Var) for v in free_vars(a)}
    alone = (v for v, _ in inner if v in used and v.name not in held)
    return next(alone, None) or next(a for a in used if not isinstance(a, Var))


def _atom_end(a: Index, inner: Tops, ctx: Context, least: bool) -> Poly | None:
    def of(x: Index, low: bool) -> Poly | None:
        return end(poly(x, ctx), inner, ctx, least=low)

    match a:
        case Var():
            return {} if least else dict(next(top for v, top in inner if v == a))
        case FloorDiv(x, b) if not free_vars(b) & {v.name for v, _ in inner}:
            p = of(x, least)
            return None if p is None else divide(p, poly(b, ctx), ctx)
        case Mod(x, b) if not free_vars(b) & {v.name for v, _ in inner}:
            low, high, by = of(x, True), of(x, False), poly(b, ctx)
            if low is not None and high is not None and divide(low, by, ctx) == divide(high, by, ctx):
                return modulo(low if least else high, by, ctx)
            return {} if least else poly_add(by, constant_poly(-1))
        case Min(x, y) | Max(x, y):
            one, other = of(x, least), of(y, least)
            if one is None or other is None:
                known = other if one is None else one
                return known if isinstance(a, Min) != least else None
            return extreme(one, other, isinstance(a, Min), ctx)
        case _:
            return None


# ---------------------------------------------------------------- order and size


def hull(a: Poly, b: Poly, ctx: Context, *, least: bool) -> Poly:
    """The lesser, or the greater, of two ends: the one where it is proved, else their minimum or maximum."""
    if a == b:
        return a
    pairs = [(one, poly_add(other, one, -1) if least else poly_add(one, other, -1)) for one, other in ((a, b), (b, a))]
    for sure in (nonnegative, proved):
        for one, ahead in pairs:
            if sure(ahead, ctx):
                return one
    return extreme(a, b, least, ctx)


def proved(p: Poly, ctx: Context) -> bool:
    """Whether `p >= 0` wherever `ctx` holds, by the forms or else by the solver."""
    said = decide_nonnegative(p, ctx)
    if said is not None:
        return said
    if not ctx.facts and all(isinstance(a, Var) for m in p for a in m):
        return False  # linear over constant loops: the forms have seen it all
    if refuted_by_sample(p, ctx) or any(_counts(p, ctx, size, last) for size in EXAMPLES for last in (False, True)):
        return False
    system, dims = system_of(ctx, p)
    below = combine({"": -1}, system.linear(to_index(p), "s", {v: v for v in dims}), -1)
    return not system.possible(dims, [(below, False)])


def _counts(p: Poly, ctx: Context, size: int, last: bool) -> bool:
    """Whether `p` is below 0 at an example: all sizes alike, each loop in its first iteration, or its last."""
    lows = dict(ctx.lows)
    env = {
        v: max(size, lows.get(v, 0)) for q in (p, *ctx.facts, *(top for _, top in ctx.tops)) for v in poly_variables(q)
    }
    try:
        for v, top in reversed(ctx.tops):
            env[v.name] = 0
            env[v.name] = evaluate(to_index(top), env) if last else 0
        ends = (evaluate(to_index(top), env) - env[v.name] for v, top in ctx.tops)
        fits = min(env.values(), default=0) >= 0 and all(x >= 0 for x in ends)
        return fits and evaluate(to_index(p), env) < 0 and all(evaluate(to_index(f), env) >= 0 for f in ctx.facts)
    except (VerifyError, ZeroDivisionError):
        return False  # something is read from memory


def system_of(ctx: Context, *more: Poly) -> tuple[ConstraintSystem, list[str]]:
    """What `ctx` says of its loops and sizes, and of the variables in `more`; dimensions are called as these are."""
    system = ConstraintSystem()
    inside, lows = {v.name for v, _ in ctx.tops}, dict(ctx.lows)
    dims = list(dict.fromkeys([v.name for v, _ in ctx.tops]))
    dims += sorted({v for p in (*(t for _, t in ctx.tops), *ctx.facts, *more) for v in poly_variables(p)} - inside)
    names = {v: v for v in dims}
    for v in dims:
        system.constraints.append(({v: 1, "": 0 if v in inside else -lows.get(v, 0)}, False))
    for v, top in ctx.tops:
        system.constraints.append((combine(system.linear(to_index(top), "s", names), {v.name: 1}, -1), False))
    for fact in ctx.facts:
        system.constraints.append((system.linear(to_index(fact), "s", names), False))
    return system, dims


def poly_variables(p: Poly) -> set[str]:
    """The variables in `p`."""
    return {v for m in p for a in m for v in free_vars(a)}


def size_bound(extent: Poly, ctx: Context) -> Poly | None:
    """The least bound of `extent` that speaks of no loop: a constant where there is one."""
    if (count := const_of(extent)) is not None:
        return constant_poly(max(0, count))
    names = {v.name for v, _ in ctx.tops}
    choices = list(upper_sides(extent))
    constants = [c for p in choices if (c := interval(p, ctx)[1]) is not None]
    if constants:
        return constant_poly(max(0, min(constants)))
    if not poly_variables(extent) & names:
        return extent
    if (most := _greatest(extent, ctx)) is not None:
        return constant_poly(most)
    ends = [e for p in choices if (e := end(p, ctx.tops, ctx, least=False)) is not None]
    return ends[0] if ends else None


def upper_sides(p: Poly) -> Iterator[Poly]:
    """Bounds of `p` from above: for each minimum that adds, and each maximum that is taken off, one of its sides."""
    open_: list[tuple[Index, tuple[Index, Index]]] = []
    for m, c in p.items():
        match m:
            case (Min(a, b) as x,) if c > 0:
                open_.append((x, (a, b)))
            case (Max(a, b) as x,) if c < 0:
                open_.append((x, (a, b)))
            case _:
                pass
    for chosen in product(*(sides for _, sides in open_[:4])):
        out = dict(p)
        for (x, _), side in zip(open_, chosen, strict=False):
            c = out.get((x,), 0)  # the side of another may have taken it off, or more
            if c and (c > 0) is isinstance(x, Min):
                del out[(x,)]
                out = poly_add(out, poly(side, Context()), c)
        yield out


def _greatest(p: Poly, ctx: Context) -> int | None:
    """The greatest value of `p` at any sizes, if there is one and the solver sees all of it."""
    if all(isinstance(a, Var) for m in p for a in m):
        return None  # linear: `interval` has seen it
    system, dims = system_of(ctx, p)
    value = system.linear(to_index(p), "s", {v: v for v in dims})
    return None if system.inexact is not None else system.greatest(dims, value)
