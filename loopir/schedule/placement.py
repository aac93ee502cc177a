"""Moving the nest of a stage: where it stands, restricting its loops to a region, and giving its memory to a loop.

The primitives that place stages (`compute_at`, `reverse_compute_at` ...) are made of these. A stage is one statement;
what moves with it is its nest: the outermost statement around it that is not around the loop it moves to. A nest that
is restricted runs a part of its iterations in the order it had, so nothing is asked of the store but that the region
holds what is needed of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from loopir.analysis.access import statements_of, that_meet
from loopir.analysis.affine import Poly, constant, plus, scaled, to_index
from loopir.analysis.depend import Pair, before, carried, conflicts, times
from loopir.analysis.moved import Came
from loopir.analysis.regions import Box, end, proved, region, touches, written_by
from loopir.analysis.simplify import Context, divide, poly, simplify_cond
from loopir.analysis.simplify_func import Known, simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    AXES,
    THREAD_AXES,
    TRUE,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Reduce,
    Stmt,
    Store,
    Var,
    conj,
)
from loopir.ir.walk import Place, bodies, loops, places, rebuild, rewrite, statements, substitute, variables
from loopir.schedule.effects import allocates, reads
from loopir.schedule.facts import known_at
from loopir.schedule.find import find_loop, find_stage, listing
from loopir.schedule.promises import require_outside_lanes, require_promises
from loopir.schedule.refusal import refusal


@dataclass(frozen=True, slots=True)
class Move:
    """A stage whose nest `tree` moves into `loop`; both stand, in some depth, in the statement list `level`.

    `target` is the statement of that list around `loop`, and `shared` are the statements around the list.
    """

    func: Func
    place: Place
    tree: Stmt
    loop: Loop
    target: Stmt
    level: Body
    shared: tuple[Stmt, ...]

    @property
    def stmt(self) -> Store | Reduce:
        return self.place.stmt

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return written_by(self.stmt)

    @property
    def names(self) -> set[str]:
        return {b.name for b in self.buffers}

    @property
    def own_loops(self) -> tuple[Loop, ...]:
        """The loops of the nest around the stage, outer ones first."""
        inside = {x.var for x in loops((self.tree,))}
        return tuple(x for x in self.place.loops if x.var in inside)

    @property
    def shared_loops(self) -> tuple[str, ...]:
        return tuple(s.var for s in self.shared if isinstance(s, Loop))

    @property
    def path(self) -> tuple[str, ...]:
        """The loops from the list that both stand in to the one it moves to."""
        around = chain((self.target,), self.loop)
        return tuple(s.var for s in around if isinstance(s, Loop))

    @property
    def over(self) -> tuple[str, ...]:
        return self.stmt.over if isinstance(self.stmt, Reduce) else ()

    @property
    def earlier(self) -> bool:
        """Whether the nest runs before the loop it moves to."""
        return position(self.level, self.tree) < position(self.level, self.target)

    def refuse(self, reason: str, suggestion: str | None = None) -> ScheduleError:
        return ScheduleError(reason, loop=self.loop.var, suggestion=suggestion)


def position(body: Body, stmt: Stmt) -> int:
    return next(n for n, s in enumerate(body) if s is stmt)


def require_repeatable(move: Move, ranges: Iterable[str]) -> None:
    """Refuse if the nest carries values from one iteration of a loop to another, where not all may run any more."""
    if len([*places((move.tree,))]) > 1:
        for v in ranges:
            if (clash := carried(move.func, v)) is not None:
                reason = f"{v!r} would run in part, and its iterations depend on one another"
                raise refusal(clash, reason, v, f"keep {move.stmt.label} where it is")


def chain(body: Body, target: Stmt) -> tuple[Stmt, ...]:
    """The statements around `target`, outermost first, and `target`."""
    for s in body:
        if s is target:
            return (s,)
        for inner in bodies(s):
            if found := chain(inner, target):
                return (s, *found)
    return ()


def find_move(func: Func, stage: str, loop: str) -> Move:
    """`stage` and `loop`, looked up; ScheduleError if the stage is not one statement beside the loop's nest."""
    place, *more = find_stage(func, stage)
    labels = [p.stmt.label for p in (place, *more)]
    if more:
        raise ScheduleError(f"{stage!r} is several statements: {listing(labels)}", loop=loop, suggestion="name one")
    target = find_loop(func, loop)
    mine, other = (*place.around, place.stmt), chain(func.body, target)
    if any(s is target for s in mine):
        raise ScheduleError(f"{labels[0]} stands inside {target.var!r} already", loop=loop)
    depth = next(n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a is not b)
    shared = mine[:depth]
    lists: tuple[Body, ...] = tuple(bodies(shared[-1])) if shared else (func.body,)
    level = next((b for b in lists if any(s is mine[depth] for s in b) and any(s is other[depth] for s in b)), None)
    if level is None:
        raise ScheduleError(f"{labels[0]} and {target.var!r} stand on two sides of a condition", loop=loop)
    return Move(func, place, mine[depth], target, other[depth], level, shared)


def require_sole_writer(move: Move) -> None:
    """Refuse if another statement writes what the stage does, or if its nest does anything else that is seen."""
    for name in sorted(move.names):
        writers = [p.stmt.label for p in places(move.func.body) if any(b.name == name for b in written_by(p.stmt))]
        if len(writers) > 1:
            raise move.refuse(f"{name} is written by {listing(writers)}; a stage that is moved is one statement")
    own = allocates((move.tree,)) | move.names
    for p in places((move.tree,)):
        for b in written_by(p.stmt):
            if b.name not in own:
                reason = f"{p.stmt.label}, in the nest of {move.stmt.label}, writes {b.name}, and would move with it"
                raise move.refuse(reason, f"distribute the loops that {move.stmt.label} and {p.stmt.label} share")


def require_value(move: Move) -> None:
    """Refuse unless what the stage stores is a function of the element, which may be computed again."""
    label, names = move.stmt.label, move.names
    if isinstance(move.stmt, Reduce):
        if move.stmt.init is None:
            reason = f"{label} folds into what is there, and would do so again wherever it is computed"
            raise move.refuse(reason, "a reduction with an init")
        around = [x.var for x in move.place.loops if x not in move.own_loops]
        if outside := [v for v in move.over if v in around]:
            reason = f"{label} folds over {listing(outside)}, which is around {move.loop.var!r}, too"
            raise move.refuse(reason, "a loop beside all the loops that it folds over")
    if names & reads([move.stmt]):
        raise move.refuse(f"{label} is computed from {listing(sorted(names))} itself")


def other_readers(move: Move) -> set[str]:
    """The statements outside of the loop that read what the stage writes."""
    mine = {p.stmt.label for p in places((move.tree,))}
    every = statements_of(move.func)
    end = next(s.when.index(move.loop.var) + 1 for s in every if move.loop.var in s.dims and not s.init)
    start = next(s.when[:end] for s in every if move.loop.var in s.dims and not s.init)
    outside = (s for s in every if s.when[:end] != start and s.label not in mine)
    return {s.label for s in outside if any(a.buffer in move.names and not a.write for a in s.accesses)}


def known_in(func: Func, loop: Loop) -> Known:
    """What is known inside `loop`."""
    return known_at(func, loop).loop(loop.var, loop.extent, loop.body)


# ---------------------------------------------------------------- restricting a nest


@dataclass(frozen=True, slots=True)
class Range:
    """A loop now runs over `count` values from `start` on; `conds`, in its old variable, keep what sticks out away."""

    start: Index
    count: Index
    conds: tuple[Cond, ...]


@dataclass(slots=True)
class Restriction:
    """The loops of a nest, restricted so that an index of its statement in each dimension is inside a box."""

    known: Known
    own: tuple[Loop, ...]
    over: frozenset[str]
    ranges: dict[str, Range]
    conds: list[Cond]

    @staticmethod
    def to(box: Box, at: Sequence[Index], own: tuple[Loop, ...], over: Iterable[str], known: Known) -> Restriction:
        """`own` are the loops around the statement, outer ones first, all of them where `known` holds."""
        out = Restriction(known, own, frozenset(over), {}, [])
        for d, ix in enumerate(at):
            out._dimension(ix, box.base[d], box.extent[d], box.size[d])
        return out

    def _dimension(self, ix: Index, base: Index, extent: Index, size: Index) -> None:
        ctx = self.known.here
        inside = self._context()
        inner = inside.tops[: len(self.own)]
        p = poly(ix, self._context(over=False))
        if not isinstance(extent, Int) and (isinstance(size, Int) or not _plain(extent)):
            extent = size
        first, last = poly(base, ctx), poly(base + extent - 1, ctx)
        within = [Cmp("<=", to_index(first), ix), Cmp("<=", ix, to_index(last))]
        v, q = self._pick(p)
        if v is None:
            self.conds += within
            return
        rest = plus(p, {(Var(v.var),): q}, -1)
        low, high = (end(rest, inner, inside, least=x) for x in (True, False))
        if low is None or high is None:
            self.conds += within
            return
        if q < 0:
            first, last, low, high, q = scaled(last, -1), scaled(first, -1), scaled(high, -1), scaled(low, -1), -q
        by = constant(q)
        start = divide(plus(plus(first, high, -1), constant(q - 1)), by, ctx)
        stop = divide(plus(last, low, -1), by, ctx)
        count = plus(plus(stop, start, -1), constant(1))
        spread = plus(high, low, -1)
        if not _plain(to_index(count)):
            count = plus(divide(plus(plus(poly(extent, ctx), spread), constant(-1)), by, ctx), constant(1))
        if spread or q != 1:
            self.conds += within
        self._restrict(v, start, count)

    def _restrict(self, v: Loop, start: Poly, count: Poly) -> None:
        ctx = self.known.here
        extent = poly(v.extent, ctx)
        after = plus(plus(start, count), extent, -1)
        covers = proved(scaled(start, -1), ctx) and not variables(v.extent) & {x.var for x in self.own}
        if covers and proved(after, ctx):
            return  # all of it
        conds = (Cmp("<=", Int(0), Var(v.var)), Cmp("<", Var(v.var), v.extent))
        self.ranges[v.var] = Range(to_index(start), to_index(count), conds)

    def _pick(self, p: Poly) -> tuple[Loop | None, int]:
        """The loop that an index moves with most, and its coefficient: not restricted yet, and not folded over."""
        best: tuple[Loop | None, int] = None, 0
        for x in self.own:
            c = p.get((Var(x.var),), 0)
            alone = all(m == (Var(x.var),) or not variables_of(m) & {x.var} for m in p)
            if alone and x.var not in self.over and x.var not in self.ranges and abs(c) > abs(best[1]):
                best = x, c
        return best

    def _context(self, *, over: bool = True) -> Context:
        """Inside the loops of the nest; without those that are folded over, which may have no iterations."""
        known = self.known.here
        for x in self.own:
            if over or x.var not in self.over:
                known = known.loop(x.var, x.extent)
        return known

    def undecided(self) -> list[Cond]:
        """The conditions that keep an index inside the box, but for those that hold anyway."""
        contexts = [self._context(over=x) for x in (False, True)]
        self.conds = [c for c in self.conds if simplify_cond(c, contexts[bool(variables(c) & self.over)]) != TRUE]
        return self.conds

    def origin(self) -> dict[str, Index]:
        """The old loops as indices over the new ones."""
        return {v: r.start + Var(v) for v, r in self.ranges.items()}

    def apply(self, tree: Stmt) -> Stmt:
        """The nest with its loops restricted and guarded."""
        pending = {v: list(r.conds) for v, r in self.ranges.items()}
        outside: list[Cond] = []
        names = [x.var for x in self.own]
        for c in self.conds:
            last = max((names.index(v) for v in variables(c) if v in names), default=-1)
            (pending.setdefault(names[last], []) if last >= 0 else outside).append(c)

        def visit(s: Stmt) -> Stmt | Body | None:
            if not isinstance(s, Loop) or s.var not in pending:
                return None
            body = rewrite(s.body, visit)
            body = (If(conj(*pending[s.var]), body),)
            r = self.ranges.get(s.var)
            if r is None:
                return replace(s, body=body)
            env = {s.var: r.start + Var(s.var)}
            return Loop(s.var, r.count, "serial", tuple(substitute(x, env) for x in body))

        body = rewrite((tree,), visit)
        if outside:
            body = (If(conj(*outside), body),)
        (done,) = body
        return done


def variables_of(m: tuple[Index, ...]) -> set[str]:
    return {v for a in m for v in variables(a)}


def _plain(ix: Index) -> bool:
    """Whether an index is a sum of products of variables, which reads well as an extent."""
    return all(isinstance(a, Var) for m in poly(ix, Context()) for a in m)


# ---------------------------------------------------------------- the nest in its new place


@dataclass(frozen=True, slots=True)
class Moved:
    """The nest of a stage, restricted, in the loop: `func` is the whole, `gap` what it was before names are tidied.

    In `gap` the place that the nest left is still there, empty, so that other statements keep their positions.
    """

    func: Func
    gap: Func
    origin: dict[str, Came]


def moved(move: Move, nest: Body, origin: dict[str, Index], *, first: bool) -> Moved:
    """`nest` put at the start, or else the end, of the loop's body, and gone from where it was."""
    loop = move.loop
    body = (*nest, *loop.body) if first else (*loop.body, *nest)
    known = known_at(move.func, loop)
    (after,) = simplify_body((replace(loop, body=body),), known)
    came = {p.stmt.label: Came(p.stmt.label, origin) for p in places((move.tree,))}

    def put(left: Body) -> Func:
        return replace(
            move.func,
            body=rewrite(move.func.body, lambda s: after if s is loop else left if s is move.tree else None),
        )

    return Moved(put(()), put((If(TRUE, ()),)), came)


def confined(func: Func, names: set[str], loop: str, box: Box) -> Func:
    """`func` with the buffers called `names`, used in `loop` alone, allocated there, and as large as `box`."""
    where = find_loop(func, loop)
    old = {s.buffer.name: s for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.name in names}
    plain = all(s.buffer.layout is None for s in old.values())
    new = {n: replace(s.buffer, shape=box.size) if plain else s.buffer for n, s in old.items()}

    def rebased(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, rebased)
        match n:
            case Load(b, at) if b.name in names:
                return Load(new[b.name], shifted(at))
            case Store(buffer=b, at=at) if b.name in names:
                return replace(n, buffer=new[b.name], at=shifted(at))
            case Reduce(buffers=bs, at=at) if bs[0].name in names:
                return replace(n, buffers=tuple(new[b.name] for b in bs), at=shifted(at))
            case _:
                return n

    def shifted(at: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(ix - base for ix, base in zip(at, box.base, strict=True)) if plain else at

    body = tuple(cast(Stmt, rebased(s)) for s in where.body)
    for n in reversed(list(old)):
        body = (Alloc(new[n], body),)
    known = known_at(func, where)
    (after,) = simplify_body((replace(where, body=body),), known)

    def visit(s: Stmt) -> Stmt | Body | None:
        if s is where:
            return after
        if any(s is a for a in old.values()):
            assert isinstance(s, Alloc)
            return rewrite(s.body, visit)
        return None

    return replace(func, body=rewrite(func.body, visit))


def renewable(func: Func, names: set[str], loop: Loop) -> bool:
    """Whether `loop` may have memory of its own for the buffers: they are the Func's, and no thread's of a block."""
    allocs = {s.buffer.name: s for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.name in names}
    if len({b.buffer.shape for b in allocs.values()}) > 1:
        return False
    threads = any(isinstance(s, Loop) and s.kind in THREAD_AXES for s in chain(func.body, loop))
    return set(allocs) == names and not (threads and any(s.buffer.scope == "shared" for s in allocs.values()))


def settled(func: Func, names: set[str], loop: str) -> Func:
    """`func` with the buffers called `names` allocated in `loop`, if they are used there alone and carry nothing over.

    Nothing is carried over if no iteration reads what another wrote: of `loop`, or of a loop around it.
    """
    where = find_loop(func, loop)
    inside = [s for s in statements_of(func) if loop in s.dims]
    here = {s.label for s in inside}
    if any(s.touches & names and s.label not in here for s in statements_of(func)) or not renewable(func, names, where):
        return func
    start = next(s.when[: s.when.index(loop) + 1] for s in inside if not s.init)
    for s, t in that_meet(inside):
        if any(x.when[: len(start)] != start for x in (s, t) if x.touches & names):
            return func  # a reduction that starts outside
        earlier = before(times(start, "s"), times(start, "t"))
        for a, b in conflicts(s, t):
            if a.buffer in names and a.write and not b.write and any(Pair(func, s, a, t, b).clashes(earlier)):
                return func
    known = known_in(func, where)
    (shape, *_) = (n.buffer.shape for n in statements(func.body) if isinstance(n, Alloc) and n.buffer.name in names)
    return confined(func, names, loop, region(touches(where.body, known, names), known.here, shape))


def promised(move: Move, new: Func) -> Func:
    """`new`, if the loops that now hold the stage, and those of its nest, keep what their kinds promise."""
    (place,) = (p for p in places(new.body) if p.stmt.label == move.stmt.label)
    inside = {x.var for x in loops((move.tree,))}
    axes = [x.kind for x in place.loops if x.kind in AXES]
    if twice := next((k for k in axes if axes.count(k) > 1), None):
        reason = f"the nest of {move.stmt.label} is bound to {twice}, and so is a loop around {move.loop.var!r}"
        raise move.refuse(reason, "bind its loops after it has moved")
    for x in loops(new.body):
        if x.var in inside and x.kind != "serial":
            require_outside_lanes(new, x)
    require_promises(new, dict.fromkeys([*(x.var for x in place.loops), *inside]))
    return new
