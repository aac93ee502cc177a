"""Whether what a store copies is written: what nothing has written may be copied, and not be computed with."""

from __future__ import annotations

from collections.abc import Set

from loopir.analysis.dataflow.coverage import is_filled_by_earlier_nest
from loopir.analysis.dataflow.reaching_writes import is_written_before
from loopir.analysis.dependence.access import statements_of
from loopir.ir.grammar import Alloc, Cast, Func, Load, Loop, Reduce, Store, Value
from loopir.ir.traverse.walk import StmtPath, leaf_paths_of, path_to


def copied(v: Value) -> Load | None:
    """The element that `v` is, converted or not; None if it is anything else."""
    inner = v.value if isinstance(v, Cast) else v
    return inner if isinstance(inner, Load) else None


def is_filled(func: Func, stmt: Store | Reduce, name: str) -> bool:
    """Whether one statement has written each element of the buffer `name` before `stmt` reads it."""
    if is_filled_by_earlier_nest(func, stmt.label, name):
        return True
    every = statements_of(func)
    reader, *more = (s for s in every if s.label == stmt.label and not s.init)
    if more:
        return False
    around = loops_around_alloc(func, reader.place, name)
    made = [(s, b) for s in every for b in s.accesses if b.buffer == name and b.write and not b.fold]
    mine = [a for a in reader.accesses if a.buffer == name and not a.write]
    return all(any(is_written_before(func, (reader, a), one, around) for one in made) for a in mine)


def copies_what_is_written(func: Func, store: Store, above: Set[str] = frozenset()) -> bool:
    """Whether all that `store` copies is seen to be written before, be it by copies in turn, which fill what `above`
    names."""
    load = copied(store.value)
    assert load is not None
    source = load.buffer
    if any(a.buffer == source and a.access != "out" for a in func.args):
        return True
    if source.name in above or not is_filled(func, store, source.name):
        return False
    writers = (p.stmt for p in leaf_paths_of(func) if source in p.stmt.buffers)
    copies = [s for s in writers if isinstance(s, Store) and copied(s.value) is not None]
    return all(copies_what_is_written(func, s, above | {source.name}) for s in copies)


def loops_around_alloc(func: Func, place: StmtPath, name: str) -> list[str]:
    """The loops that the buffer `name`, which is allocated around `place`, is allocated in."""
    alloc = next((s for s in place.around if isinstance(s, Alloc) and s.buffer.name == name), None)
    return [s.var for s in path_to(func, alloc) if isinstance(s, Loop)] if alloc is not None else []
