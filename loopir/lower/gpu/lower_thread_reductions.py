"""Lower reductions over threads to partial results and a reduction tree.

Every thread folds its own iterations into registers; a tree over the threads (`loopir.lower.gpu.thread_reductions`)
folds these; and one thread folds the total into the element (`store_totals`: over its initial value, if that is stored
right before), or all of them where each has a copy. The tree needs all
threads, so guards that depend on the thread are moved inwards, around single statements. Consecutive loops that fold
into the same elements, such as full tiles and a tail, share one tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from loopir.errors import LowerError
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    TRUE,
    Alloc,
    Body,
    Buffer,
    Cond,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    Kernel,
    Load,
    Loop,
    Node,
    Not,
    Reduce,
    Stmt,
    Store,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    StmtPath,
    bodies,
    child_stmts,
    free_vars,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    map_body,
    map_kernels,
    map_stmts,
    rewrite,
    statements,
    substitute,
    take_name,
    taken_names,
)
from loopir.lower.gpu.store_totals import store_totals
from loopir.lower.gpu.thread_reductions import Group, Threads
from loopir.lower.target import Target


def lower_thread_reductions(func: Func, target: Target) -> Func:
    """`func` with every reduction over a thread axis split: each thread's part, the tree, the fold of the total."""
    taken = taken_names(func)
    return map_kernels(func, lambda s: _kernel(s, taken))


def _kernel(kernel: Kernel, taken: set[str]) -> Stmt:
    axes: list[Loop] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind in AXES:
        axes.append(body[0])
        body = body[0].body
    together = _ThreadReductions(axes, taken)
    together.find(body)
    for done in (s for s in statements(kernel.body) if isinstance(s, InstrRegion)):
        if crossing := together.crossing(done):
            what = f"{crossing[0].label} is folded by {done.fn.name}, and over a loop that is bound to threads"
            raise LowerError(f"{what}; keep that loop serial, or rfactor {crossing[0].label} over it first")
    new = map_body(body, together.stmt)
    if new is body:
        return kernel
    new = store_totals(new)
    for b in reversed(together.shared):
        new = (Alloc(b, new),)
    for loop in reversed(axes):
        new = (replace(loop, body=new),)
    return replace(kernel, body=new)


class _ThreadReductions:
    """Rewrites the statements of one kernel that all threads of a block reach."""

    def __init__(self, axes: list[Loop], taken: set[str]) -> None:
        self.taken = taken
        self.threads = Threads.of([x for x in axes if x.kind not in BLOCK_AXES])
        self.blocks = {x.var for x in axes if x.kind in BLOCK_AXES}
        self.shared: list[Buffer] = []
        self.after: dict[int, tuple[Loop, ...]] = {}
        """By a loop, those right after it that are folded with it."""
        self.taken_along: set[int] = set()
        self.found: dict[int, tuple[Stmt, list[Reduce]]] = {}
        """What `crossing` gave, by the identity of the statement, which is kept with it."""

    # ------------------------------------------------------------ where threads part

    def crossing(self, s: Stmt) -> list[Reduce]:
        """The reductions in `s` that are over threads."""
        if id(s) not in self.found:
            own = [s] if isinstance(s, Reduce) and self.threads.among(s.over) else []
            self.found[id(s)] = s, [*own, *(r for x in child_stmts(s) for r in self.crossing(x))]
        return self.found[id(s)][1]

    def uniform(self, n: Node) -> bool:
        """Whether all threads of a block find the same."""
        return not free_vars(n) & self.threads.names() and not loaded_buffers(n)

    def stmt(self, s: Stmt) -> Stmt | Body:
        """`s`, to which all threads come."""
        crossing = self.crossing(s)
        if not crossing:
            return s
        match s:
            case Reduce():
                return self.gathered(s, TRUE)
            case Loop() if id(s) in self.taken_along:
                return ()
            case Loop() if all(_waits(r, s) for r in crossing):
                return self.gathered(s, TRUE)
            case Loop():
                self.require_uniform(s.extent, s, crossing[0])
                return map_stmts(s, self.stmt)
            case If(cond, then, orelse) if not self.uniform(cond):
                _require_stable(s)
                return (*self.guarded(cond, then), *self.guarded(Not(cond), orelse))
            case _:
                return map_stmts(s, self.stmt)

    def guarded(self, cond: Cond, body: Body) -> Body:
        """`body` for the threads that `cond` holds for, where all threads come by."""
        out: list[Stmt] = []
        for s in body:
            new = self.inside(cond, s)
            last = out[-1] if out else None
            if isinstance(last, If) and len(new) == 1 and isinstance(new[0], If) and last.cond == new[0].cond:
                out[-1] = replace(last, then=(*last.then, *new[0].then))
            else:
                out.extend(new)
        return tuple(out)

    def inside(self, cond: Cond, s: Stmt) -> Body:
        crossing = self.crossing(s)
        match s:
            case _ if not crossing:
                return (If(cond, (s,)),)
            case Alloc():
                return (replace(s, body=self.guarded(cond, s.body)),)
            case If():
                _require_stable(s)
                yes = self.guarded(_both(cond, s.cond), s.then)
                return (*yes, *self.guarded(_both(cond, Not(s.cond)), s.orelse))
            case Loop() if id(s) in self.taken_along:
                return ()
            case Loop() if all(_waits(r, s) for r in crossing):
                return self.gathered(s, cond)
            case Loop():
                self.require_uniform(s.extent, s, crossing[0])
                return (replace(s, body=self.guarded(cond, s.body)),)
            case _:
                return self.gathered(s, cond)

    def require_uniform(self, extent: Index, loop: Loop, r: Reduce) -> None:
        if not self.uniform(extent):
            raise LowerError(
                f"{r.label} is folded by threads together inside loop {loop.var}, which runs {text(extent)} times, and "
                f"that may differ from thread to thread; reduce over {loop.var}, too, or bind a loop around it"
            )

    # ------------------------------------------------------------ the fold

    def gathered(self, s: Stmt, cond: Cond) -> Body:
        """`s`, which some threads run, with its reductions folded by all threads after it; `s` stands in `cond`."""
        folds = [self.fold(r, s, cond) for r in self.crossing(s)]
        along = self.after.get(id(s), ())
        more = [replace(folds[0], reduce=r, kept=self.kept(r, x)) for x in along for r in self.crossing(x)]
        partial = {id(f.reduce): f.partial() for f in (*folds, *more)}
        run = (s, *along)
        own = rewrite(run if cond == TRUE else tuple(If(cond, (x,)) for x in run), lambda x: partial.get(id(x)))
        body: Body = (*(x for f in folds for x in f.start()), *own, *(x for f in folds for x in f.finish()))
        for f in reversed(folds):
            for b in reversed(f.registers):
                body = (Alloc(b, body),)
        return body

    def kept(self, r: Reduce, s: Stmt) -> tuple[Loop, ...]:
        """The loops in `s` that tell the elements of `r` apart."""
        named = {v for i in r.at for v in free_vars(i)} - set(r.over)
        return tuple(x for x in _path_of(r, s).loops if x.var in named)

    def fold(self, r: Reduce, s: Stmt, cond: Cond) -> _Fold:
        place, kept = _path_of(r, s), self.kept(r, s)
        for x in kept:
            if not isinstance(x.extent, Int):
                raise LowerError(
                    f"each thread keeps its part of {r.label} for every {x.var}, and there are {text(x.extent)}, which "
                    f"is no constant; reorder {x.var} outside {next(y.var for y in place.loops if y.var in r.over)}"
                )
        scopes = {b.scope == "local" for b in r.buffers}
        if len(scopes) > 1:
            raise LowerError(f"{r.label} folds into local memory and other memory at once; give both one scope")
        shape = tuple(x.extent for x in kept)
        registers = tuple(Buffer(self.name(f"{b.name}_part"), shape, b.dtype, "local") for b in r.buffers)
        group = self.threads.among(r.over)
        assert group is not None
        return _Fold(self, r, kept, self.guard(r, s, cond), registers, group, scopes == {True})

    def guard(self, r: Reduce, s: Stmt, cond: Cond) -> Cond:
        """What `r` stands under, in `s` and `cond`, that all the threads that fold together find alike."""
        place = _path_of(r, s)
        terms = (t for c, held in place.conds() for t in (conjuncts(c) if held else (Not(c),)))
        known = {x.var for x in place.loops} - {x.var for x in self.kept(r, s)} | (self.threads.names() & set(r.over))
        return conj(*dict.fromkeys(t for t in (*conjuncts(cond), *terms) if not free_vars(t) & known))

    # ------------------------------------------------------------ loops that are folded once

    def find(self, body: Body) -> None:
        """Find such loops in `body`, and in what is in it."""
        run: list[Loop] = []
        for s in body:
            if run and self.alike(run[0], s):
                run.append(cast(Loop, s))
                self.after[id(run[0])] = tuple(run[1:])
                self.taken_along.add(id(s))
            else:
                run = [s] if isinstance(s, Loop) and self.alike(s, s) else []
            for inner in () if s in run else bodies(s):
                self.find(inner)

    def alike(self, a: Loop, b: Stmt) -> bool:
        """Whether each has one reduction, which waits for the end of it, and both are the same fold."""
        found = [self.crossing(a), self.crossing(b)]
        if not isinstance(b, Loop) or [len(x) for x in found] != [1, 1]:
            return False
        (r,), (q,) = found
        kept = self.kept(r, a), self.kept(q, b)
        if not (_waits(r, a) and _waits(q, b)) or [x.extent for x in kept[0]] != [x.extent for x in kept[1]]:
            return False
        env = {y.var: Var(x.var) for x, y in zip(*kept, strict=True)}
        over = [set(x.over) & (self.threads.names() | self.blocks) for x in (r, q)]
        said = [(x.buffers, x.monoid, x.init, x.atomic) for x in (r, q)]
        at = tuple(substitute(x, env) for x in q.at)
        return said[0] == said[1] and over[0] == over[1] and at == r.at and (
            substitute(self.guard(q, b, TRUE), env) == self.guard(r, a, TRUE)
        )  # fmt: skip

    def name(self, hint: str) -> str:
        return take_name(hint, self.taken)


@dataclass(frozen=True, slots=True)
class _Fold:
    """One reduction; `kept` are the loops over its elements inside the part that a thread runs alone."""

    kernel: _ThreadReductions
    reduce: Reduce
    kept: tuple[Loop, ...]
    guard: Cond
    registers: tuple[Buffer, ...]
    group: Group
    copies: bool
    """Whether every thread folds the total into a copy of its own."""

    def partial(self) -> Stmt:
        """What a thread folds on its own."""
        r, at = self.reduce, tuple(Var(x.var) for x in self.kept)
        gone = self.kernel.threads.names() | self.kernel.blocks
        over = tuple(v for v in r.over if v not in gone)
        return Reduce(self.kernel.name(f"{r.label}_part"), self.registers, at, r.monoid, r.values, over, None)

    def start(self) -> Body:
        loops, at = self.again("start")
        stores = (Store(self.kernel.name(f"{b.name}_start"), b, at, v)
                  for b, v in zip(self.registers, self.reduce.monoid.identity, strict=True))  # fmt: skip
        return _nest(loops, tuple(stores))

    def finish(self) -> Body:
        """The threads' parts folded together, and the total into the element."""
        r, (loops, at) = self.reduce, self.again("total")
        env = {old.var: Var(new.var) for old, new in zip(self.kept, loops, strict=True)}
        first, once, tree, shared = self.group.tree(
            r.monoid, self.registers, at, all_threads=self.copies, name=self.kernel.name
        )
        self.kernel.shared.extend(shared)
        loads = tuple(Load(b, at) for b in self.registers)
        element = tuple(substitute(x, env) for x in r.at)
        over = tuple(v for v in r.over if v in self.kernel.blocks)
        total: Stmt = replace(r, at=element, values=loads, over=over, init=None, atomic=r.atomic and not self.copies)
        guard = substitute(self.guard, env)
        if not self.copies:
            guard = _both(self.group.first(), guard)
        rest = _nest(loops, (*tree, If(guard, (total,)) if conjuncts(guard) else total))
        early, _ = self.again("left") if first else ((), ())
        env = {old.var: Var(new.var) for old, new in zip(loops, early, strict=False)}
        return (*_nest(early, tuple(substitute(x, env) for x in first)), *once, *rest)

    def again(self, hint: str) -> tuple[tuple[Loop, ...], tuple[Index, ...]]:
        loops = tuple(Loop(self.kernel.name(f"{x.var}_{hint}"), x.extent, "unroll", ()) for x in self.kept)
        return loops, tuple(Var(x.var) for x in loops)


def _nest(loops: Iterable[Loop], body: Body) -> Body:
    for loop in reversed([*loops]):
        body = (replace(loop, body=body),)
    return body


def _both(a: Cond, b: Cond) -> Cond:
    return conj(*conjuncts(a), *conjuncts(b))


def _path_of(r: Reduce, s: Stmt) -> StmtPath:
    return next(p for p in leaf_paths((s,)) if p.stmt is r)


def _waits(r: Reduce, loop: Loop) -> bool:
    """Whether the threads may fold `r` together after all of `loop`: nothing inside sees the element."""
    if loop.var not in r.over:
        return False
    mine = {b.name for b in r.buffers}
    others: set[str] = set()
    for p in leaf_paths(loop.body):
        others |= leaf_writes(p.stmt) if p.stmt is not r else set()
    asked = {x for i in r.at for x in loaded_buffers(i)} | {x for s in statements(loop.body) if isinstance(s, If)
                                                    for x in loaded_buffers(s.cond)}  # fmt: skip
    return not mine & (others | loaded_buffers(loop)) and not asked & (others | mine)


def _require_stable(s: If) -> None:
    """Refuse a condition that is asked again after what stands in it, if it is read from memory that this writes."""
    if changed := loaded_buffers(s.cond) & {b for p in leaf_paths((s,)) for b in leaf_writes(p.stmt)}:
        raise LowerError(
            f"threads that fold together stand in a condition on {', '.join(sorted(changed))}, which is written there"
        )
