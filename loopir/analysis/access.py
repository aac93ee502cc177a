"""What each statement of a nest touches, when, and under which conditions: the input of the dependence analysis.

A reduction with `init` appears twice: its stores of `init`, which run before its outermost `over` loop
(`loopir.ir.inits`), and its folds. When an instance runs is a vector of positions in statement lists and loop
variables, compared lexicographically.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from loopir.ir.grammar import (
    THREAD_AXES,
    Add,
    Alloc,
    And,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    Index,
    Int,
    Load,
    Loop,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Or,
    Reduce,
    Select,
    Store,
    Var,
    conjuncts,
)
from loopir.ir.inits import outermost
from loopir.ir.walk import Place, children, places, variables

When = tuple[int | str, ...]
Renewed = dict[str, tuple[str, ...]]
"""By buffer, the loops each iteration of which allocates it anew."""


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of `buffer[at]`, done where `conds` hold; `private` are the loops that renew the buffer.

    An index that comes from memory is None. `conds` leaves out what comes from memory; then `maybe` says so.
    """

    buffer: str
    at: tuple[Index | None, ...]
    write: bool
    conds: tuple[Cond, ...]
    private: tuple[str, ...]
    fold: bool = False
    maybe: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """All instances of one leaf statement (`init`: of a reduction's initial stores).

    Extents and conditions from memory are None and left out: then there may be fewer instances, and `maybe` says so.
    """

    label: str
    init: bool
    dims: tuple[str, ...]
    extents: tuple[Index | None, ...]
    conds: tuple[Cond, ...]
    maybe: bool
    when: When
    accesses: tuple[Access, ...]

    @property
    def key(self) -> tuple[str, bool]:
        return self.label, self.init

    @property
    def name(self) -> str:
        return f"{self.label} (its init)" if self.init else self.label


_cache: dict[int, tuple[Func, tuple[Statement, ...]]] = {}


def statements_of(func: Func) -> tuple[Statement, ...]:
    """Every statement of `func` in textual order, initial stores before their folds."""
    found = _cache.get(id(func))
    if found is not None and found[0] is func:
        return found[1]
    result = tuple(s for n, p in enumerate(places(func.body)) for s in _statements(n, p))
    if len(_cache) >= 32:
        _cache.pop(next(iter(_cache)))
    _cache[id(func)] = (func, result)
    return result


def times_of(func: Func) -> dict[tuple[str, bool], When]:
    """When each statement of `func` runs, by its key."""
    out: dict[tuple[str, bool], When] = {}
    for n, p in enumerate(places(func.body)):
        out[p.stmt.label, False] = _when(p)
        if isinstance(p.stmt, Reduce) and p.stmt.init is not None:
            out[p.stmt.label, True] = _when_init(n, p, p.stmt)
    return out


def _statements(nth: int, p: Place) -> Iterator[Statement]:
    stmt = p.stmt
    renewed = {s.buffer.name: _outside(p, s) for s in p.around if isinstance(s, Alloc)}
    conds = tuple(t for c, held in p.conds() for t in (conjuncts(c) if held else (Not(c),)))

    def control(but: set[str]) -> tuple[Access, ...]:
        asked = (n for n in (*(x.extent for x in p.loops), *conds) if not sees(n) and not variables(n) & but)
        return tuple(a for n in asked for a in _reads(n, (), renewed))

    where = tuple(a for x in stmt.at if not sees(x) for a in _reads(x, (), renewed))
    if isinstance(stmt, Store):
        write = _access(stmt.buffer, stmt.at, (), renewed, write=True)
        reads = (*_reads(stmt.value, (), renewed), *where)
        yield _statement(stmt.label, False, p.loops, conds, _when(p), (*control(set()), *reads, write))
        return
    if stmt.init is not None:
        stores = tuple(_access(b, stmt.at, (), renewed, write=True) for b in stmt.buffers)
        given = tuple(a for v in stmt.init for a in _reads(v, (), renewed))
        over = set(stmt.over)
        loops = tuple(x for x in p.loops if x.var not in over)
        kept = tuple(c for c in conds if not variables(c) & over)
        accesses = (*control(over), *where, *given, *stores)
        yield _statement(stmt.label, True, loops, kept, _when_init(nth, p, stmt), accesses, over)
    reads = tuple(a for v in stmt.values for a in _reads(v, (), renewed))
    folds = tuple(_access(b, stmt.at, (), renewed, write=w, fold=True) for b in stmt.buffers for w in (False, True))
    yield _statement(stmt.label, False, p.loops, conds, _when(p), (*control(set()), *where, *reads, *folds))


def _statement(
    label: str, init: bool, loops: Sequence[Loop], conds: Sequence[Cond], when: When, accesses: tuple[Access, ...],
    gone: Set[str] = frozenset(),
) -> Statement:  # fmt: skip
    """An extent that speaks of a loop in `gone` is as unknown as one from memory."""
    extents = tuple(x.extent if sees(x.extent) and not (gone and variables(x.extent) & gone) else None for x in loops)
    seen = tuple(c for c in conds if sees(c))
    maybe = None in extents or len(seen) < len(conds)
    return Statement(label, init, tuple(x.var for x in loops), extents, seen, maybe, when, accesses)


def _access(
    b: Buffer, at: Sequence[Index], conds: Sequence[Cond], renewed: Renewed, *, write: bool = False, fold: bool = False
) -> Access:
    seen = tuple(c for c in conds if sees(c))
    ats = tuple(x if sees(x) else None for x in at)
    return Access(b.name, ats, write, seen, renewed.get(b.name, ()), fold, len(seen) < len(conds))


def _outside(p: Place, alloc: Alloc) -> tuple[str, ...]:
    """The loops around `alloc` whose iterations have memory of their own: for shared memory, not those of threads."""
    out: list[str] = []
    for s in p.around:
        if s is alloc:
            break
        if isinstance(s, Loop) and not (alloc.buffer.scope == "shared" and s.kind in THREAD_AXES):
            out.append(s.var)
    return tuple(out)


def _when(p: Place) -> When:
    """Positions doubled plus one, so that initial stores fit in front."""
    out: list[int | str] = []
    for n, s in zip(p.path, (*p.around, p.stmt), strict=True):
        out.append(2 * n + 1)
        if isinstance(s, Loop):
            out.append(s.var)
    return tuple(out)


def _when_init(nth: int, p: Place, stmt: Reduce) -> When:
    """Before the outermost `over` loop, the initial stores of each statement in a nest of their own: the `nth`."""
    first = outermost(p)
    out: list[int | str] = []
    inside = False
    for n, s in zip(p.path, (*p.around, p.stmt), strict=True):
        if s is first:
            out += (2 * n, nth)
            inside = True
        elif not inside:
            out.append(2 * n + 1)
        if isinstance(s, Loop) and s.var not in stmt.over:
            out.append(s.var)
    return tuple(out)


def _reads(n: Node, conds: tuple[Cond, ...], renewed: Renewed) -> Iterator[Access]:
    """The loads under `n`, each with the conditions of the Selects around it."""
    match n:
        case Load(buffer, at):
            yield _access(buffer, at, conds, renewed)
            for x in at:
                if not sees(x):
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


def sees(n: Node) -> bool:
    """Whether analysis sees all of an index or condition: no part of it comes from memory."""
    match n:
        case Int() | Var():
            return True
        case Add(a, b) | Mul(a, b) | FloorDiv(a, b) | Mod(a, b) | Min(a, b) | Max(a, b) | Cmp(_, a, b):
            return sees(a) and sees(b)
        case And(terms) | Or(terms):
            return all(map(sees, terms))
        case Not(term):
            return sees(term)
        case _:
            return False
