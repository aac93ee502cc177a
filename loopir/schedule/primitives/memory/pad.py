"""pad: a stage runs whole tiles, without guards, on copies that hold a value where there is nothing to hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from loopir.analysis.dataflow.idle_iterations import always_folds
from loopir.analysis.dataflow.reaching_writes import is_written_before
from loopir.analysis.dependence.access import Statement, is_affine_visible, statements_of
from loopir.analysis.dependence.depend import SIZE, Pair, concurrent_conflict
from loopir.analysis.regions.bounds import find_out_of_bounds, instance_of, positive_divisors
from loopir.arith.poly import poly_add, to_index
from loopir.arith.sample_points import refuted_by_sample
from loopir.arith.simplify import EMPTY, Context, poly, simplify_cond
from loopir.arith.simplify_func import Known, simplify_func, statements_known
from loopir.errors import ScheduleError
from loopir.interp.value_domains import Real
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Alloc,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Not,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.printer import text
from loopir.ir.traverse.rebuild import transform
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    leaf_paths_of,
    loaded_buffers,
    nodes,
    replace,
    replace_stmt,
    rewrite,
    statements,
    substitute,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, find_statement, join_names
from loopir.schedule.legality.copied_memory import copied, copies_what_is_written, is_filled, loops_around_alloc
from loopir.schedule.legality.loop_kinds import IN_ORDER, require_lanes_apart
from loopir.schedule.schedule import primitive

EXTRA = "what is padded"
ORDERS = ("<", "<=")


@primitive
def pad(func: Func, stage: str, *loops: str, value: float | int = 0.0) -> Func:
    """Run `stage` without the guards that speak of `loops`, or without any where none is named.

    The copies that it reads (as `cache_read` makes them, converted or not) hold `value` where their own guards leave
    them empty, and no guard is left in the tile; a copy that is padded itself holds it so, too. Of a stage without
    guards, no `select(c, copy[...], value)` is left whose copy is empty wherever `c` does not hold. What is computed
    too much has to stay in memory that nobody reads there, as `cache_write` gives it; and where a reduction folds too
    often, `value` has to make that the identity of its monoid in all inputs at once: 0 * 0 for a sum, -inf for a
    maximum. Values of the same iteration are followed for that, if what is given is finite: exp(-inf - m) is 0. Pad
    before the loops of the copies are split.

    before:
        def f(n: "size", A: "float32[n]", B: "float32[n]", S: "out float32[1]"):
            for k in range((n + 3) // 4):
                with alloc("float32[4]", scope="local") as X, alloc("float32[4]", scope="local") as Y:
                    for x in range(4):
                        if k * 4 + x < n:
                            X[x] = A[k * 4 + x]
                    for y in range(4):
                        if k * 4 + y < n:
                            Y[y] = B[k * 4 + y]
                    for h in range(4):
                        if k * 4 + h < n:
                            S[0] = sum(X[h] * Y[h], over=(k, h), init=0.0)
    call:    pad("S", "h")
    after:
        def f(n: "size", A: "float32[n]", B: "float32[n]", S: "out float32[1]"):
            for k in range((n + 3) // 4):
                with alloc("float32[4]", scope="local") as X, alloc("float32[4]", scope="local") as Y:
                    for x in range(4):
                        X[x] = select(k * 4 + x < n, A[k * 4 + x], 0.0)
                    for y in range(4):
                        Y[y] = select(k * 4 + y < n, B[k * 4 + y], 0.0)
                    for h in range(4):
                        S[0] = sum(X[h] * Y[h], over=(k, h), init=0.0)
    refuses: pad("S", "h", value=1.0)  # S would fold 1.0 where k * 4 + h < n does not hold
    refuses: pad("X", "x")             # X reads A[k * 4 + x], which is not known to be inside A

    before:
        def g(n: "size", A: "float32[n]", B: "float32[8]", S: "out float32[1]"):
            for k in range((n + 3) // 4):
                with alloc("float32[4]", scope="local") as X:
                    for x in range(4):
                        if k * 4 + x < n:
                            X[x] = A[k * 4 + x]
                    for h in range(4):
                        if k * 4 + h < n:
                            S[0] = sum(X[h] * B[h], over=(k, h), init=0.0)
    refuses: pad("S")                  # 0.0 * B[h], whose value is not known: B may hold inf or nan

    before:
        def w(A: "float32[8]", S: "out float32[8]"):
            for i in range(8):
                with alloc("float32[3]", scope="local") as X:
                    for x in range(3):
                        if 0 <= i + x - 1 and i + x - 1 < 8:
                            X[x] = A[i + x - 1]
                    for k in range(3):
                        S[i] = sum(select(0 <= i + k - 1 and i + k - 1 < 8, X[k], 0.0), over=k, init=0.0)
    call:    pad("S")
    after:
        def w(A: "float32[8]", S: "out float32[8]"):
            for i in range(8):
                with alloc("float32[3]", scope="local") as X:
                    for x in range(3):
                        X[x] = select(0 <= i + x - 1 and i + x - 1 < 8, A[i + x - 1], 0.0)
                    for k in range(3):
                        S[i] = sum(X[k], over=k, init=0.0)
    refuses: pad("S", value=1.0)  # there is no guard around S
    """
    place = find_statement(func, stage, instead="pad before tensorize")
    dropped = _guards(place, {find_loop(func, x).var for x in loops})
    filled = None if loops else (_filled_copy if dropped else _unselected)(func, place, value)
    if filled is not None:
        return simplify_func(filled)
    _require_guards(place, dropped, loops)
    copies = {b.name: _copy(func, b) for b in _sources(place.stmt)}
    new = _unguarded(func, place, dropped)
    if not (dropped := [c for c in dropped if _may_fail(new, place.stmt.label, c)]):
        return simplify_func(new)
    there = _known_at(new, place.stmt)
    _require_harmless(new, place, there, copies, dropped)
    _require_controls_there(new, place, dropped)
    over = set(place.stmt.over) if isinstance(place.stmt, Reduce) else set[str]()
    free = [c for c in dropped if not free_vars(c) & over]
    if free and not _guarded_alike(func, place, free, there.here):
        _require_unseen(func, place, free)
    for c in (c for c in dropped if c not in free):
        _require_identity(place, c, there.here, copies, value)
    held = _begun_by(func, place.stmt) if free else {}
    new = _fill_copies(new, copies | held, value)
    if held:
        _require_begun(new, place.stmt)
    return simplify_func(new)


def _require_guards(place: StmtPath, guards: Sequence[Cond], loops: Sequence[str]) -> None:
    """Refuse if there are no `guards` to drop."""
    about = f" that speaks of {join_names(loops)}" if loops else ""
    if not guards:
        raise ScheduleError(
            f"there is no guard around {place.stmt.label}{about}", suggestion='split with tail="guard" makes one'
        )


def _begun_by(func: Func, stmt: Store | Reduce) -> dict[str, _Copy | None]:
    """How the buffers are filled that `stmt` goes on folding into; none if it starts by itself."""
    goes_on = isinstance(stmt, Reduce) and stmt.init is None
    return {b.name: _copy(func, b, stmt) for b in stmt.buffers} if goes_on else {}


def _known_at(func: Func, stmt: Stmt) -> Known:
    """What is known where `stmt` stands in `func`."""
    return next(k for s, k in statements_known(func.body, Known.top(func)) if s is stmt)


def _require_harmless(
    new: Func, place: StmtPath, there: Known, copies: Mapping[str, _Copy | None], dropped: Sequence[Cond]
) -> None:
    """Refuse if the stage, without its guards in `new`, may read outside of memory, or what nothing has written, or if
    iterations of a concurrent loop around it may clash."""
    _require_inside(place.stmt, there)
    _require_held(new, place.stmt, copies)
    _require_copied(new, place.stmt, copies, dropped)
    _require_apart(new, place)


# ---------------------------------------------------------------- what is dropped, and from what it reads


def _guards(place: StmtPath, loops: set[str]) -> list[Cond]:
    """The conditions around the stage, and nothing else, that speak of `loops`, if any are named."""
    return [c for c in _visible_terms(s.cond for s in _own_guards(place)) if not loops or free_vars(c) & loops]


def _visible_terms(conds: Iterable[Cond]) -> list[Cond]:
    """The terms of `conds` that analysis sees."""
    return [t for c in conds for t in conjuncts(c) if is_affine_visible(t)]


def _own_guards(place: StmtPath) -> list[If]:
    """The guards around the stage, and nothing else."""
    guards = ((s, n) for s, n in zip(place.around, place.path[1:], strict=True) if isinstance(s, If))
    return [s for s, n in guards if _guards_one(s) and n < len(s.then)]


def _guards_one(s: If) -> bool:
    """Whether one statement is in `s`, and nothing runs where it does not hold."""
    return not s.orelse and len([*leaf_paths((s,))]) == 1


def _may_fail(new: Func, label: str, guard: Cond) -> bool:
    """Whether there is an instance of the stage, which has no guard any more, in which `guard` does not hold."""
    found = [s for s in statements_of(new) if s.label == label and free_vars(guard).isdisjoint(s.gone)]
    return any(_fails(new, s, guard) for s in found)


def _fails(new: Func, s: Statement, guard: Cond) -> bool:
    if not s.init:  # which stands in fewer loops, and needs none that it folds over
        facts = Facts.at(new, s.place.stmt)
        if simplify_cond(guard, facts.known) == TRUE:
            return False
        ordered = not s.maybe and all(isinstance(c, Cmp) and c.op in ORDERS for c in (*s.conds, guard))
        if isinstance(guard, Cmp) and ordered:
            known = facts.place.here  # all of it says when the stage runs, so that its examples are instances
            if refuted_by_sample(poly_add(poly(guard.b - guard.a, known), {(): -1} if guard.op == "<" else {}), known):
                return True
    system, names = instance_of(new, s, None)
    system.require(Not(guard), "s", names)
    return system.possible([*(f"{SIZE}{n}" for n in new.sizes), *(f"s.{v}" for v in s.dims)], ())


def _sources(stmt: Store | Reduce) -> list[Buffer]:
    values = (stmt.value,) if isinstance(stmt, Store) else (*stmt.values, *(stmt.init or ()))
    found = (n.buffer for part in (*values, *stmt.at) for n in nodes(part) if isinstance(n, Load))
    return list({b.name: b for b in found}.values())


@dataclass(frozen=True, slots=True)
class _Copy:
    """The one store that fills a buffer, element by element: where `cond` holds, and else with `empty`, if it does.

    What is stored is an element of another buffer, or any other value, computed only where `cond` holds."""

    store: Store
    cond: Cond
    guards: tuple[If, ...]
    empty: Const | None

    def holds(self, at: Sequence[Index]) -> Cond:
        """Whether it holds something of its own at element `at`."""
        env = {x.name: ix for x, ix in zip(self.store.at, at, strict=True) if isinstance(x, Var)}
        return substitute(self.cond, env)


def _copy(func: Func, b: Buffer, fold: Stmt | None = None) -> _Copy | None:
    """How `b` is filled, if one store does, under nothing but guards and a loop for each of its dimensions.

    `fold` goes on with what is there, and is left aside.
    """
    writers = [p for p in leaf_paths_of(func) if b in p.stmt.buffers and p.stmt is not fold]
    depth = _depth_of_alloc(writers[0], b) if len(writers) == 1 else None
    if depth is None or not isinstance((place := writers[0]).stmt, Store):
        return None
    store, inside = place.stmt, place.around[depth + 1 :]
    guards = tuple(s for s in inside if isinstance(s, If))
    padded = _padding(store.value, guards)
    if padded is None and b.name in loaded_buffers(store):
        return None
    held, empty = padded or (TRUE, None)
    whole = _fills(store, b, inside, Facts.at(func, place.around[depth]))
    plain = all(_guards_one(g) and is_affine_visible(g.cond) for g in guards)
    return _Copy(store, conj(held, *(g.cond for g in guards)), guards, empty) if whole and plain else None


def _padding(v: Value, guards: Sequence[If]) -> tuple[Cond, Const] | None:
    """The condition and the constant of `v`, if it is `select(cond, element, constant)`, as padded copies store it."""
    if isinstance(v, Select) and isinstance(v.b, Const) and (not guards or copied(v.a) is not None):
        return v.cond, v.b
    return None


def _depth_of_alloc(place: StmtPath, b: Buffer) -> int | None:
    """How many statements there are around the allocation of `b` around `place`; None if it is no such one."""
    return next((n for n, s in enumerate(place.around) if isinstance(s, Alloc) and s.buffer == b), None)


def _fills(store: Store, b: Buffer, inside: Sequence[Stmt], facts: Facts) -> bool:
    """Whether each loop `inside` counts a dimension of `b`, by which `store` finds its elements; all others are 1."""
    counting = {x.var: x for x in inside if isinstance(x, Loop)}
    for ix, size in zip(store.at, b.shape, strict=True):
        loop = counting.pop(ix.name, None) if isinstance(ix, Var) else None
        if not (loop is not None and facts.equal(loop.extent, size)) and not (ix == Int(0) and size == Int(1)):
            return False
    return not counting


# ---------------------------------------------------------------- selects


def _unselected(func: Func, place: StmtPath, value: float) -> Func | None:
    """`func` with each `select(c, copy[...], value)` of the stage as what the copy holds, which is `value` where its
    own guards leave it empty; None where no such copy is empty wherever `c` does not hold."""
    stmt = place.stmt
    found = {n: load for n in nodes(stmt) if isinstance(n, Select) and (load := _padded_load(n, value)) is not None}
    copies = {b.name: _copy(func, b) for b in {load.buffer for load in found.values()}}
    held = {
        n: n.a for n, load in found.items() if _is_empty_without(func, stmt, n.cond, load, copies[load.buffer.name])
    }
    if not held:
        return None
    used = {name: c for name, c in copies.items() if any(_reads_buffer(v, name) for v in held.values())}
    new = transform(stmt, lambda n: held.get(n, n) if isinstance(n, Select) else n)
    return _fill_copies(replace_stmt(func, stmt, (new,)), used, value)


def _is_empty_without(func: Func, stmt: Store | Reduce, cond: Cond, load: Load, copy: _Copy | None) -> bool:
    """Whether the guards of `copy` leave what `stmt` loads of it empty wherever `cond` does not hold."""
    if copy is None or not copy.guards or copy.empty is not None:
        return False
    return not _may_fail(func, stmt.label, Not(conj(Not(cond), copy.holds(load.at))))


def _padded_load(n: object, value: float) -> Load | None:
    """The element that `n` selects where a condition holds, converted or not; None if it is not `value` elsewhere."""
    match n:
        case Select(_, Load() as load, Const() as other) | Select(_, Cast(Load() as load, _), Const() as other):
            return load if other.value == value else None
        case _:
            return None


def _reads_buffer(v: Value, name: str) -> bool:
    return any(isinstance(n, Load) and n.buffer.name == name for n in nodes(v))


# ---------------------------------------------------------------- legality


def _require_inside(stmt: Store | Reduce, there: Known) -> None:
    """Refuse if the stage, without its guards, may leave a buffer, as it starts, too."""
    loads = [n for n in nodes(stmt) if isinstance(n, Load)]
    starting = {n for v in (stmt.init or () if isinstance(stmt, Reduce) else ()) for n in nodes(v)}
    targets = [(b, stmt.at) for b in stmt.buffers]
    read = [(n.buffer, n.at, there.start if n in starting else there.here) for n in loads]
    for verb, found in (("reads", read), ("writes", [(b, at, there.start) for b, at in targets])):
        for b, at, known in found:
            tests = positive_divisors(at)
            tests += (c for x, d in zip(at, b.shape, strict=True) for c in (Cmp("<=", Int(0), x), Cmp("<", x, d)))
            if any(simplify_cond(c, known) != TRUE for c in tests):
                what = f"{stmt.label} {verb} {text(Load(b, at))}, which is not known to be inside {b.name}"
                raise ScheduleError(what, suggestion="cache_read of what it reads and cache_write of what it writes")


def _require_controls_there(new: Func, place: StmtPath, dropped: Sequence[Cond]) -> None:
    """Refuse if lengths and conditions that stay, under guards that `new` has no more, may ask memory that nothing has
    written, or leave it, where these did not hold."""
    first = next(n for n, s in enumerate(place.around) if isinstance(s, If) and {*conjuncts(s.cond)} & {*dropped})
    label, names = place.stmt.label, _asked_around(place.around[first:])
    given = {a.buffer.name for a in new.args if a.access != "out"}
    if empty := [b for b in sorted(names - given) if not is_filled(new, place.stmt, b)]:
        what = f"ask {join_names(empty)}, which need not be written there, whether it runs"
    elif names and (found := find_out_of_bounds(new, label)) is not None and found.buffer in names:
        what = f"ask whether it runs outside of {found.buffer}: {found}"
    else:
        return
    raise ScheduleError(
        f"{label}, without its guards, would {what}", suggestion="keep the guards, or compute before what decides"
    )


def _asked_around(around: Iterable[Stmt]) -> set[str]:
    """The buffers that lengths and conditions read."""
    controls = (s.extent if isinstance(s, Loop) else s.cond for s in around if isinstance(s, Loop | If))
    return set[str]().union(*map(loaded_buffers, controls))


def _require_apart(new: Func, place: StmtPath) -> None:
    """Refuse if the stage, without its guards, may read what iterations that run at once with its own write.

    Lanes of a vector read before any of them writes, and what is read too much is used by nothing.
    """
    stmt = place.stmt
    over = stmt.over if isinstance(stmt, Reduce) else ()
    require_lanes_apart(new, [x.var for x in place.loops if x.var in over], "without the guards")
    for n, x in enumerate(place.around):
        if isinstance(x, Loop) and x.kind not in (*IN_ORDER, "vectorize"):
            own = {a.buffer.name for a in place.around[n:] if isinstance(a, Alloc)}
            shared = ({b.name for b in _sources(stmt)} | _asked_around(place.around[n + 1 :])) - own
            other = _writes_at_once(
                new, stmt.label, x, [s.var for s in place.around[:n] if isinstance(s, Loop)], shared
            )
            if other is not None:  # no witness, as what is padded does not run yet
                raise ScheduleError(
                    f"{stmt.label}, without its guards, would read what {other} writes in an iteration of {x.var!r} "
                    "that runs at once with its own",
                    loop=x.var,
                    suggestion=f"cache_read of what {stmt.label} reads, with the same guard",
                )


def _writes_at_once(func: Func, label: str, loop: Loop, around: Sequence[str], names: set[str]) -> str | None:
    """The statement that writes what `label` touches of the buffers `names`, in another iteration of `loop`."""
    inside = [s for s in statements_of(func) if loop.var in s.dims]
    writers = [s for s in inside if s.label != label and any(a.write and a.buffer in names for a in s.accesses)]
    pairs = ((s, t) for s in inside if s.label == label for t in writers)
    found = (t.name for s, t in pairs if concurrent_conflict(func, s, t, same=around, differ=loop.var) is not None)
    return next(found, None)


def _require_held(func: Func, stmt: Store | Reduce, copies: Mapping[str, _Copy | None]) -> None:
    """Refuse if the stage, which has no guards in `func`, reads an intermediate that is no copy, and may hold nothing
    there."""
    given = {a.buffer.name for a in func.args if a.access != "out"}
    unknown = sorted(name for name, copy in copies.items() if copy is None and name not in given)
    if empty := [name for name in unknown if not is_filled(func, stmt, name)]:
        raise ScheduleError(
            f"{stmt.label} reads {join_names(empty)}, which is not filled by one copy of every element",
            suggestion=f"cache_read({stmt.label!r}, {empty[0]!r}, ...), and pad before the copy's loops are split",
        )


def _require_copied(
    func: Func, stmt: Store | Reduce, copies: Mapping[str, _Copy | None], dropped: Sequence[Cond]
) -> None:
    """Refuse if the stage, which has no guards in `func`, may use where these do not hold what is copied of memory
    that nothing has written.

    Such a copy is harmless as long as guards keep the stage from using it.
    """
    for name, copy in copies.items():
        if copy is None or not isinstance(copy.store.value, Load) or copies_what_is_written(func, copy.store):
            continue
        loads = [n for n in nodes(stmt) if isinstance(n, Load) and n.buffer.name == name]
        for held, c in ((copy.holds(n.at), c) for n in loads for c in dropped):
            if c not in conjuncts(held) and _may_fail(func, stmt.label, Not(conj(Not(c), held))):
                source = copy.store.value.buffer.name
                raise ScheduleError(
                    f"{stmt.label} would use {name}, a copy of what need not be written of {source}, where {text(c)} "
                    "does not hold",
                    suggestion=f"keep the guards, or write all of {source} that is copied",
                )


def _guarded_alike(func: Func, place: StmtPath, dropped: Sequence[Cond], known: Context) -> bool:
    """Whether all else that touches what the stage writes is seen to be under the same guards, element by element.

    That is how copies out are, and what the solver need not be asked.
    """
    names = {b.name for b in place.stmt.buffers}
    controls = (s.extent if isinstance(s, Loop) else s.cond for s in statements(func.body) if isinstance(s, Loop | If))
    if names & {a.buffer.name for a in func.args} or any(names & loaded_buffers(c) for c in controls):
        return False
    tests = (t for p in leaf_paths_of(func) for t in _element_guards(p, names, place.stmt.at))
    return not any(simplify_cond(test, known.given(Not(c))) != FALSE for test in tests for c in dropped)


def _element_guards(p: StmtPath, names: set[str], to: Sequence[Index]) -> Iterator[Cond]:
    """Of each element of the buffers `names` that `p` touches, what its guards say where that is the element `to`."""
    start = next((n for n, s in enumerate(p.around) if isinstance(s, Alloc) and s.buffer.name in names), 0)
    own = (s.var for s in p.around[start:] if isinstance(s, Loop))
    there = {v: Var(f"{v}'") for v in own}  # another instance, where it is the stage itself
    terms = [substitute(t, there) for t in _visible_terms(c for c, held in p.conds() if held)]
    for at in _elements_of(p.stmt, names):
        moved = [_shift_term(t, [substitute(x, there) for x in at], to) for t in terms]
        yield conj(*(t for t in moved if not free_vars(t) & {x.name for x in there.values()}))


def _elements_of(stmt: Store | Reduce, names: set[str]) -> list[tuple[Index, ...]]:
    """The elements of the buffers `names` that `stmt` touches."""
    found = [n.at for n in nodes(stmt) if isinstance(n, Load) and n.buffer.name in names]
    return [*found, stmt.at] if names & {b.name for b in stmt.buffers} else found


def _shift_term(term: Cond, at: Sequence[Index], to: Sequence[Index]) -> Cond:
    """`term`, as far as it speaks of the element `at`, asked of the element `to`, which is the same one."""
    if not isinstance(term, Cmp):
        return term
    p = poly(term.a - term.b, EMPTY)
    for x, y in zip(at, to, strict=True):
        old = {m: c for m, c in poly(x, EMPTY).items() if m and m not in poly(y, EMPTY)}
        times = {p.get(m, 0) // c if p.get(m, 0) % c == 0 else 0 for m, c in old.items()}
        if len(times) == 1:
            (k,) = times
            p = poly_add(poly_add(p, poly(x, EMPTY), -k), poly(y, EMPTY), k)
    return Cmp(term.op, to_index(p), Int(0))


def _require_unseen(func: Func, place: StmtPath, dropped: Sequence[Cond]) -> None:
    """Refuse if the instances where `dropped` does not hold write an element that another instance touches, unless what
    that makes of it stays in this element."""
    stmt = place.stmt
    names = {b.name for b in place.stmt.buffers}
    if seen := sorted(names & {a.buffer.name for a in func.args}):
        reason = (
            f"where {join_names(text(c) for c in dropped)} does not hold, {stmt.label} would write {join_names(seen)}"
        )
        raise ScheduleError(f"{reason}, which the caller sees", suggestion=f"cache_write({stmt.label!r}, ...) first")
    extra = replace(stmt, label=EXTRA)
    first = next(s for s in _own_guards(place) if any(c in dropped for c in conjuncts(s.cond)))
    lifted = _add_complement(func, place, first, dropped, extra)
    found = statements_of(lifted)
    mine = [s for s in found if s.label == EXTRA]
    alone = _is_in_place(place, names)
    others = [t for t in found if t.label != EXTRA and not (alone and _is_in_place(t.place, names))]
    for s, t in product(mine, others):
        clash = _first_clash(lifted, s, t, names)
        if clash is None:
            continue
        guard = join_names(text(c) for c in dropped)
        raise ScheduleError(  # no witness, as what is padded does not run yet
            f"where {guard} does not hold, {stmt.label} would write what {t.name} touches: {clash}",
            suggestion=f"cache_write({stmt.label!r}, ...) first",
        )


def _first_clash(func: Func, s: Statement, t: Statement, names: set[str]) -> str | None:
    """Two instances, of which that of `s` writes an element of the buffers `names` that the one of `t` touches."""
    for a, b in product(s.accesses, t.accesses):
        if a.write and a.buffer == b.buffer and a.buffer in names:
            clash = next(Pair(func, s, a, t, b).clashes([[]]), None)
            if clash is not None:
                return str(clash.witness)
    return None


def _is_in_place(place: StmtPath, names: set[str]) -> bool:
    """Whether a statement makes of each element of the buffers `names` nothing but this element, in floats that no
    condition or index is made of; one iteration after the other while the memory lasts."""
    stmt = place.stmt
    start = next((n for n, s in enumerate(place.around) if isinstance(s, Alloc) and s.buffer.name in names), None)
    if start is None or [b.name for b in stmt.buffers] != [*names] or not stmt.buffers[0].dtype.is_float:
        return False
    kinds = {s.kind for s in place.around[start:] if isinstance(s, Loop)}
    controls = (s.extent if isinstance(s, Loop) else s.cond for s in place.around if isinstance(s, Loop | If))
    used = (*controls, *stmt.at, *_whole_numbers(stmt))
    if kinds - set(IN_ORDER) or any(names & loaded_buffers(x) for x in used):
        return False
    return all(at == stmt.at for at in _elements_of(stmt, names))


def _whole_numbers(stmt: Store | Reduce) -> Iterator[Node]:
    """The indices in what `stmt` computes, and its values that are no floats."""
    for n in nodes(stmt):
        if isinstance(n, Load):
            yield from n.at
        elif isinstance(n, Value) and not n.dtype.is_float:
            yield n


def _require_begun(new: Func, stmt: Store | Reduce) -> None:
    """Refuse if the fold, without its guards, goes on with what nothing may have written: that is a use of it."""
    every = statements_of(new)
    (fold,) = (s for s in every if s.label == stmt.label)
    for a in (a for a in fold.accesses if a.fold and not a.write):
        around = loops_around_alloc(new, fold.place, a.buffer)
        made = ((s, b) for s in every for b in s.accesses if b.buffer == a.buffer and b.write and not b.fold)
        if not any(is_written_before(new, (fold, a), one, around) for one in made):
            raise ScheduleError(
                f"{stmt.label}, without its guards, would fold into what nothing may have written of {a.buffer}",
                suggestion=f"a store to all of {a.buffer} before, as decompose_reduction makes it",
            )


def _add_complement(func: Func, place: StmtPath, first: Stmt, dropped: Sequence[Cond], extra: Stmt) -> Func:
    """`func` with `extra` in loops like the stage's beside `first`, a guard, where `dropped` does not hold."""
    inner: tuple[Stmt, ...] = (If(Not(conj(*dropped)), (extra,)),)
    at = next(n for n, s in enumerate(place.around) if s is first)
    for s in reversed(place.around[at:]):
        if isinstance(s, Loop | Alloc):
            inner = (replace(s, body=inner),)
        elif isinstance(s, If):
            inner = (If(conj(*(c for c in conjuncts(s.cond) if c not in dropped)), inner),)
    return replace_stmt(func, first, (first, *inner))


def _require_identity(
    place: StmtPath, cond: Cond, known: Context, copies: Mapping[str, _Copy | None], value: float
) -> None:
    """Refuse unless the stage folds the identity where `cond` does not hold."""
    stmt, here = place.stmt, known.given(Not(cond))
    assert isinstance(stmt, Reduce)
    around = next((x for x in reversed(place.around) if isinstance(x, Loop) and len([*leaf_paths((x,))]) > 1), None)
    filled = tuple(_shown(v, here, copies, value) for v in stmt.values)
    if around is not None and filled != stmt.values and always_folds(stmt, around, filled, here):
        return
    for v, identity in zip(stmt.values, stmt.monoid.identity, strict=True):
        folded = _known_value(v, here, copies, value)
        if isinstance(folded, Value):
            shown = text(_shown(v, here, copies, value))
            held = join_names(
                sorted({n.buffer.name for n in nodes(_shown(v, here, copies, value)) if isinstance(n, Load)})
            )
            reason = (
                f"where {text(cond)} does not hold, {stmt.label} would fold {shown}, whose value is not known: {held}"
            )
            raise ScheduleError(f"{reason} may hold inf or nan", suggestion=f"cache_read of {held} with the same guard")
        if folded != Real().const(identity.value, identity.type):
            raise ScheduleError(
                f"{stmt.label} would fold {float(folded)} where {text(cond)} does not hold, and the identity of "
                f"{stmt.monoid.name} is {float(identity.value)}",
                suggestion="another value, if there is one, or keep the guard of the reduced loop",
            )  # fmt: skip


def _filling(n: Load, here: Context, copies: Mapping[str, _Copy | None], value: float) -> Const | None:
    """What is read, if it is no element of the source."""
    copy = copies.get(n.buffer.name)
    if copy is None or simplify_cond(copy.holds(n.at), here) != FALSE:
        return None
    return Const(value, n.dtype) if copy.empty is None else copy.empty


def _known_value(v: Value, here: Context, copies: Mapping[str, _Copy | None], value: float) -> Any:
    """The number that `v` is, where every copy that it reads holds `value`; the part that is not known, else."""
    real = Real()
    match v:
        case Const(x, t):
            return real.const(x, t)
        case Load():
            filled = _filling(v, here, copies, value)
            return v if filled is None else real.const(filled.value, filled.type)
        case Cast(x, t):
            inner = _known_value(x, here, copies, value)
            return inner if isinstance(inner, Value) else real.cast(x.dtype, t)(inner)
        case Op(fn, args):
            known = [_known_value(a, here, copies, value) for a in args]
            unknown = next((x for x in known if isinstance(x, Value)), None)
            return unknown if unknown is not None else real.op(fn, args[0].dtype)(*known)
        case _:
            return v


def _shown(v: Value, here: Context, copies: Mapping[str, _Copy | None], value: float) -> Value:
    """`v` with `value` for what is filled, for a message."""

    match v:
        case Load():
            filled = _filling(v, here, copies, value)
            return v if filled is None else filled
        case Op(fn, args):
            return Op(fn, tuple(_shown(a, here, copies, value) for a in args))
        case Cast(x, t):
            return Cast(_shown(x, here, copies, value), t)
        case _:
            return v


# ---------------------------------------------------------------- the rewrite


def _unguarded(func: Func, place: StmtPath, dropped: Sequence[Cond]) -> Func:
    guards = _own_guards(place)

    def visit(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if not isinstance(s, If) or not any(s is g for g in guards):
            return None
        kept = conj(*(c for c in conjuncts(s.cond) if c not in dropped))
        inner = rewrite(s.then, visit)
        return inner if kept == TRUE else If(kept, inner)

    return replace(func, body=rewrite(func.body, visit))


def _filled_copy(func: Func, place: StmtPath, value: float) -> Func | None:
    """`func` with `value` where the guards of the stage, a copy, leave its memory empty; None if it is no copy, or
    reads nothing outside of what it copies without its guards."""
    store = place.stmt
    copy = _copy(func, store.buffer) if isinstance(store, Store) and copied(store.value) is not None else None
    if copy is None or copy.empty is not None:
        return None
    unguarded = _unguarded(func, place, _guards(place, set()))
    try:
        _require_inside(store, _known_at(unguarded, store))
    except ScheduleError:
        return _fill_copies(func, {copy.store.buffer.name: copy}, value)
    return None


def _fill_copies(func: Func, copies: Mapping[str, _Copy | None], value: float) -> Func:
    """`func` with each copy that has a guard filled with `value` where it does not hold.

    What nothing has written may be copied, but a select uses what it picks, so a source is asked whether it is written.
    """
    guarded = {c.store.label: c for c in copies.values() if c is not None and c.guards}
    for c in guarded.values():
        if c.empty is None and (load := copied(c.store.value)) and not copies_what_is_written(func, c.store):
            source = load.buffer.name
            raise ScheduleError(
                f"{c.store.label} would select {source}, which need not be written where it is copied",
                suggestion=f"keep the guards, or write all of {source} that is copied",
            )

    def visit(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if isinstance(s, If) and any(s is g for c in guarded.values() for g in c.guards):
            return rewrite(s.then, visit)
        if isinstance(s, Store) and s.label in guarded:
            copy = guarded[s.label]
            inner = s.value.a if isinstance(s.value, Select) and copy.empty is not None else s.value
            empty = Const(value, s.buffer.dtype) if copy.empty is None else copy.empty
            return replace(s, value=Select(copy.cond, inner, empty))
        return None

    return replace(func, body=rewrite(func.body, visit))
