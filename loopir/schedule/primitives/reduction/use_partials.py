"""use_partials: partial results of a fold read those of another one, part by part, and are corrected at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from loopir.analysis.dataflow.correction import Correction, NoCorrection, correction
from loopir.analysis.dataflow.correction_symbolic import propose
from loopir.analysis.dataflow.coverage import fills
from loopir.analysis.dataflow.definitions import nodes_of
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Alloc,
    Buffer,
    Const,
    Func,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
    Var,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.clone import UsedNames
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths_of,
    loaded_buffers,
    rebuild,
    replace,
    rewrite,
    stored_buffers,
    substitute,
    top_level_nests,
)
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.legality.reductions import nested
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.corrections import EXTREMES, has_term_wherever, is_neutral_where_nothing
from loopir.schedule.transform.siblings import extend_lifetime


@primitive
def use_partials(func: Func, stage: str, fold: str) -> Func:
    """Let the partial results that `stage` folds read those that `fold` folds, in place of what these come to.

    Both fold what `rfactor` made, over as many parts. The terms of `stage` change by one scale, or one shift, from the
    partial result of `fold` to the whole one, which is proved from the terms as for `rolling_update`; `stage` corrects
    each partial result when it folds it. So no part waits for another one, and what parts read is read once.

    Where a part's maximum is of nothing but infinities, its terms are made with 0 in its place, which are 0 then.

    before:
        def f(A: "float32[4, 2]", S: "out float32[1]", M: "out float32[1]"):
            with alloc("float32[4]") as M_rf, alloc("float32[4]") as S_rf:
                for p in range(4):
                    for j in range(2):
                        M_rf[p] = max(A[p, j], over=j, init=-inf)
                for q in range(4):
                    M[0] = max(M_rf[q], over=q, init=-inf)
                for p1 in range(4):
                    for k in range(2):
                        S_rf[p1] = sum(exp(A[p1, k] - M[0]), over=k, init=0.0)
                for q1 in range(4):
                    S[0] = sum(S_rf[q1], over=q1, init=0.0)
    call:    use_partials("S", "M")
    after:
        def f(A: "float32[4, 2]", S: "out float32[1]", M: "out float32[1]"):
            with alloc("float32[4]") as M_rf_finite, alloc("float32[4]") as M_rf, alloc("float32[4]") as S_rf:
                for p in range(4):
                    for j in range(2):
                        M_rf[p] = max(A[p, j], over=j, init=-inf)
                for q in range(4):
                    M[0] = max(M_rf[q], over=q, init=-inf)
                for p_1 in range(4):
                    M_rf_finite[p_1] = select(M_rf[p_1] == -inf, 0.0, M_rf[p_1])
                for p1 in range(4):
                    for k in range(2):
                        S_rf[p1] = sum(exp(A[p1, k] - M_rf_finite[p1]), over=k, init=0.0)
                for q1 in range(4):
                    S[0] = sum(select(M_rf[q1] == -inf, 0.0, S_rf[q1] * exp(M_rf_finite[q1] - M[0])), over=q1, init=0.0)
    refuses: use_partials("M", "S")  # not made of their partial results one after the other
    refuses: use_partials("S_rf", "M")  # S_rf is no fold of partial results over one loop

    before:
        def g(A: "float32[4, 2]", S: "out float32[1]", M: "out float32[1]"):
            with alloc("float32[4]") as M_rf, alloc("float32[4]") as S_rf:
                for p in range(4):
                    for j in range(2):
                        M_rf[p] = sum(A[p, j], over=j, init=0.0)
                for q in range(4):
                    M[0] = sum(M_rf[q], over=q, init=0.0)
                for p1 in range(4):
                    for k in range(2):
                        S_rf[p1] = sum(abs(A[p1, k] - M[0]), over=k, init=0.0)
                for q1 in range(4):
                    S[0] = sum(S_rf[q1], over=q1, init=0.0)
    refuses: use_partials("S", "M")  # changes by no one amount as M[0] goes from
    """
    mine, other = _Parts.of(func, stage), _Parts.of(func, fold)
    _require_own_nests(func, mine, other)
    func = extend_lifetime(func, other.partial.buffers[0].name, mine.whole)
    mine, other = _Parts.of(func, stage), _Parts.of(func, fold)
    found = _correction(mine, other)
    names = UsedNames.of(func)
    stand_in = _StandIn.of(func, other, mine, names)
    _require_nothing_is_neutral(mine, other, stand_in)

    def partial(n: Node, part: Index) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, lambda x: partial(x, part))
        whole = isinstance(n, Load) and n.buffer.name == other.whole.buffers[0].name
        return stand_in.load(n.at, part) if whole and isinstance(n, Load) else n

    values = tuple(partial(v, mine.part) for v in mine.partial.values)
    new_partial = replace(mine.partial, values=values)  # pyright: ignore[reportArgumentType]
    (load,) = mine.whole.values
    assert isinstance(load, Load)
    env = {x.name: at for x, at in zip(mine.partial.at, load.at, strict=True) if isinstance(x, Var)}
    now = [substitute(a, env) for a in found.atoms]
    before = [partial(a, substitute(mine.part, env)) for a in now]
    (make,), (kind,) = found.make, found.kinds
    assert make is not None
    by = make(before, now, load.dtype)  # pyright: ignore[reportArgumentType]
    term: Value = Op(REGISTRY["mul" if kind == "scale" else "add"], (load, by))
    if stand_in.nothing is not None:
        read = next(n for n in nodes_of(now) if isinstance(n, Load) and n.buffer.name == other.whole.buffers[0].name)
        empty = Op(REGISTRY["eq"], (other.load(read.at, substitute(mine.part, env)), stand_in.nothing))
        term = Select(ValueToCond(empty), mine.whole.monoid.identity[0], term)
    new_whole = replace(mine.whole, values=(term,))
    start = next(t.nest for t in top_level_nests(func) if any(p.stmt is mine.partial for p in t.places))

    def visit(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if s is start:
            return (*stand_in.made, *rewrite((s,), edit))
        return edit(s)

    def edit(s: Stmt) -> Stmt | None:
        return new_partial if s is mine.partial else new_whole if s is mine.whole else None

    body = rewrite(func.body, visit)
    return replace(func, body=(Alloc(stand_in.buffer, body),) if stand_in.made else body)


@dataclass(frozen=True)
class _Parts:
    """A fold of partial results, and the one that makes these, where they stand."""

    whole_place: StmtPath
    partial_place: StmtPath
    axis: int
    """Which index of the partial results counts the parts."""

    @property
    def whole(self) -> Reduce:
        assert isinstance(self.whole_place.stmt, Reduce)
        return self.whole_place.stmt

    @property
    def partial(self) -> Reduce:
        assert isinstance(self.partial_place.stmt, Reduce)
        return self.partial_place.stmt

    @property
    def part(self) -> Index:
        """The index of the part, in the statement that computes its partial result."""
        return self.partial.at[self.axis]

    @property
    def count(self) -> Index:
        """The number of parts."""
        return next(x.extent for x in self.partial_place.loops if Var(x.var) == self.part)

    @property
    def shared(self) -> tuple[Loop, ...]:
        """The loops around both folds."""
        return tuple(x for x in self.partial_place.loops if any(x is y for y in self.whole_place.loops))

    @property
    def in_one_iteration(self) -> bool:
        """Whether the partial results are memory of an iteration of the loops around both folds, made there first."""
        around, (name,) = self.partial_place.around, stored_buffers(self.partial)
        inside = next((around[n:] for n, x in enumerate(around) if isinstance(x, Alloc) and x.buffer.name == name), ())
        own = bool(inside) and any(inside[0] is x for x in self.whole_place.around)
        first = self.partial_place.path < self.whole_place.path
        return own and first and bool(self.shared) and not any(x is y for x in self.shared for y in inside)

    def load(self, at: tuple[Index, ...], part: Index, buffer: Buffer | None = None) -> Load:
        """The partial result of `part` for the element `at` of the whole one; from a `buffer` like that, if given."""
        (load,) = self.whole.values
        assert isinstance(load, Load)
        env = {x.name: y for x, y in zip(self.whole.at, at, strict=True) if isinstance(x, Var)}
        return Load(buffer or load.buffer, tuple(substitute(x, {**env, self.whole.over[0]: part}) for x in load.at))

    @staticmethod
    def of(func: Func, stage: str) -> _Parts:
        place, *more = find_stage(func, stage)
        s = place.stmt
        if more or not (isinstance(s, Reduce) and len(s.over) == len(s.values) == 1 and isinstance(s.values[0], Load)):
            raise ScheduleError(
                f"{stage} is no fold of partial results over one loop", suggestion="the stage that was rfactored"
            )
        load = s.values[0]
        made = _made_in_parts(func, stage, s, load.buffer.name)
        assert isinstance(made.stmt, Reduce)
        axes = [n for n, x in enumerate(load.at) if x == Var(s.over[0])]
        indices = [x for x in made.stmt.at if isinstance(x, Var)]
        plain = len(axes) == 1 and len({*indices}) == len(made.stmt.at)
        if not plain or not all(isinstance(x, Var | Int) for x in (*load.at, *s.at)):
            raise ScheduleError(
                f"{load.buffer.name} is not read as it is made, part by part", suggestion=f"rfactor of {stage}"
            )
        loops = {x.var: x.extent for x in (*place.loops, *made.loops)}
        if loops[s.over[0]] != loops[indices[axes[0]].name]:
            raise ScheduleError(
                f"{stage} folds another number of parts than {load.buffer.name} has", suggestion="all of them"
            )
        return _Parts(place, made, axes[0])


def _made_in_parts(func: Func, stage: str, s: Reduce, name: str) -> StmtPath:
    """The one fold that makes the partial results `name`, which `s` of `stage` folds, by the monoid of that."""
    touching = [p for p in leaf_paths_of(func) if name in stored_buffers(p.stmt)]
    made = touching[0].stmt if len(touching) == 1 else None
    own = made is not None and any(isinstance(x, Alloc) and x.buffer.name == name for x in touching[0].around)
    fold = isinstance(made, Reduce) and len(made.values) == 1 and made.monoid == s.monoid
    if not (own and fold and isinstance(made, Reduce) and made.init == made.monoid.identity):
        raise ScheduleError(
            f"{name} is not made by one {s.monoid.name} that starts from nothing", suggestion=f"rfactor of {stage}"
        )
    return touching[0]


def _require_own_nests(func: Func, mine: _Parts, other: _Parts) -> None:
    """Refuse unless what is read is there before what reads it: in nests one after the other, or the last two in one
    iteration, whose memory they share; and nothing else reads or writes what changes."""
    nest_of = _nests_by_statement(func)
    one, two, three, four = (nest_of[id(x)] for x in (other.partial, other.whole, mine.partial, mine.whole))
    if not (one < two < three and (three < four or (three == four and mine.in_one_iteration))):
        raise ScheduleError(
            f"{mine.whole.label} and {other.whole.label} are not made of their partial results one after the other",
            suggestion="rfactor both, before nests are fused",
        )
    (mine_name,), (other_name,) = (stored_buffers(x.partial) for x in (mine, other))
    readers = [p.stmt.label for p in leaf_paths_of(func) if mine_name in loaded_buffers(p.stmt)]
    if readers != [mine.whole.label]:
        raise ScheduleError(f"{join_names(readers)} read {mine_name}", suggestion="one fold of the partial results")
    if sum(bool(stored_buffers(other.whole) & stored_buffers(p.stmt)) for p in leaf_paths_of(func)) > 1:
        raise ScheduleError(f"{other_name} is folded into what others store, too", suggestion="a buffer of its own")
    if mine.count != other.count:
        raise ScheduleError(
            f"{mine.whole.label} and {other.whole.label} have parts of other numbers",
            suggestion="split both by one factor, and rfactor the outer loops",
        )


def _correction(mine: _Parts, other: _Parts) -> Correction:
    moving = {b.name for b in other.whole.buffers}
    name = mine.partial.label
    try:
        found = correction(mine.partial.monoid, mine.partial.values, moving, (), propose)
    except NoCorrection as why:
        raise ScheduleError(
            f"{name} cannot be corrected from a part of {join_names(sorted(moving))} to the whole: {why}",
            suggestion="a fold by a monoid that merges parts (lp.welford, lp.expsum), or two passes",
        ) from None
    if found is None:
        raise ScheduleError(
            f"{name} reads nothing of {join_names(sorted(moving))}", suggestion="the fold that its terms read"
        )
    indices = {x for n in nodes_of(found.atoms) if isinstance(n, Load) for ix in n.at for x in free_vars(ix)}
    own = {x.var for x in mine.partial_place.loops if x not in mine.shared}
    if bad := sorted(indices & own.difference(*map(free_vars, mine.partial.at))):
        raise ScheduleError(
            f"{name} needs another element of {join_names(sorted(moving))} for each {join_names(bad)}",
            suggestion="a fold whose terms all read one",
        )
    if len({n for n in nodes_of(found.atoms) if isinstance(n, Load)}) > 1:
        raise ScheduleError(f"{name} reads several elements of {join_names(sorted(moving))}", suggestion="one of them")
    return found


@dataclass(frozen=True)
class _StandIn:
    """What terms read of the partial results of a fold: 0 where these are an extreme of nothing."""

    parts: _Parts
    buffer: Buffer
    nothing: Const | None
    made: tuple[Stmt, ...]

    def load(self, at: tuple[Index, ...], part: Index) -> Load:
        return self.parts.load(at, part, self.buffer)

    @staticmethod
    def of(func: Func, parts: _Parts, mine: _Parts, names: UsedNames) -> _StandIn:
        s = parts.partial
        (b,) = s.buffers
        if s.monoid.name not in EXTREMES:
            return _StandIn(parts, b, None, ())
        nothing = s.monoid.identity[0]

        def value(at: tuple[Index, ...]) -> Value:
            load = Load(b, at)
            return Select(ValueToCond(Op(REGISTRY["eq"], (load, nothing))), Const(0.0, b.dtype), load)

        for p in leaf_paths_of(func):
            made = p.stmt
            if isinstance(made, Store) and made.value == value(made.at) and _is_there_before(func, p, s, mine):
                return _StandIn(parts, made.buffer, nothing, ())  # of another stage
        new = replace(b, name=names.name(f"{b.name}_finite"), layout=None)
        loops = [next(x for x in parts.partial_place.loops if Var(x.var) == v) for v in s.at]
        own = [replace(x, var=names.name(x.var), kind="serial", body=()) for x in loops]
        at = tuple(Var(x.var) for x in own)
        return _StandIn(parts, new, nothing, nested(own, (Store(names.label(new.name), new, at, value(at)),)))


def _is_there_before(func: Func, place: StmtPath, source: Stmt, mine: _Parts) -> bool:
    """Whether the store at `place` alone fills a buffer, after `source` and before `mine`, which may read it."""
    (b,) = place.stmt.buffers
    around = [{x.buffer.name for x in p.around if isinstance(x, Alloc)} for p in (mine.partial_place, mine.whole_place)]
    nest_of = _nests_by_statement(func)
    order = [nest_of[id(x)] for x in (source, place.stmt, mine.partial)]
    sole = sum(b.name in stored_buffers(p.stmt) for p in leaf_paths_of(func)) == 1
    return sole and order == sorted({*order}) and fills(place, b) and all(b.name in names for names in around)


def _nests_by_statement(func: Func) -> dict[int, int]:
    """By the id of each statement, which of the nests one after the other it stands in."""
    return {id(p.stmt): t.nth for t in top_level_nests(func) for p in t.places}


def _require_nothing_is_neutral(mine: _Parts, other: _Parts, stand_in: _StandIn) -> None:
    """Refuse unless all terms of a part are the identity where its extreme is of nothing, and 0 stands for that."""
    if stand_in.nothing is None:
        return
    name = other.whole.buffers[0].name
    loop = next(x for x in mine.partial_place.loops if Var(x.var) == mine.part)
    reads = [n for n in nodes_of(mine.partial.values) if isinstance(n, Load) and n.buffer.name == name]
    read = other.load(reads[0].at, mine.part)
    values = [cast(Value, _with_load(v, reads[0], read)) for v in mine.partial.values]
    place, of = mine.partial_place, other.partial_place
    neutral = has_term_wherever(of, read, place, loop)
    neutral = neutral and is_neutral_where_nothing(of, read, place, values, (float(stand_in.nothing.value), 0.0), loop)
    if not neutral:
        neutral_term, nothing = mine.partial.monoid.identity[0].value, stand_in.nothing.value
        raise ScheduleError(
            f"{mine.partial.label} may have terms that count where {other.partial.label} is of nothing",
            suggestion=f"terms that are {neutral_term} where those of {other.partial.label} are {nothing}",
        )


def _with_load(n: Node, old: Load, new: Load) -> Node:
    if isinstance(n, Buffer):
        return n
    return new if n == old else rebuild(n, lambda x: _with_load(x, old, new))
