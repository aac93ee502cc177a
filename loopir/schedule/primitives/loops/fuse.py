"""fuse: two loops, one directly inside the other, become one."""

from __future__ import annotations

from collections.abc import Mapping

from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.analysis.regions.retile import Retiling
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, If, Index, Int, Loop, Mod, Reduce, Stmt, Var, maximum
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    loaded_buffers,
    reduction_starts,
    replace,
    replace_loop,
    rewrite,
    substitute_guard,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_serial
from loopir.schedule.core.naming import new_names, replace_names
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import drop_unused_over


@primitive
def fuse(func: Func, outer: str, inner: str, *, name: str | None = None) -> Func:
    """Fuse `outer` and `inner`, the only statement in it, into one loop called `name`. The order stays.

    before:
        def f(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
            for i in range(n):
                for j in range(m):
                    B[i, j] = A[i, j]
    call:    fuse("i", "j")
    after:
        def f(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
            for i_j in range(m * n):
                B[i_j // m, i_j % m] = A[i_j // m, i_j % m]
    refuses: fuse("j", "i")  # 'i' is not directly inside 'j'

    before:
        def row_sums(A: "float32[4, 8]", S: "out float32[4]"):
            for i in range(4):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: fuse("i", "k")  # S starts over from its init

    before:
        def triangle(A: "float32[8, 8]", B: "out float32[8, 8]"):
            for i in range(8):
                for j in range(i + 1):
                    B[i, j] = A[i, j]
    refuses: fuse("i", "j")  # 'j' runs i + 1 times, which depends on 'i'

    before:
        def column_sums(A: "float32[1, 8]", S: "out float32[8]", T: "inout float32[8]"):
            for k in range(1):
                for i in range(8):
                    S[i] = sum(A[k, i], over=k, init=0.0)
            for q in range(1):
                for j in range(8):
                    T[j] = sum(A[q, j], over=q, init=T[max(j - 1, 0)])
    call:    fuse("k", "i")
    after:
        def column_sums(A: "float32[1, 8]", S: "out float32[8]", T: "inout float32[8]"):
            for k_i in range(8):
                S[k_i] = sum(A[0, k_i], init=0.0)
            for q in range(1):
                for j in range(8):
                    T[j] = sum(A[q, j], over=q, init=T[max(j - 1, 0)])
    refuses: fuse("q", "j")  # T (its init) at (j=1) reads T[0], which T at (q=0, j=0) writes
    """
    a, b = find_serial(func, outer), find_serial(func, inner)
    if a.body != (b,):
        there = "holds more than that loop" if b in a.body else f"has no loop {b.var!r} directly in it"
        reason = f"{b.var!r} is not directly inside {a.var!r} and alone there: {a.var!r} {there}"
        raise ScheduleError(reason, loop=outer, suggestion="reorder the loops into a perfect nest first")
    if a.var in free_vars(b.extent):
        reason = f"{b.var!r} runs {text(b.extent)} times, which depends on {a.var!r}"
        raise ScheduleError(reason, loop=inner, suggestion="fuse loops of a rectangular nest")
    require_stable_extent(a, b)
    starts = _whole_folds(a, b)
    _require_bound_there(Facts.at(func, a), a, b)
    (fused,) = new_names(func, (f"{a.var}_{b.var}",), None if name is None else (name,), freed=(a.var, b.var))
    new = replace_loop(func, a.var, lambda _: _fused(Facts.at(func, a), a, b, fused))
    if starts:
        came = {p.stmt.label: Origin(p.stmt.label, {a.var: Int(0), b.var: Var(fused)}) for p in leaf_paths(b.body)}
        clash = violated_dependence(func, new, came)
        if clash is not None:
            raise refusal(clash, f"{starts} would start in each iteration of {fused!r}", b.var, _SAME_KIND_HINT)
    return new


def _fused(facts: Facts, a: Loop, b: Loop, name: str) -> Loop:
    rows, columns, at = a.extent, b.extent, Var(name)
    if not facts.at_least(rows, 0) and not facts.at_least(columns, 0):
        rows = maximum(rows, 0)  # -1 times -1 iterations are none
    width = maximum(columns, 1) if isinstance(columns, Int) else columns  # no iterations: divided by, but never run
    env: dict[str, Index] = {a.var: at // width, b.var: at % width}
    if rows == Int(1):
        env = {a.var: Int(0), b.var: at}
    still = {v: Mod(at, Int(1)) for v, ix in env.items() if name not in free_vars(ix)}
    inside = rewrite(b.body, lambda s: _relax_guard(s, {a.var, b.var}, env | still))
    inside, size = rewrite(inside, lambda s: _refold(s, a.var, b.var, name)), facts.tidy(rows * columns)
    body = Retiling(env, {}).body(inside, facts.place.loop(name, size, inside))
    return Loop(name, size, "serial", drop_unused_over(body))  # the width may speak of what a fold is over


def _refold(s: Stmt, a: str, b: str, name: str) -> Stmt | None:
    """A Reduce over both loops as one over the fused loop; over one of them, it merely folds into what is there."""
    if not isinstance(s, Reduce):
        return None
    return replace(s, over=replace_names(s.over, {a: (name,) if b in s.over else (), b: ()}))


def _relax_guard(s: Stmt, both: set[str], position: Mapping[str, Index]) -> Stmt | None:
    """A guard that speaks of one of `both`, which is in another position now: still of what is folded over, if a
    reduction over both starts whatever it says."""
    if (
        not isinstance(s, If)
        or free_vars(s.cond).isdisjoint(both)
        or not any(both <= x for x in reduction_starts((s,)))
    ):
        return None
    then, orelse = (rewrite(body, lambda x: _relax_guard(x, both, position)) for body in (s.then, s.orelse))
    return If(substitute_guard(s, position), then, orelse)


def _require_bound_there(facts: Facts, a: Loop, b: Loop) -> None:
    """Refuse if how often `b` runs would be read from memory where `a` has no iterations, and nobody reads it."""
    if loaded_buffers(b.extent) and not facts.at_least(a.extent, 1):
        reason = f"how often {b.var!r} runs is read from memory, and {a.var!r} may have no iterations"
        raise ScheduleError(reason, loop=b.var, suggestion=f"keep {b.var!r} inside")


_SAME_KIND_HINT = "fuse two loops that it folds over, or two that it does not"


def _whole_folds(a: Loop, b: Loop) -> str:
    """Refuse if a statement that starts from an init folds over one of the loops and not over the other.

    It may if that runs once. Over `b`, it starts in every iteration of `a` anyway; over `a`, it would start in all
    iterations of the fused loop, and whether it may is another question: then the statement is returned.
    """
    for place in leaf_paths(b.body):
        s = place.stmt
        if isinstance(s, Reduce) and s.init is not None and (a.var in s.over) != (b.var in s.over):
            one, other = (a, b) if a.var in s.over else (b, a)
            if one.extent == Int(1) and _begins(b, place):
                return s.label if one is a else ""
            reason = (
                f"{s.label} starts over from its init when it enters {one.var!r}, and does not fold over {other.var!r}"
            )
            raise ScheduleError(reason, loop=b.var, suggestion=_SAME_KIND_HINT)
    return ""


def _begins(loop: Loop, place: StmtPath) -> bool:
    """Whether the fold at `place` may start inside `loop` and not before it: nothing else is between the two."""
    return len([*leaf_paths(loop.body)]) == 1 and not any(isinstance(s, If) for s in place.around)
