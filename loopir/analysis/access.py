"""What each statement of a nest touches, when, and under which conditions: the input of the dependence analysis.

A reduction with `init` appears twice: its stores of `init`, which run before its outermost `over` loop
(`loopir.ir.inits`), and its folds. When an instance runs is a vector of positions in statement lists and loop
variables, compared lexicographically.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopir.ir.grammar import (
    THREAD_AXES,
    Alloc,
    Buffer,
    Cond,
    Func,
    Index,
    Load,
    Loop,
    Node,
    Not,
    Opaque,
    Reduce,
    Select,
    Store,
    Truth,
    conjuncts,
)
from loopir.ir.inits import outermost
from loopir.ir.walk import Place, children, nodes, places, variables


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of `buffer[at]`, done where `conds` hold; `private` are the loops that renew the buffer."""

    buffer: str
    at: tuple[Index, ...]
    write: bool
    conds: tuple[Cond, ...]
    private: tuple[str, ...]
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """All instances of one leaf statement (`init`: of a reduction's initial stores)."""

    label: str
    init: bool
    loops: tuple[Loop, ...]
    conds: tuple[Cond, ...]
    when: tuple[int | str, ...]
    accesses: tuple[Access, ...]

    @property
    def key(self) -> tuple[str, bool]:
        return self.label, self.init

    @property
    def name(self) -> str:
        return f"{self.label} (its init)" if self.init else self.label

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(x.var for x in self.loops)


_cache: dict[int, tuple[Func, tuple[Statement, ...]]] = {}


def statements_of(func: Func) -> tuple[Statement, ...]:
    """Every statement of `func` in textual order, initial stores before their folds."""
    found = _cache.get(id(func))
    if found is not None and found[0] is func:
        return found[1]
    result = tuple(s for p in places(func.body) for s in _statements(p))
    if len(_cache) >= 32:
        _cache.pop(next(iter(_cache)))
    _cache[id(func)] = (func, result)
    return result


def _statements(p: Place) -> Iterator[Statement]:
    stmt = p.stmt
    renewed = {s.buffer.name: _outside(p, s) for s in p.around if isinstance(s, Alloc)}
    conds = tuple(t for c, held in p.conds() for t in (conjuncts(c) if held else (Not(c),)))
    control = tuple(
        a for n in (*(x.extent for x in p.loops), *(c for c, _ in p.conds())) for a in _reads(n, (), renewed)
    )
    if isinstance(stmt, Store):
        write = Access(stmt.buffer.name, stmt.at, True, (), renewed.get(stmt.buffer.name, ()))
        reads = (*_reads(stmt.value, (), renewed), *(a for x in stmt.at for a in _reads(x, (), renewed)))
        yield Statement(stmt.label, False, p.loops, conds, _when(p), (*control, *reads, write))
        return
    targets = tuple((b, renewed.get(b.name, ())) for b in stmt.buffers)
    where = tuple(a for x in stmt.at for a in _reads(x, (), renewed))
    if stmt.init is not None:
        stores = tuple(Access(b.name, stmt.at, True, (), private) for b, private in targets)
        given = tuple(a for v in stmt.init for a in _reads(v, (), renewed))
        loops = tuple(x for x in p.loops if x.var not in stmt.over)
        kept = tuple(c for c in conds if not variables(c) & set(stmt.over))
        yield Statement(stmt.label, True, loops, kept, _when_init(p, stmt), (*control, *where, *given, *stores))
    reads = tuple(a for v in stmt.values for a in _reads(v, (), renewed))
    folds = tuple(Access(b.name, stmt.at, w, (), private, True) for b, private in targets for w in (False, True))
    yield Statement(stmt.label, False, p.loops, conds, _when(p), (*control, *where, *reads, *folds))


def _outside(p: Place, alloc: Alloc) -> tuple[str, ...]:
    """The loops around `alloc` whose iterations have memory of their own: for shared memory, not those of threads."""
    out: list[str] = []
    for s in p.around:
        if s is alloc:
            break
        if isinstance(s, Loop) and not (alloc.buffer.scope == "shared" and s.kind in THREAD_AXES):
            out.append(s.var)
    return tuple(out)


def _when(p: Place) -> tuple[int | str, ...]:
    """Positions doubled plus one, so that initial stores fit in front."""
    out: list[int | str] = []
    for n, s in zip(p.path, (*p.around, p.stmt), strict=True):
        out.append(2 * n + 1)
        if isinstance(s, Loop):
            out.append(s.var)
    return tuple(out)


def _when_init(p: Place, stmt: Reduce) -> tuple[int | str, ...]:
    first = outermost(p)
    out: list[int | str] = []
    inside = False
    for n, s in zip(p.path, (*p.around, p.stmt), strict=True):
        if s is first:
            out.append(2 * n)
            inside = True
        elif not inside:
            out.append(2 * n + 1)
        if isinstance(s, Loop) and s.var not in stmt.over:
            out.append(s.var)
    return tuple(out)


def _reads(n: Node, conds: tuple[Cond, ...], renewed: dict[str, tuple[str, ...]]) -> Iterator[Access]:
    """The loads under `n`, each with the conditions of the Selects around it."""
    match n:
        case Load(buffer, at):
            yield Access(buffer.name, at, False, conds, renewed.get(buffer.name, ()))
            for x in at:
                yield from _reads(x, conds, renewed)
        case Select(c, a, b):
            yield from _reads(c, conds, renewed)
            yield from _reads(a, (*conds, *conjuncts(c)), renewed)
            yield from _reads(b, (*conds, Not(c)), renewed)
        case Buffer():
            pass
        case _:
            for child in children(n):
                yield from _reads(child, conds, renewed)


def sees(ix: Node) -> bool:
    """Whether analysis sees all of an index or condition: no part of it comes from memory."""
    return not any(isinstance(x, Opaque | Truth) for x in nodes(ix))
