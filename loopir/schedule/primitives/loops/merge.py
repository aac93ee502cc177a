"""merge: nests that stand one after the other become one, over the same iterations or with theirs in a row."""

from __future__ import annotations

from loopir.analysis.dependence.access import is_affine_visible
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Body, Cmp, Func, If, Int, Loop, Not, Reduce, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, leaf_paths
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.core.naming import new_names
from loopir.schedule.legality.effects import require_known_starts, require_stable_extent
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import refusal, refusal_in_loops_of
from loopir.schedule.primitives.loops.fuse_loops import fuse_loops
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.siblings import (
    extend_allocs_back,
    join_nests,
    labels,
    lanes_around,
    require_next,
    retiled_body,
)


@primitive
def merge(func: Func, *loops: str, side_by_side: bool = False, name: str | None = None) -> Func:
    """Merge the nests of `loops`, which stand one after the other, into one.

    Over the same iterations, as many loops deep as all nests are perfect and of equal extents: each iteration does
    the work of all. `side_by_side`, the new loop, called `name`, first does the iterations of the first nest, then
    those of the next: in a grid, the blocks of two nests run next to each other, so these have to be independent.

    before:
        def f(n: "size", A: "float32[n, n]", B: "out float32[n, n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    B[i, j] = A[i, j] * 2.0
            for y in range(n):
                for x in range(n):
                    C[y, x] = B[y, x] + 1.0
    call:    merge("i", "y")
    after:
        def f(n: "size", A: "float32[n, n]", B: "out float32[n, n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    B[i, j] = A[i, j] * 2.0
                    C[i, j] = B[i, j] + 1.0
    refuses: merge("y", "i")  # it stands before it
    refuses: merge("i")       # two loops or more

    before:
        def g(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
            for j in range(n):
                C[j] = B[n - 1 - j]
    refuses: merge("i", "j")  # B at (i=1) writes B[1], which C at (j=0) reads later (at n=2)

    before:
        def grid(n: "size", m: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[m]"):
            for i in bind("blockIdx.x", n):
                B[i] = A[i]
            for j in bind("blockIdx.x", m):
                C[j] = A[0]
    call:    merge("i", "j", side_by_side=True, name="block")
    after:
        def grid(n: "size", m: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[m]"):
            for block in bind("blockIdx.x", n + m):
                if block < n:
                    B[block] = A[block]
                else:
                    C[block - n] = A[0]

    before:
        def chain(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in bind("blockIdx.x", n):
                B[i] = A[i]
            for j in bind("blockIdx.x", n):
                C[j] = B[j]
    refuses: merge("i", "j", side_by_side=True)  # iterations of 'i' are not independent

    before:
        def copies(n: "size", A: "float32[n]", C: "out float32[n]"):
            with alloc("float32[n]") as X:
                for i in bind("blockIdx.x", n):
                    X[i] = A[i]
                with alloc("float32[n]") as Y:
                    for j in bind("blockIdx.x", n):
                        Y[j] = A[j]
                    for k in bind("blockIdx.x", n):
                        C[k] = X[k] + Y[k]
    call:    merge("i", "j", side_by_side=True, name="block")
    after:
        def copies(n: "size", A: "float32[n]", C: "out float32[n]"):
            with alloc("float32[n]") as X, alloc("float32[n]") as Y:
                for block in bind("blockIdx.x", n * 2):
                    if block < n:
                        X[block] = A[block]
                    else:
                        Y[block - n] = A[block - n]
                for k in bind("blockIdx.x", n):
                    C[k] = X[k] + Y[k]
    """
    if len(loops) < 2:
        raise ScheduleError("there is nothing to merge", suggestion="two loops or more")
    first = find_loop(func, loops[0]).var
    for other in loops[1:]:
        if side_by_side:
            func = _in_a_row(func, first, find_loop(func, other).var, name)
            first = first if name is None else name
        else:
            func = extend_allocs_back(func, first, find_loop(func, other).var)
            a, b = find_loop(func, first), find_loop(func, other)
            require_next(func, a, b)
            try:
                func = fuse_loops(func, first, other, shift=(0,) * _depth(Facts.at(func, a), a, b))
            except ScheduleError as error:
                if error.suggestion is not None and error.suggestion.startswith("shift="):
                    error.suggestion = f"fuse_loops with {error.suggestion}"
                raise
    return func


def _starts_with(loop: Loop) -> bool:
    """Whether a reduction starts before `loop` as it is over it; all else that stands in a row keeps its order."""
    folds = (p.stmt for p in leaf_paths(loop.body) if isinstance(p.stmt, Reduce))
    return any(s.init is not None and loop.var in s.over for s in folds)


def _depth(facts: Facts, a: Loop, b: Loop) -> int:
    """How many loops of the two nests, from `a` and `b` on, are perfectly nested and of equal extents."""
    depth, spoken = 0, set[str]()
    while facts.equal(a.extent, b.extent) and a.kind == b.kind and not free_vars(a.extent) & spoken:
        depth += 1
        spoken |= {a.var, b.var}
        if len(a.body) != 1 or len(b.body) != 1:
            break
        x, y = a.body[0], b.body[0]
        if not isinstance(x, Loop) or not isinstance(y, Loop):
            break
        a, b = x, y
    return max(depth, 1)


def _require_told_apart(a: Loop, b: Loop) -> None:
    """Refuse if what a reduction in `b` folds into would come to depend on what it is over, by where `a` ends."""
    for p in leaf_paths(b.body):
        spoken = free_vars(a.extent).intersection(p.stmt.over if isinstance(p.stmt, Reduce) else ())
        if spoken and any(b.var in free_vars(x) for x in p.stmt.at):
            reason = f"{p.stmt.label} folds over {join_names(sorted(spoken))}, on which it depends where {a.var!r} ends"
            raise ScheduleError(reason, loop=b.var, suggestion="keep the two nests")


def _in_a_row(func: Func, first: str, second: str, name: str | None) -> Func:
    func = extend_allocs_back(func, first, second)
    a, b = find_loop(func, first), find_loop(func, second)
    require_next(func, a, b)
    if a.kind != b.kind:
        reason = f"{a.var!r} is {a.kind} and {b.var!r} is {b.kind}"
        raise ScheduleError(reason, loop=b.var, suggestion="merge loops of one kind")
    if not is_affine_visible(a.extent):
        reason = (
            f"{a.var!r} runs {text(a.extent)} times, which is read from memory: {b.var!r} starts nobody knows where"
        )
        raise ScheduleError(reason, loop=a.var, suggestion="keep the two nests")
    require_stable_extent(a, b)
    require_known_starts(a, b.extent)
    require_known_starts(b, a.extent)
    _require_told_apart(a, b)
    facts = Facts.at(func, a)
    n, m = (facts.greater(x.extent, Int(0)) for x in (a, b))
    (v,) = new_names(func, (a.var,), None if name is None else (name,), (a.var, b.var))
    at, early, both = {a.var: Var(v), b.var: Var(v) - n}, Cmp("<", Var(v), n), facts.tidy(n + m)

    def moved(x: Loop) -> Body:
        known = facts.place.loop(v, both, x.body, was=x.var).given(early if x is a else Not(early))
        return retiled_body((x,), (v,), (at[x.var],), known)

    mine, theirs = moved(a), moved(b)
    new = join_nests(func, a, b, Loop(v, both, a.kind, (If(early, mine, theirs),)))
    origin = {label: Origin(label, {x.var: at[x.var]}) for x in (a, b) for label in labels(x.body)}
    starts = _starts_with(a) or _starts_with(b)
    clash = violated_dependence(func, new, origin) if starts else None
    if clash is not None:
        reason = f"one loop for {join_names((a.var, b.var))} runs these two the other way round"
        raise refusal(clash, reason, a.var, f"keep the two nests for {clash.witness.buffer}")
    with refusal_in_loops_of(func, origin):
        require_loop_kinds(new, [*lanes_around(func, a), v])
    return new
