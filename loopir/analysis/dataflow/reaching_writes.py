"""Reaching writes: is every read preceded by its write, and are operands overwritten before a value is used?

The second question has three instances: one that stores a value, one that overwrites an operand of it, and one that
loads the value. It decides whether the value can be computed at its use instead.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import product

from loopir.analysis.dependence.access import Access, Statement, statements_in
from loopir.analysis.dependence.depend import SIZE, Clash, Order, before, instance_times
from loopir.analysis.presburger.constraints import ConstraintSystem, Names, combine
from loopir.analysis.presburger.solver import ALGEBRA, isl, nothing, question
from loopir.analysis.regions.bounds import instance_of
from loopir.errors import Undecided, Witness
from loopir.ir.grammar import Func
from loopir.ir.layout.layouts import evaluated
from loopir.ir.traverse.walk import nests_declaring, nests_touching

Done = tuple[Statement, Access]


@dataclass(frozen=True, slots=True)
class InterveningWrite:
    """The value's instance reads an element that another then writes, and `label` at `use` loads the value later."""

    clash: Clash
    label: str
    use: dict[str, int]


def is_written_before(func: Func, read: Done, write: Done, outer: Sequence[str]) -> bool:
    """Whether all that `read` reads is seen to be written by `write` before, in one iteration of the loops `outer`.

    Where one of the two is outside of one of these, as the start of a fold is of the loop that is folded, it is not.
    """
    if not {*outer} <= {*read[0].dims} & {*write[0].dims}:
        return False
    try:
        with question(times=ALGEBRA):
            return _written_before(func, read, write, outer)
    except Undecided:
        return False


def _written_before(func: Func, read: Done, write: Done, outer: Sequence[str]) -> bool:
    (t, b), (s, a) = read, write
    system, names = instance_of(func, t, b, "t")
    dims = [*(f"{SIZE}{n}" for n in func.sizes), *(f"t.{v}" for v in t.dims)]
    reads = [isl.Set.from_basic_set(x) for x in system.solutions(dims, [])]
    both, made = instance_of(func, s, a, "s", instance_of(func, t, b, "t")[0])
    _same(both, ("s", a, made), ("t", b, names))
    alike: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in outer]
    if both.inexact is not None or s.maybe or a.maybe or None in (*a.at, *b.at):
        return False
    covered = nothing(len(dims))
    for order in before(s.as_s, t.as_t):
        for piece in both.solutions([*dims, *(f"s.{v}" for v in s.dims)], [*alike, *order]):
            covered = covered.union(_first(isl.Set.from_basic_set(piece), len(dims)))
    return all(_first(x, len(dims)).is_subset(covered) for x in reads)


def _first(points: isl.Set, count: int) -> isl.Set:
    """The first `count` dimensions."""
    return points.project_out(isl.dim_type.set, count, points.dim(isl.dim_type.set) - count)


def intervening_write(func: Func, label: str, buffer: str) -> InterveningWrite | None:
    """A write of what statement `label` reads, after it stored to `buffer` and before that element is loaded."""
    maker = next((s for s in statements_in(func, nests_declaring(label)) if s.label == label), None)
    if maker is None:
        return None  # it stands where nothing runs, and is left out
    names = maker.reads
    every = statements_in(func, nests_touching(*names, buffer))
    later = [s for s in every if not s.writes.isdisjoint(names) and before(maker.as_s, s.as_t)]
    if not later:
        return None
    stored = next(a for a in maker.accesses if a.write)
    inputs = [a for a in maker.accesses if not a.write]
    writes, loads = accesses_of(later, names, write=True), accesses_of(every, {buffer}, write=False)
    for read, write, load in product(inputs, writes, loads):
        if read.buffer == write[1].buffer:
            found = _intervening(func, (maker, stored), read, write, load)
            if found is not None:
                return found
    return None


def accesses_of(statements: Sequence[Statement], buffers: Set[str], *, write: bool) -> list[Done]:
    """The writes, or the reads, of `buffers`, each with its statement."""
    found = ((s, a) for s in statements if s.uses(buffers) for a in s.accesses)
    return [(s, a) for s, a in found if a.write == write and a.buffer in buffers]


def _intervening(
    func: Func, made: Done, read: Access, write: Done, load: Done
) -> InterveningWrite | None:  # fmt: skip
    """`write` of the element that `read` loaded, after `made` stored a value of it and before `load` of that; None if
    there is none. A load in the loops of `made` that is stored to before it, in the same iteration, has no older one.
    """
    found = next(_cases(func, made, read, write, load), None)
    shared = [v for v in made[0].dims if v in load[0].dims]
    if found is not None and shared and is_written_before(func, load, made, shared):
        return next(_cases(func, made, read, write, load, shared), None)
    return found


def _cases(
    func: Func, made: Done, read: Access, write: Done, load: Done, same: Sequence[str] = ()
) -> Iterator[InterveningWrite]:
    """The three run: "s" reads what "t" writes, and stores what "u" loads, in its iteration of the loops `same`."""
    then = before(instance_times(made[0].when, "s"), instance_times(write[0].when, "t"))
    later = before(instance_times(write[0].when, "t"), instance_times(load[0].when, "u"))
    if not later:
        return
    system, s = instance_of(func, made[0], read)
    t = instance_of(func, *write, "t", system)[1]
    u = instance_of(func, *load, "u", system)[1]
    _same(system, ("s", read, s), ("t", write[1], t))
    _same(system, ("s", made[1], s), ("u", load[1], u))
    system.constraints += [({f"s.{v}": 1, f"u.{v}": -1}, True) for v in same]
    loops = {"s": made[0].dims, "t": write[0].dims, "u": load[0].dims}
    dims = [*(f"{SIZE}{n}" for n in func.sizes), *(f"{p}.{v}" for p, names in loops.items() for v in names)]
    for one, other in product(then, later):
        point = system.smallest(dims, [*one, *other])
        if point is not None:
            sizes = {n: point[f"{SIZE}{n}"] for n in func.sizes}
            at = {p: {v: point[f"{p}.{v}"] for v in names} for p, names in loops.items()}
            seen = None not in (*read.at, *write[1].at)
            element = evaluated(write[1].at, {**sizes, **at["t"]}) if seen else None
            w = Witness("WAR", read.buffer, element, made[0].name, at["s"], write[0].name, at["t"], sizes)
            yield InterveningWrite(
                Clash(w, made[0].label, write[0].label, _inexact_reason(system, read, write)), load[0].name, at["u"]
            )


def _inexact_reason(system: ConstraintSystem, read: Access, write: Done) -> str | None:
    if None in (*read.at, *write[1].at):
        return f"{read.buffer} is indexed from memory, which analysis takes to touch every element"
    return system.inexact_reason


def _same(system: ConstraintSystem, one: tuple[str, Access, Names], other: tuple[str, Access, Names]) -> None:
    """Both touch one element of one memory."""
    (p, a, x), (q, b, y) = one, other
    for left, right in zip(a.at, b.at, strict=True):
        if left is not None and right is not None:
            system.constraints.append((combine(system.linear(left, p, x), system.linear(right, q, y), -1), True))
    system.constraints += [({f"{p}.{v}": 1, f"{q}.{v}": -1}, True) for v in a.private]
