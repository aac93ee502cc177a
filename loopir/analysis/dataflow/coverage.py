"""Coverage: does one nest execute all instances, or access all elements, of another, and each once? By integer sets.

A set is over the sizes, the loops around both nests, and indices over the statement's loops: its own loops for
instances, the subscripts of an access for elements. A set that is not affine is over-approximated, which is sound for
what has to be covered and unsound for what covers; `Image.exact` says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopir.analysis.dependence.access import Access, Statement, is_affine_visible, statements_in
from loopir.analysis.dependence.distance_vectors import distance_vectors
from loopir.analysis.presburger.constraints import SIZE, ConstraintSystem, combine, least_point
from loopir.analysis.presburger.solver import asking, isl, nothing
from loopir.analysis.regions.bounds import instance_of
from loopir.arith.poly import constant_poly, poly_add
from loopir.arith.simplify import Context, nonnegative, poly, simplify_cond
from loopir.errors import Undecided
from loopir.ir.grammar import TRUE, Buffer, Func, If, Index, Int, Reduce, Var
from loopir.ir.traverse.walk import StmtPath, nests_declaring, nests_touching, substitute, top_level_nests


@dataclass(frozen=True, slots=True)
class Image:
    """The values of some indices over all instances of a statement, as points (sizes, outer loops, values)."""

    points: isl.Set
    exact: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """Values that are in one image and not in another: at which sizes, in which iteration around."""

    values: tuple[int, ...]
    outer: dict[str, int]
    sizes: dict[str, int]

    @property
    def at(self) -> str:
        where = {**self.outer, **self.sizes}
        return f" (at {', '.join(f'{k}={v}' for k, v in where.items())})" if where else ""

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.values))}]{self.at}"


def first_statement(func: Func, label: str, *, starts: bool = True) -> Statement | None:
    """The statement `label`; if it `starts`, of a reduction with an init the initial stores, which are always made.

    None where there is no such statement: it stands where nothing runs, and is left out.
    """
    found = [s for s in statements_in(func, nests_declaring(label)) if s.label == label]
    return next((s for s in found if starts and s.init), None) or next((s for s in found if not s.init), None)


@dataclass(frozen=True, slots=True)
class Values:
    """What `indices` are in the instances of a statement, in those that do `access` if it is given.

    There are none where `statement` is None, as `first_statement` has it.
    """

    func: Func
    statement: Statement | None
    indices: Sequence[Index]
    access: Access | None = None


@asking
def find_missing(old: Values, now: Values, outer: Sequence[str]) -> Missing | None:
    """Values that are in `old` and not in `now`, each in one iteration of the loops `outer`; None: there are none."""
    before, after = image(old, outer), image(now, outer)
    left = before.points.subtract(after.points) if after.exact else before.points
    count = len(old.func.sizes) + len(outer)
    points = [least_point(s, count + len(old.indices)) for s in left.get_basic_sets() if not s.is_empty()]
    if not points:
        return None
    point = min(points)
    sizes = dict(zip(old.func.sizes, point, strict=False))
    return Missing(tuple(point[count:]), dict(zip(outer, point[len(sizes) :], strict=False)), sizes)


def is_covered(func: Func, old: Statement, new: Statement, at: Mapping[str, Index], came: Mapping[str, Index]) -> bool:
    """Whether each instance of `old` is seen to be one of `new`: that one whose loops are `at`, over the old ones.

    `came` are the old loops over the new ones. A loop that is in neither is in both nests, and the same.
    """
    if old.maybe or new.maybe:
        return False
    known = Context.of(func)
    for x in old.loops:
        known = known.loop(x.var, x.extent)
    known = known.inside(*old.conds) if old.conds else known
    if any(poly(substitute(ix, at), known) != poly(Var(v), known) for v, ix in came.items()):
        return False
    kept = dict(zip(old.dims, old.extents, strict=True))
    for v, extent in zip(new.dims, new.extents, strict=True):
        if extent is None or (v not in at and v not in kept):
            return False
        least, most = poly(at.get(v, Var(v)), known), poly(substitute(extent, at), known)
        same = v not in at and kept[v] == extent and most == poly(extent, known)
        room = poly_add(poly_add(most, least, -1), constant_poly(-1))
        if not same and not (nonnegative(least, known) and nonnegative(room, known)):
            return False
    rest = (substitute(c, at) for c in new.conds)
    return all(c in old.conds or simplify_cond(c, known) == TRUE for c in rest)


def image(of: Values, outer: Sequence[str]) -> Image:
    """The set of points that the indices of `of` take, those from memory taken to be 0. Call it inside a `question`."""
    dims = _dims(of.func, outer, of.indices)
    points = nothing(len(dims))
    s = of.statement
    if s is None:
        return Image(points, exact=True)
    system, names = instance_of(of.func, s, of.access)
    for d, ix in enumerate(of.indices):
        value = system.linear(ix, "s", names) if is_affine_visible(ix) else {"": 0}
        system.constraints.append((combine(value, {f"e{d}": 1}, -1), True))
    rest = [f"s.{v}" for v in s.dims if v not in outer]
    for piece in system.solutions([*dims, *rest], []):
        whole = isl.Set.from_basic_set(piece)
        points = points.union(whole.project_out(isl.dim_type.set, len(dims), whole.dim(isl.dim_type.set) - len(dims)))
    return Image(points, system.inexact is None and not s.maybe and all(map(is_affine_visible, of.indices)))


def fills(place: StmtPath, b: Buffer) -> bool:
    """Whether a statement writes each element of `b` by a loop for each dimension, with no guard and no other loop."""
    over = place.stmt.over if isinstance(place.stmt, Reduce) and place.stmt.init is not None else ()
    loops = {x.var: x.extent for x in place.loops if x.var not in over}
    for ix, size in zip(place.stmt.at, b.shape, strict=True):
        if not (isinstance(ix, Var) and loops.pop(ix.name, None) == size) and (ix, size) != (Int(0), Int(1)):
            return False
    return not loops and not any(isinstance(s, If) for s in place.around)


def is_filled_by_earlier_nest(func: Func, label: str, name: str) -> bool:
    """Whether a nest before that of statement `label` fills the buffer `name`, whose sizes need not be affine."""
    for t in top_level_nests(func):
        if any(p.stmt.label == label for p in t.places):
            return False
        if any(fills(p, b) for p in t.places for b in p.stmt.buffers if b.name == name):
            return True
    return False


def is_written_whole_before(func: Func, label: str, b: Buffer) -> bool:
    """Whether the nests before that of statement `label` are seen to write all elements of `b` together."""
    if is_filled_by_earlier_nest(func, label, b.name):
        return True
    earlier: set[str] = set()
    for t in top_level_nests(func):
        here = {p.stmt.label for p in t.places}
        if label in here:
            break
        earlier |= here
    return is_written_whole(func, b, [s for s in statements_in(func, nests_touching(b.name)) if s.label in earlier])


def is_written_whole(func: Func, b: Buffer, statements: Sequence[Statement]) -> bool:
    """Whether those statements are seen to write all elements of `b` together."""
    try:
        return _is_written_whole(func, b, statements)
    except Undecided:
        return False


@asking
def _is_written_whole(func: Func, b: Buffer, statements: Sequence[Statement]) -> bool:
    system, at = ConstraintSystem(), [Var(f"e{d}") for d in range(len(b.shape))]
    names: dict[str, str | int] = {n: f"{SIZE}{n}" for n in func.sizes}
    system.constraints += [({f"{SIZE}{n}": 1}, False) for n in func.sizes]
    for c in func.assumes:
        system.require(c, "n", names)
    names |= {x.name: x.name for x in at}
    for x, size in zip(at, b.shape, strict=True):
        system.inside(x.name, size, "e", names)
    dims = _dims(func, (), at)
    left = nothing(len(dims))
    for piece in system.solutions(dims, []):
        whole = isl.Set.from_basic_set(piece)
        left = left.union(whole.project_out(isl.dim_type.set, len(dims), whole.dim(isl.dim_type.set) - len(dims)))
    for s in statements:
        for a in s.accesses:
            if a.write and a.buffer == b.name and not a.maybe and None not in a.at:
                found = image(Values(func, s, [ix for ix in a.at if ix is not None], a), ())
                left = left.subtract(found.points) if found.exact else left
    return bool(left.is_empty())


def _determined_loops(
    func: Func, s: Statement, indices: Sequence[Index], outer: Sequence[str], loops: Sequence[str]
) -> set[str]:
    """Those of `loops` that are the same in two instances of `s` in which the indices are: all if there are none."""
    same = Access("", tuple([ix if is_affine_visible(ix) else None for ix in indices]), False, (), ())
    apart = distance_vectors(s, same, s, same)
    if apart is None:
        return set(loops)
    fixed = {Var(v) for v in (*func.sizes, *outer)}
    return {v for v in loops if apart.get(v) == (0, 0) or s.equal.get(Var(v)) in fixed}  # by the indices, or a guard


def _instances_of_equal_indices(func: Func, s: Statement, indices: Sequence[Index]) -> ConstraintSystem:
    """Two instances of `s`, "s" and "t", in which index number d has the same value, "ed"."""
    system, left = instance_of(func, s, None)
    right = instance_of(func, s, None, "t", system)[1]
    for d, ix in enumerate(indices):
        value = system.linear(ix, "s", left)
        difference = combine(value, system.linear(ix, "t", right), -1)
        system.constraints += [(difference, True), (combine(value, {f"e{d}": 1}, -1), True)]
    return system


def find_duplicate(
    func: Func, s: Statement | None, indices: Sequence[Index], outer: Sequence[str], loops: Sequence[str]
) -> Missing | None:
    """Values that the indices take in two instances of `s` that differ in one of `loops`, in one of `outer`."""
    if s is None:
        return None
    told = _determined_loops(func, s, indices, outer, loops)
    if told.issuperset(loops):
        return None
    system = _instances_of_equal_indices(func, s, indices)
    dims = _dims(func, outer, indices)
    dims += [v for p in "st" for v in (f"{p}.{x}" for x in s.dims) if v not in dims]
    for n, differ in enumerate(loops):
        if differ in told:
            continue
        alike = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in (*outer, *loops[:n])]
        point = system.smallest(dims, [*alike, ({f"t.{differ}": 1, f"s.{differ}": -1, "": -1}, False)])
        if point is not None:
            values = tuple(point[f"e{d}"] for d in range(len(indices)))
            sizes = {n: point[f"{SIZE}{n}"] for n in func.sizes}
            return Missing(values, {v: point[f"s.{v}"] for v in outer}, sizes)
    return None


def _dims(func: Func, outer: Sequence[str], indices: Sequence[Index]) -> list[str]:
    """The dimensions of a point: sizes, outer loops, values."""
    return [*(f"{SIZE}{n}" for n in func.sizes), *(f"s.{v}" for v in outer), *(f"e{d}" for d in range(len(indices)))]
