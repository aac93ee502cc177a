"""The accesses of each statement, with their times and conditions: the input of dependence analysis.

A reduction with `init` appears twice: its stores of `init`, which run before its outermost `over` loop
(`loopir.ir.traverse.reduction_init`), and its folds. When an instance runs is a vector of positions in statement
lists and loop variables, compared lexicographically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from loopir.ir.grammar import (
    BLOCK_AXES,
    THREAD_AXES,
    Add,
    Alloc,
    Buffer,
    Cmp,
    Cond,
    Func,
    Index,
    Int,
    Kernel,
    Loop,
    Node,
    Not,
    Reduce,
    Store,
    Var,
    conjuncts,
    record,
)
from loopir.ir.traverse.memo import cached, memoized
from loopir.ir.traverse.reduction_init import reduction_start_loop
from loopir.ir.traverse.walk import (
    StmtPath,
    Which,
    accessed_buffers,
    enclosing_nest,
    free_vars,
    guarded_loads as guarded_loads,
    is_affine_visible as is_affine_visible,
    leaf_writes,
    loaded_buffers,
    replace,
    top_level_nests_in,
)

When = tuple[int | str, ...]
_NONE: frozenset[str] = frozenset()
Renewed = dict[str, tuple[str, ...]]
"""By buffer, the loops each iteration of which allocates it anew."""


AccessFamilies = Mapping[str, "Sequence[Sequence[Access]]"]
"""By buffer, accesses, those together that differ in nothing but a constant at the end of their subscripts."""


@record
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
    atomic: str = ""
    """The monoid that it is an atomic update by, if it is one."""


@dataclass(frozen=True)
class Statement:
    """All instances of one leaf statement (`init`: of a reduction's initial stores), the `nth` of its nest.

    What is said of them is worked out when it is asked for.
    """

    place: StmtPath
    nth: int
    init: bool
    under: int = 0
    """Allocations around all of the Func: they tell nothing of when it runs."""

    @property
    def label(self) -> str:
        return self.place.stmt.label

    @property
    def over(self) -> tuple[str, ...]:
        """The loops that these folds of a reduction are over."""
        stmt = self.place.stmt
        return stmt.over if isinstance(stmt, Reduce) and not self.init else ()

    @property
    def key(self) -> tuple[str, bool]:
        return self.label, self.init

    @property
    def name(self) -> str:
        return f"{self.label} (its init)" if self.init else self.label

    @cached
    def gone(self) -> frozenset[str]:
        """The loops that a reduction starts outside of."""
        stmt = self.place.stmt
        return frozenset(stmt.over) if self.init and isinstance(stmt, Reduce) else _NONE

    @cached
    def loops(self) -> tuple[Loop, ...]:
        every = self.place.loops
        return tuple([x for x in every if x.var not in self.gone]) if self.gone else every

    @cached
    def dims(self) -> tuple[str, ...]:
        return tuple([x.var for x in self.loops])

    @cached
    def extents(self) -> tuple[Index | None, ...]:
        """None for one that comes from memory, or speaks of a loop in `gone`: then there may be fewer instances."""
        return tuple(x.extent if self._sees(x.extent) else None for x in self.loops)

    @cached
    def guards(self) -> tuple[Cond, ...]:
        """The conditions around, but for those that speak of a loop in `gone`."""
        given = (t for c, held in self.place.conds() for t in (conjuncts(c) if held else (Not(c),)))
        return tuple(c for c in given if not (self.gone and free_vars(c) & self.gone))

    @cached
    def conds(self) -> tuple[Cond, ...]:
        """The guards that can be seen."""
        return tuple(c for c in self.guards if is_affine_visible(c))

    @cached
    def equal(self) -> Mapping[Index, Index]:
        """Indices that the guards say are a variable."""
        found: dict[Index, Index] = {}
        for c in self.conds:
            if isinstance(c, Cmp) and (c.op == "==" or (c.op == "<=" and Cmp("<=", c.b, c.a) in self.conds)):
                found.update({a: b for a, b in ((c.a, c.b), (c.b, c.a)) if isinstance(b, Var)})
        return found

    @cached
    def maybe(self) -> bool:
        """Whether something that is not seen decides, too, if an instance runs."""
        return None in self.extents or len(self.conds) < len(self.guards)

    @cached
    def when(self) -> When:
        return _when_init(self.nth, self.place, self.under) if self.init else _when(self.place, self.under)

    @cached
    def as_s(self) -> When:
        """When an instance runs, with its loops as the dimensions that they are for the first of two."""
        return tuple([x if isinstance(x, int) else f"s.{x}" for x in self.when])

    @cached
    def as_t(self) -> When:
        """The same for the second of two."""
        return tuple([x if isinstance(x, int) else f"t.{x}" for x in self.when])

    @cached
    def renewed(self) -> Renewed:
        return _renewed(self.place)

    @cached
    def open(self) -> bool:
        """Whether what it does is told by the statement alone: nothing around renews memory, or is read from it."""
        return not self.renewed and not self.maybe

    @cached
    def accesses(self) -> tuple[Access, ...]:
        """What an instance does, in order."""
        if self.open:
            return (_starts if self.init else _fold_accesses)(self.place.stmt)
        return (*_control(self), *_accesses(self.place.stmt, self.init, self.renewed))

    @cached
    def alike(self) -> AccessFamilies:
        """`accesses` by buffer, those together that differ in nothing but a constant at the end of their subscripts."""
        if not self.open:
            return _same_accesses(self.accesses)
        return (_starts_alike if self.init else _folds_alike)(self.place.stmt)

    @cached
    def writes(self) -> frozenset[str]:
        """The buffers that are written."""
        return leaf_writes(self.place.stmt)

    @cached
    def touches(self) -> frozenset[str]:
        """The buffers that are read or written; found sooner than `accesses`."""
        return self.writes | self.reads

    @cached
    def reads(self) -> frozenset[str]:
        """The buffers that are loaded from, for its value or to know whether it runs; not what it folds into."""
        control = (*(x.extent for x in self.place.loops), *self.guards)
        return loaded_buffers(self.place.stmt).union(*[loaded_buffers(x) for x in control if not is_affine_visible(x)])

    def widened(self, by: Mapping[str, int]) -> Statement:
        """This statement with dimensions beside its loops, from 0 on and so long, in which its accesses may move."""
        new = Statement(self.place, self.nth, self.init, self.under)
        known = {"conds": self.conds, "maybe": self.maybe, "when": self.when, "gone": self.gone}
        extents = (*self.extents, *map(Int, by.values()))
        vars(new).update(known, dims=(*self.dims, *by), extents=extents)
        return new

    def uses(self, names: Set[str]) -> bool:
        """Whether it touches one of the buffers called `names`; its nest says sooner that it does not."""
        return not names.isdisjoint(accessed_buffers(enclosing_nest(self.place))) and not names.isdisjoint(self.touches)

    def meets(self, other: Statement) -> bool:
        """Whether the two touch one buffer, and one of them writes it."""
        return not (self.writes.isdisjoint(other.touches) and self.touches.isdisjoint(other.writes))

    def folds_with(self, other: Statement) -> bool:
        """Whether both fold into the same buffers by one monoid, so that neither order of two folds is another."""
        one, two = self.place.stmt, other.place.stmt
        if self.init or other.init or not (isinstance(one, Reduce) and isinstance(two, Reduce)):
            return False
        same = [b.name for b in one.buffers] == [b.name for b in two.buffers]
        return one is two or (same and one.monoid == two.monoid)

    def _sees(self, extent: Index) -> bool:
        return is_affine_visible(extent) and not (self.gone and free_vars(extent) & self.gone)


@memoized
def statements_of(func: Func) -> tuple[Statement, ...]:
    """Every statement of `func` in textual order, initial stores before their folds."""
    return tuple(statements_in(func, lambda _: True))


def statements_in(func: Func, which: Which) -> list[Statement]:
    """The statements of those nests of `func` that are asked for, in textual order, as `statements_of` has them."""
    found = _found(func)
    out: list[Statement] = []
    for top in top_level_nests_in(func, which):
        n = top.nth
        if n not in found.by_nest:
            found.by_nest[n] = [s for k, p in enumerate(top.places) for s in _statements(k, p, found.under)]
        out += found.by_nest[n]
    return out


@dataclass(frozen=True, slots=True)
class _Found:
    """The allocations around all of a Func, and of its nests, by number, the statements of those asked for so far."""

    under: int
    by_nest: dict[int, list[Statement]]


@memoized
def _found(func: Func) -> _Found:
    under = 0
    body = func.body
    while len(body) == 1 and isinstance(alloc := body[0], Alloc):
        under, body = under + 1, alloc.body
    return _Found(under, {})


def _statements(nth: int, p: StmtPath, under: int) -> list[Statement]:
    folds = Statement(p, nth, False, under)
    starts = isinstance(p.stmt, Reduce) and p.stmt.init is not None
    return [Statement(p, nth, True, under), folds] if starts else [folds]


def conflicting_pairs(
    statements: Sequence[Statement], moved: Callable[[Statement], bool] = lambda s: True
) -> Iterator[tuple[Statement, Statement]]:
    """Every two that touch one buffer, one writing it, each in turn the first; a statement also with itself.

    One of the two at least is `moved`.
    """
    touching: dict[str, list[int]] = {}
    writing: dict[str, list[int]] = {}
    for n, s in enumerate(statements):
        for b in accessed_buffers(enclosing_nest(s.place)):  # more than it touches, and known at once
            touching.setdefault(b, []).append(n)
        for b in s.writes:
            writing.setdefault(b, []).append(n)
    pairs: set[tuple[int, int]] = set()
    for n, s in enumerate(statements):
        if moved(s):
            near = [touching.get(b, ()) for b in s.writes] + [writing.get(b, ()) for b in s.touches]
            pairs.update(pair for m in chain.from_iterable(near) for pair in ((n, m), (m, n)))
    yield from ((statements[n], statements[m]) for n, m in sorted(pairs) if statements[n].meets(statements[m]))


@memoized
def _fold_accesses(stmt: Store | Reduce) -> tuple[Access, ...]:
    """The accesses of a statement, without those of the initialization of a reduction."""
    return tuple(_accesses(stmt, False, {}))


@memoized
def _folds_alike(stmt: Store | Reduce) -> AccessFamilies:
    return _same_accesses(_fold_accesses(stmt))


@memoized
def _starts(stmt: Store | Reduce) -> tuple[Access, ...]:
    """The accesses of the initialization of a reduction."""
    return tuple(_accesses(stmt, True, {}))


@memoized
def _starts_alike(stmt: Store | Reduce) -> AccessFamilies:
    return _same_accesses(_starts(stmt))


def _same_accesses(accesses: Iterable[Access]) -> AccessFamilies:
    found: dict[str, dict[object, dict[object, Access]]] = {}
    for a in accesses:
        stems: list[object] = []
        constants: list[int] = []
        for x in a.at:
            more = isinstance(x, Add) and isinstance(x.b, Int)
            stem = x.a if more else x  # type: ignore[union-attr]
            stems.append(stem.name if isinstance(stem, Var) else stem)  # a string is told apart sooner
            constants.append(x.b.value if more else 0)  # type: ignore[union-attr]
        kind = *stems, a.write, a.conds, a.fold, a.maybe, a.atomic
        found.setdefault(a.buffer, {}).setdefault(kind, {}).setdefault(tuple(constants), a)
    return {name: [[*several.values()] for several in kinds.values()] for name, kinds in found.items()}


def _control(s: Statement) -> Iterator[Access]:
    """What is read to know whether an instance runs."""
    for n in (*(x.extent for x in s.place.loops), *s.guards):
        if not is_affine_visible(n) and not (s.gone and free_vars(n) & s.gone):
            yield from _reads(n, s.renewed)


def _accesses(stmt: Store | Reduce, init: bool, renewed: Renewed) -> Iterator[Access]:
    if isinstance(stmt, Store):
        yield from _reads(stmt.value, renewed)
    for x in stmt.at:
        if not is_affine_visible(x):
            yield from _reads(x, renewed)
    if isinstance(stmt, Store):
        yield _access(stmt.buffer, stmt.at, (), renewed, write=True)
        return
    for v in (stmt.init or ()) if init else stmt.values:
        yield from _reads(v, renewed)
    for b in stmt.buffers:
        if init:
            yield _access(b, stmt.at, (), renewed, write=True)
            continue
        step = stmt.monoid.name if stmt.atomic else ""
        for write in (False, True):
            yield replace(_access(b, stmt.at, (), renewed, write=write, fold=True), atomic=step)


def _access(
    b: Buffer, at: Sequence[Index], conds: Sequence[Cond], renewed: Renewed, *, write: bool = False, fold: bool = False
) -> Access:
    seen = tuple([c for c in conds if is_affine_visible(c)]) if conds else ()
    ats = tuple([x if is_affine_visible(x) else None for x in at])
    return Access(b.name, ats, write, seen, renewed.get(b.name, ()), fold, len(seen) < len(conds))


def _renewed(p: StmtPath) -> Renewed:
    """The allocations around in loops whose iterations have memory of their own.

    For shared memory, threads do not; and in a kernel, where it is one memory for a block, no loop of a thread does.
    """
    out: Renewed = {}
    around: list[Loop] = []
    kernel: bool | None = None
    for s in p.around:
        kind = type(s)
        if kind is Loop:
            around.append(s)  # type: ignore[arg-type]
        elif kind is Alloc and around:
            assert isinstance(s, Alloc)
            kept = around
            if s.buffer.scope == "shared":
                kernel = any(type(x) is Kernel for x in p.around) if kernel is None else kernel
                kept = [x for x in around if (x.kind in BLOCK_AXES if kernel else x.kind not in THREAD_AXES)]
            out[s.buffer.name] = tuple([x.var for x in kept])
    return out


def _when(p: StmtPath, under: int) -> When:
    """Positions doubled plus one, so that initial stores fit in front."""
    out: list[int | str] = []
    for n, s in zip(p.path[under:], (*p.around[under:], p.stmt), strict=True):
        out.append(2 * n + 1)
        if isinstance(s, Loop):
            out.append(s.var)
    return tuple(out)


def _when_init(nth: int, p: StmtPath, under: int) -> When:
    """Before the outermost `over` loop, the initial stores of each statement in a nest of their own: the `nth`."""
    assert isinstance(p.stmt, Reduce)
    first = reduction_start_loop(p)
    out: list[int | str] = []
    inside = False
    for n, s in zip(p.path[under:], (*p.around[under:], p.stmt), strict=True):
        if s is first:
            out += (2 * n, nth)
            inside = True
        elif not inside:
            out.append(2 * n + 1)
        if isinstance(s, Loop) and s.var not in p.stmt.over:
            out.append(s.var)
    return tuple(out)


def _reads(n: Node, renewed: Renewed) -> Iterator[Access]:
    """The loads under `n`, each with the conditions of the Selects around it."""
    for load, conds in guarded_loads(n):
        yield _access(load.buffer, load.at, conds, renewed)
