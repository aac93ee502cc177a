"""A part of a program as a program of its own: some of its nests, with what they share with the others as arguments.

What is proved of a nest hangs on the accesses of the nests beside it and on the sizes, so that a step that is legal in
a part is legal in the whole, as long as the part reads and writes the same arguments. Steps are then paid for by the
size of the part. Parts that differ in names alone are the same program once they are in canonical form, so that what
was found for one layer of a network is found for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter

from loopir.analysis.dataflow.coverage import fills, is_written_whole
from loopir.analysis.dependence.access import statements_in
from loopir.errors import ScheduleError
from loopir.ir.grammar import Access, Alloc, Arg, Body, Buffer, Func, Loop, Reduce, Size, Stmt, Store
from loopir.ir.printer import unwrapped
from loopir.ir.traverse.clone import Renaming, UsedNames, rename_symbols
from loopir.ir.traverse.labels import labels_in, labels_of
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import (
    TopLevelNest,
    accessed_buffers,
    loaded_buffers,
    nodes,
    statements,
    stored_buffers,
    taken_names,
    top_level_nests,
)
from loopir.schedule.core.find import join_names

_NUMBER = re.compile(r"(_?\d+)+(?=_|$)")


@dataclass(frozen=True)
class Part:
    """Nests of a program as a Func, in canonical names, and what each name is called in the program."""

    func: Func
    nests: tuple[int, ...]
    original: dict[str, str]
    labels: dict[str, str]


def subprogram(func: Func, stages: Iterable[str]) -> Func:
    """The nests of `func` in which `stages` stand as a Func with the same names.

    What other nests read or write besides becomes an argument: "out", of which nothing need be written, where these
    nests only read it and others are not seen to write all of it before. ScheduleError for a stage that is not there,
    and where another nest has to run between these.
    """
    return _subprogram(func, _chosen(func, stages))


def _subprogram(func: Func, chosen: tuple[int, ...]) -> Func:
    if _interrupted(func, chosen):  # say by what
        in_order(func, (chosen, *((t.nth,) for t in top_level_nests(func) if t.nth not in chosen)))
    return _extracted(func, chosen)


def _interrupted(func: Func, chosen: tuple[int, ...]) -> bool:
    """Whether another nest has to run between those that are chosen."""
    every, among, waiting = nests(func), set(chosen), set[int]()
    for n in range(chosen[0], chosen[-1] + 1):
        needs = every[n].needs
        if n in among:
            if not needs.isdisjoint(waiting):
                return True
        elif not (needs.isdisjoint(waiting) and needs.isdisjoint(among)):
            waiting.add(n)
    return False


def extract(func: Func, stages: Iterable[str]) -> Part:
    """As `subprogram`, in canonical names: loops, stages and results without their numbers, inputs in order.

    Parts of one program that differ in names alone, or in the order of the program's arguments, have the same Func:
    its inputs stand in the order in which its nests touch them, and so do its results.
    """
    chosen = _chosen(func, stages)
    found = _in_order_of_use(_subprogram(func, chosen))
    pattern, names, labels = _pattern(found, [top_level_nests(func)[n].nest for n in chosen])
    known = _extracted_parts(func)
    if pattern not in known:
        known[pattern] = _in_canonical_names(found, chosen), names, labels
    first, others, other_labels = known[pattern]
    mine, my_labels = dict(zip(others, names, strict=True)), dict(zip(other_labels, labels, strict=True))
    return Part(
        first.func,
        chosen,
        {new: mine[old] for new, old in first.original.items()},
        {new: my_labels[old] for new, old in first.labels.items()},
    )


def _in_order_of_use(found: Func) -> Func:
    """`found` with its inputs, and what it writes after them, in the order in which its nests touch them."""
    touched = dict.fromkeys(b.name for t in top_level_nests(found) for b in _form(t.nest).buffers)
    place = {name: n for n, name in enumerate(touched)}
    args = sorted(found.args, key=lambda a: (a.access != "in", place[a.buffer.name]))
    return replace(found, params=(*(p for p in found.params if not isinstance(p, Arg)), *args))


@memoized
def _extracted_parts(func: Func) -> dict[object, tuple[Part, tuple[str, ...], tuple[str, ...]]]:
    """The parts that were taken out of `func`, by their patterns, each with its names in `func`, which fills up."""
    return {}


def _in_canonical_names(found: Func, chosen: tuple[int, ...]) -> Part:
    """The Func `found` of the nests that are `chosen` under canonical names."""
    taken, new, labels = UsedNames(set(found.sizes), set()), Renaming(), dict[str, str]()
    written = frozenset[str]().union(*(stored_buffers(t.nest) for t in top_level_nests(found)))
    for a in found.args:
        stem = (_stem(a.buffer.name) or "arg") if a.buffer.name in written else "arg"
        new.buffers[a.buffer.name] = replace(a.buffer, name=taken.name(stem))
    for s in statements(found.body):
        match s:
            case Alloc(b):
                new.buffers[b.name] = replace(b, name=taken.name(_stem(b.name) or "buffer"))
            case Loop(var):
                new.loops[var] = taken.name(_stem(var) or "loop")
            case Store(label) | Reduce(label) if label not in new.labels:
                written = new.buffers.get(label)  # what is called after what it writes stays so
                new.labels[label] = taken.label(written.name if written else _stem(label) or "stage")
            case _:
                pass
    made = replace(rename_symbols(found, new), name="part")
    original = {b.name: old for old, b in new.buffers.items()} | {name: old for old, name in new.loops.items()}
    labels = {name: old for old, name in new.labels.items()}
    return Part(made, chosen, original, labels)


@lru_cache(maxsize=4096)
def _stem(name: str) -> str:
    """A name without its numbers."""
    return _NUMBER.sub("", name)


@dataclass(frozen=True)
class _Form:
    """A nest as text in names by order, and what it calls these: buffers, memory of its own, loops, and labels."""

    text: str
    buffers: tuple[Buffer, ...]
    own: tuple[str, ...]
    loops: tuple[str, ...]
    labels: tuple[str, ...]


@memoized
def _form(nest: Stmt) -> _Form:
    new, own, loops, labels = Renaming(), dict[str, None](), dict[str, None](), dict[str, None]()
    for s in statements((nest,)):
        match s:
            case Alloc(b):
                own[b.name] = None
                new.buffers[b.name] = replace(b, name=f"own{len(own)}_{_stem(b.name)}")
            case Loop(var):
                loops[var] = None
                new.loops[var] = f"loop{len(loops)}_{_stem(var)}"
            case Store(label) | Reduce(label):
                labels[label] = None
                new.labels.setdefault(label, f"stage{len(labels)}")
            case _:
                pass
    buffers = {b.name: b for b in nodes(nest) if isinstance(b, Buffer) and b.name not in own}
    for n, b in enumerate(buffers.values()):
        new.buffers[b.name] = replace(b, name=f"buffer{n}")
    return _Form(unwrapped(rename_symbols(nest, new)), tuple(buffers.values()), tuple(own), tuple(loops), tuple(labels))


def _pattern(found: Func, mine: Sequence[Stmt]) -> tuple[object, tuple[str, ...], tuple[str, ...]]:
    """What tells the canonical form of `found`, a subprogram of the nests `mine`, from those of others of its program;
    and its names and labels, in the order of their first use: where patterns are the same, these correspond."""
    forms, inner = [_form(s) for s in mine], _allocated(found)
    buffers = {b.name: b for f in forms for b in f.buffers}
    buffers |= {b.name: b for b in (*(a.buffer for a in found.args), *inner)}
    names = *buffers, *(x for f in forms for x in f.own), *(x for f in forms for x in f.loops)
    labels = {x: n for n, x in enumerate(dict.fromkeys(x for f in forms for x in f.labels))}
    number = {name: n for n, name in enumerate(names)}
    pattern = (
        tuple((f.text, *(number[b.name] for b in f.buffers), *(labels[x] for x in f.labels)) for f in forms),
        _parameters(found.args, mine, number),
        tuple((number[b.name], _stem(b.name)) for b in inner),
        tuple(map(_without_name, buffers.values())),
        tuple((number.get(x), _stem(x)) for x in labels),
    )
    return pattern, names, tuple(labels)


def _parameters(args: Iterable[Arg], mine: Sequence[Stmt], number: Mapping[str, int]) -> tuple[object, ...]:
    """What canonical names of the arguments depend on: their order, and what those that are written are called."""
    written = frozenset[str]().union(*map(stored_buffers, mine))
    return tuple((number[a.buffer.name], a.access, a.buffer.name in written and _stem(a.buffer.name)) for a in args)


@memoized
def _without_name(b: Buffer) -> Buffer:
    return replace(b, name="")


def put_together(func: Func, groups: Sequence[tuple[Part, Func]]) -> Func:
    """`func` with the nests of each part exchanged for those of the Func that came of it, side by side.

    New names that others have already get a number. ScheduleError where parts have to wait for one another.
    """
    every = top_level_nests(func)
    inside = {n for part, _ in groups for n in part.nests}
    gone = {part.original[b.name] for part, _ in groups for b in _allocated(part.func)}
    outer = [b for b in _allocated(func) if b.name not in gone]
    rest = replace(func, body=tuple(t.nest for t in every if t.nth not in inside))
    taken = UsedNames(taken_names(rest) | {b.name for b in outer}, labels_of(rest))
    made = {part.nests: _in_place(part, new, taken) for part, new in groups}
    units = [*(part.nests for part, _ in groups), *((t.nth,) for t in every if t.nth not in inside)]
    whole: Body = ()
    for unit in in_order(func, units):
        whole += made[unit] if unit in made else (every[unit[0]].nest,)
    for b in reversed(outer):
        whole = (Alloc(b, whole),)
    return replace(func, body=whole)


def _in_place(found: Part, made: Func, taken: UsedNames) -> Body:
    """The nests of `made` under the names of the program, or new ones."""
    new = Renaming()
    for a in made.args:
        new.buffers[a.buffer.name] = replace(a.buffer, name=found.original[a.buffer.name])
    for s in statements(made.body):
        match s:
            case Alloc(b):
                new.buffers[b.name] = replace(b, name=taken.name(found.original.get(b.name, b.name)))
            case Loop(var):
                new.loops[var] = taken.name(found.original.get(var, var))
            case Store(label) | Reduce(label) if label not in new.labels:
                new.labels[label] = taken.label(found.labels.get(label, label))
            case _:
                pass
    return tuple(rename_symbols(s, new) for s in made.body)


# ---------------------------------------------------------------- nests


def depends(first: Stmt, second: Stmt) -> bool:
    """Whether two nests, one after the other, touch memory that one of them writes."""
    return not (
        stored_buffers(first).isdisjoint(accessed_buffers(second))
        and loaded_buffers(first).isdisjoint(stored_buffers(second))
    )


@dataclass(frozen=True)
class Nest:
    """A nest of a program: its stages, the buffers that it reads and writes, and the nests before it that it needs."""

    stages: tuple[str, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    needs: frozenset[int]


@memoized
def nests(func: Func) -> tuple[Nest, ...]:
    """The nests of `func`, in order, by what they touch."""
    every, out = [t.nest for t in top_level_nests(func)], list[Nest]()
    for n, s in enumerate(every):
        stages = tuple(dict.fromkeys(x.label for x in statements((s,)) if isinstance(x, Store | Reduce)))
        needs = frozenset(k for k in range(n) if depends(every[k], s))
        out.append(Nest(stages, loaded_buffers(s), stored_buffers(s), needs))
    return tuple(out)


def in_order(func: Func, units: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those sets of nests, which are all there are, in an order in which each has what it needs, else as they stand.

    ScheduleError where two of them wait for one another.
    """
    every, left, out = nests(func), sorted(units), list[tuple[int, ...]]()
    unit_of = {n: unit for unit in left for n in unit}
    waits = {unit: {unit_of[k] for n in unit for k in every[n].needs} - {unit} for unit in left}
    while left:
        ready = next((unit for unit in left if waits[unit].isdisjoint(left)), None)
        if ready is None:
            stuck = max(left, key=len)
            other = next(iter(sorted(waits[stuck].intersection(left))))
            first, second = (join_names(every[n].stages[0] for n in unit) for unit in (stuck, other))
            raise ScheduleError(
                f"{first} would wait for {second}, which waits for them", suggestion="take it along, or leave one out"
            )
        left.remove(ready)
        out.append(ready)
    return out


def _chosen(func: Func, stages: Iterable[str]) -> tuple[int, ...]:
    wanted, index = set(stages), _index(func)
    if missing := sorted(wanted - index.labels.keys()):
        known = join_names(sorted(labels_of(func)))
        raise ScheduleError(f"there is no stage {missing[0]!r}; there are {known}", suggestion="one of these")
    if not wanted:
        raise ScheduleError("no stage is named", suggestion="name those that are meant")
    return tuple(sorted({n for x in wanted for n in index.labels[x]}))


@memoized
def _allocated(func: Func) -> list[Buffer]:
    """What is allocated around the nests of `func`, outer ones first."""
    around = {id(t.around): t.around for t in top_level_nests(func)}  # most nests share one
    return list(
        {a.buffer.name: a.buffer for allocs in around.values() for a in allocs if isinstance(a, Alloc)}.values()
    )


@dataclass(frozen=True)
class _Index:
    """Which nests of a program have each label, touch each buffer, and write it; what is no array of its parameters,
    its arrays and what is allocated around its nests, each by name with its place; and what was asked of writers."""

    labels: dict[str, list[int]]
    touching: dict[str, set[int]]
    writing: dict[str, set[int]]
    others: tuple[Size, ...]
    arrays: dict[str, tuple[int, Arg]]
    allocated: dict[str, tuple[int, Buffer]]
    filled: dict[tuple[str, int], bool]


@memoized
def _index(func: Func) -> _Index:
    others = tuple(p for p in func.params if not isinstance(p, Arg))
    arrays = {a.buffer.name: (n, a) for n, a in enumerate(func.args)}
    found = _Index({}, {}, {}, others, arrays, {b.name: (n, b) for n, b in enumerate(_allocated(func))}, {})
    for t in top_level_nests(func):
        for label in labels_in(t.nest):
            found.labels.setdefault(label, []).append(t.nth)
        for of, names in ((found.touching, accessed_buffers(t.nest)), (found.writing, stored_buffers(t.nest))):
            for name in names:
                of.setdefault(name, set()).add(t.nth)
    return found


def _extracted(func: Func, chosen: Sequence[int]) -> Func:
    every, index, own = top_level_nests(func), _index(func), set(chosen)
    mine = [every[n].nest for n in chosen]
    read, written, touched = (
        frozenset[str]().union(*map(f, mine)) for f in (loaded_buffers, stored_buffers, accessed_buffers)
    )
    elsewhere = {x for x in touched if not index.touching[x] <= own}
    filled = {x for x in touched if not index.writing.get(x, set()) <= own}

    def access(name: str) -> Access:
        """What another nest has filled in part has to stay; of what is only read, some may hold nothing."""
        if name not in written:
            return "in" if _is_filled_before(func, chosen, name) else "out"
        return "inout" if name in filled or (name in read and _first_reads(mine, name)) else "out"

    arrays = sorted((index.arrays[x] for x in index.arrays.keys() & touched), key=itemgetter(0))
    args = [Arg(a.buffer, _access_of(a, written, access)) for _, a in arrays]
    inner: list[Buffer] = []
    for _, b in sorted((index.allocated[x] for x in index.allocated.keys() & touched), key=itemgetter(0)):
        if b.name not in elsewhere:
            inner.append(b)
        elif b.scope != "global" or b.layout is not None:
            raise ScheduleError(f"{b.name} is {b.scope} memory that other nests share", suggestion="take them along")
        else:
            args.append(Arg(b, access(b.name)))
    args.sort(key=lambda a: a.access != "in")
    body: Body = tuple(mine)
    for b in reversed(inner):
        body = (Alloc(b, body),)
    return replace(func, params=(*index.others, *args), body=body)


def _access_of(a: Arg, written: Set[str], access: Callable[[str], Access]) -> Access:
    """How nests that write the buffers `written` take an argument of the program; `access` says it of its results."""
    if a.access == "in" or (a.access == "inout" and a.buffer.name not in written):
        return "in"
    return "inout" if a.access == "inout" else access(a.buffer.name)


def _is_filled_before(func: Func, chosen: Sequence[int], buffer: str) -> bool:
    """Whether nests before those that are chosen are seen to write all of `buffer`, which these only read."""
    every, index = top_level_nests(func), _index(func)
    first = next(n for n in chosen if buffer in accessed_buffers(every[n].nest))
    writers = [n for n in sorted(index.writing.get(buffer, set())) if n < first]
    if (key := (buffer, len(writers))) not in index.filled:
        index.filled[key] = _is_filled_by(func, [every[n] for n in writers], buffer)
    return index.filled[key]


def _is_filled_by(func: Func, writers: Sequence[TopLevelNest], buffer: str) -> bool:
    """Whether these nests are seen to write all of `buffer`."""
    if any(fills(p, b) for t in writers for p in t.places for b in p.stmt.buffers if b.name == buffer):
        return True
    within = {id(t.nest) for t in writers}
    made = [s for s in statements_in(func, lambda nest: id(nest) in within) if buffer in s.writes]
    (b,) = {x for s in made for x in s.place.stmt.buffers if x.name == buffer} or {None}
    return b is not None and is_written_whole(func, b, made)


def _first_reads(nests: Sequence[Stmt], buffer: str) -> bool:
    """Whether `buffer` may be read before all of it is written."""
    first = next(s for s in nests if buffer in accessed_buffers(s))
    return buffer in loaded_buffers(first)
