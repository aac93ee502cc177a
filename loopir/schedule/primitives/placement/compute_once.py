"""compute_once: a stage reads what another one computes, where it would compute the same values itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import dropwhile
from typing import cast

from loopir.analysis.dependence.reordering import violated_dependence
from loopir.arith.prove import nonnegative
from loopir.arith.simplify import poly, simplify_cond
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    TRUE,
    Alloc,
    Body,
    Cond,
    Const,
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
    Value,
    Var,
    conj,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    StmtPath,
    children,
    leaf_paths,
    leaf_paths_of,
    loaded_buffers,
    nodes,
    path_to,
    replace,
    replace_stmt,
    rewrite,
    statements,
    stored_buffers,
    substitute,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_statement, join_names
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.siblings import body_with, extend_lifetime, open_allocs_before
from loopir.schedule.transform.split_range import with_values


@primitive
def compute_once(func: Func, stage: str, reader: str) -> Func:
    """Read in `reader` the elements that `stage` stores, in place of each value that is computed as they are.

    The nest of `stage` moves before that of `reader`, if it stands after it. What it is computed from is the same at
    both places, and each element that is read is stored: guards of `stage` hold where `reader` runs.

    before:
        def f(A: "float32[8]", S: "out float32[1]", E: "out float32[8]"):
            for i in range(8):
                S[0] = sum(exp(A[i]), over=i, init=0.0)
            for j in range(8):
                E[j] = exp(A[j])
    call:    compute_once("E", "S")
    after:
        def f(A: "float32[8]", S: "out float32[1]", E: "out float32[8]"):
            for j in range(8):
                E[j] = exp(A[j])
            for i in range(8):
                S[0] = sum(E[i], over=i, init=0.0)
    refuses: compute_once("S", "E")  # S is no stage that stores each element once

    before:
        def g(A: "inout float32[8]", E: "out float32[6]", S: "out float32[1]", T: "out float32[8]"):
            for j in range(6):
                E[j] = A[j] * 2.0
            for i in range(8):
                S[0] = sum(A[i] * 2.0, over=i, init=0.0)
            for k in range(8):
                A[k] = A[k] + 1.0
            for l in range(8):
                T[l] = A[l] * 2.0
    refuses: compute_once("E", "S")  # S would read E[i], which is not known to be stored
    refuses: compute_once("E", "T")  # A, of E or what it is computed from, is written before T has read it
    refuses: compute_once("E", "A")  # A computes nothing as E does

    before:
        def h(n: "size", A: "float32[n]", E: "inout float32[8]", S: "out float32[1]", T: "out float32[1]"):
            for j in range(8):
                if j < n:
                    E[j] = exp(A[j])
            for i in range(8):
                if i < n - 1:
                    S[0] = sum(exp(A[i]), over=i, init=0.0)
            for k in range(n):
                T[0] = sum(exp(A[k]), over=k, init=0.0)
    call:    compute_once("E", "S")
    after:
        def h(n: "size", A: "float32[n]", E: "inout float32[8]", S: "out float32[1]", T: "out float32[1]"):
            for j in range(8):
                if j < n:
                    E[j] = exp(A[j])
            for i in range(8):
                if i < n - 1:
                    S[0] = sum(E[i], over=i, init=0.0)
            for k in range(n):
                T[0] = sum(exp(A[k]), over=k, init=0.0)
    refuses: compute_once("E", "T")  # T would read E[k], which is not known to be stored
    """
    given, taker = find_statement(func, stage), find_statement(func, reader)
    store, nest, guard = _plain_store(given)
    other = _nest_of(func, nest, taker)
    labels = [p.stmt.label for p in leaf_paths_of(func)]
    if labels.index(store.label) > labels.index(taker.stmt.label):
        new = _move_before(func, nest, other)
        clash = violated_dependence(func, new, moving={store.label})
        if clash is not None:
            reason = f"to compute {store.label} before {taker.stmt.label} would reverse two dependent instances"
            raise refusal(clash, reason, None, "a stage that needs nothing of what is between")
        func = new
    func = extend_lifetime(func, store.buffer.name, taker.stmt)
    return replace_stmt(func, taker.stmt, _reading(func, store, nest, guard, taker, other))


def _plain_store(given: StmtPath) -> tuple[Store, Loop, Cond]:
    """The store, the nest of serial loops in which it alone stands, one for each dimension of its memory in which it is
    not at one place, and the condition on indices under which it is made."""
    s = given.stmt
    own = [*dropwhile(lambda x: not _is_alone(x, s), given.around)]
    loops = [x.var for x in own if isinstance(x, Loop) and x.kind == "serial"]
    indices = [x for x in getattr(s, "at", ()) if not isinstance(x, Int)]
    at = [x.name for x in indices if isinstance(x, Var)]
    guards = [x.cond for x in own if isinstance(x, If) and not loaded_buffers(x.cond)]
    whole = len(loops) + len(guards) == len(own) and isinstance(own[0] if own else None, Loop)
    once = isinstance(s, Store) and sorted(at) == sorted(loops) and len(at) == len(indices)
    if not isinstance(s, Store) or not whole or not once or s.buffer.name in loaded_buffers(s):
        raise ScheduleError(
            f"{s.label} is no stage that stores each element once, in serial loops of its own",
            suggestion="a stage as written, or as compute_at leaves it",
        )
    return s, cast(Loop, own[0]), conj(*guards)


def _is_alone(around: Stmt, s: Stmt) -> bool:
    """Whether `around` is a loop that holds `s`, in further loops and guards or none, and nothing else."""
    inner = _body_of(around)
    while len(inner) == 1:
        if inner[0] is s:
            return True
        inner = _body_of(inner[0])
    return False


def _body_of(s: Stmt) -> Body:
    """What a loop, or a guard, holds."""
    return s.body if isinstance(s, Loop) else s.then if isinstance(s, If) and not s.orelse else ()


def _nest_of(func: Func, nest: Loop, taker: StmtPath) -> Stmt:
    """The nest of `taker` in the statements that `nest` stands in, memory that begins among them opened."""
    path = path_to(func, nest)
    depth = next((n for n in range(len(path) - 1, 0, -1) if not isinstance(path[n - 1], Alloc)), 0)
    level = _without_allocs(body_with(func, path[depth]))
    other = next((x for x in level if any(y is taker.stmt for y in statements((x,)))), None)
    if other is None or other is nest:
        raise ScheduleError(
            f"{taker.stmt.label} is in no nest beside that of loop {nest.var!r}", loop=nest.var,
            suggestion="two nests in one list of statements",
        )  # fmt: skip
    return other


def _without_allocs(body: Body) -> Iterator[Stmt]:
    """The statements of `body`, those in allocations in place of these."""
    for s in body:
        yield from _without_allocs(s.body) if isinstance(s, Alloc) else (s,)


def _move_before(func: Func, nest: Loop, other: Stmt) -> Func:
    """`func` with `nest`, which stands after `other`, right before it."""
    func = open_allocs_before(func, other)
    level = body_with(func, other)
    if not any(s is nest for s in level):
        raise ScheduleError(
            f"memory begins before loop {nest.var!r} that is not there earlier", loop=nest.var,
            suggestion="two nests in one list of statements",
        )  # fmt: skip
    new = {id(other): (nest, other), id(nest): ()}
    return replace(func, body=rewrite(func.body, lambda s: new.get(id(s))))


def _reading(func: Func, store: Store, nest: Loop, guard: Cond, taker: StmtPath, other: Stmt) -> Stmt:
    """The statement of `taker` with loads of what `store` computes instead of computing it again; refused if they may
    differ."""
    s, name = taker.stmt, store.buffer.name
    loops = {x.var: x for x in statements((nest,)) if isinstance(x, Loop)}
    found = {
        x: env
        for v in children(s)
        for x in nodes(v)
        if isinstance(x, Value) and (env := _instance(store.value, x, loops)) is not None
    }
    if not found:
        raise ScheduleError(
            f"{s.label} computes nothing as {store.label} does", suggestion=f"a stage that computes {text(store.value)}"
        )
    paths = [p.stmt for p in leaf_paths_of(func)]
    start, end = ([x.label for x in paths].index(x.label) for x in (store, s))
    between = paths[start + 1 : end] + [p.stmt for p in leaf_paths((other,))]
    changed = set[str]().union(*map(stored_buffers, between)) & {name, *loaded_buffers(store)}
    if changed:
        raise ScheduleError(
            f"{join_names(sorted(changed))}, of {store.label} or what it is computed from, is written before {s.label} "
            f"has read it", suggestion="a stage before that",
        )  # fmt: skip
    _require_stored(func, store, loops, guard, s, found)
    return with_values(
        s, {x: Load(store.buffer, tuple(substitute(a, env) for a in store.at)) for x, env in found.items()}
    )


def _require_stored(
    func: Func,
    store: Store,
    loops: Mapping[str, Loop],
    guard: Cond,
    s: Store | Reduce,
    found: Mapping[Value, dict[str, Index]],
) -> None:
    """Refuse if `s` would read elements that `store` does not store, in `loops` and under `guard`."""
    there, starting = known_at(func, s), {x for v in getattr(s, "init", None) or () for x in nodes(v)}
    for x, env in found.items():
        known = there.start if x in starting else there.here
        for v, at in env.items():
            size = substitute(loops[v].extent, env)
            inside = all(nonnegative(poly(y, known), known) for y in (at, size - 1 - at))
            if not inside or simplify_cond(substitute(guard, env), known) != TRUE:
                element = text(_element(store, env))
                raise ScheduleError(f"{s.label} would read {element}, which is not known to be stored",
                                    suggestion="a stage that stores all that is computed")  # fmt: skip


def _instance(pattern: Value, x: Value, loops: Mapping[str, Loop]) -> dict[str, Index] | None:
    """The values of `loops` at which `pattern` is `x`; None if there are none."""
    if x.dtype != pattern.dtype or not isinstance(x, type(pattern)) or isinstance(x, Const):
        return None
    env: dict[str, Index] = {}
    _bind(pattern, x, loops, env)
    return env if env.keys() == loops.keys() and substitute(pattern, env) == x else None


def _bind(pattern: Node, x: Node, loops: Mapping[str, Loop], env: dict[str, Index]) -> None:
    """Add to `env` what `x` has where `pattern` has one of `loops`, as far as they are alike."""
    if isinstance(pattern, Var):
        if pattern.name in loops and isinstance(x, Index):
            env.setdefault(pattern.name, x)
    elif type(pattern) is type(x):
        for a, b in zip(children(pattern), children(x), strict=False):
            _bind(a, b, loops, env)


def _element(store: Store, env: Mapping[str, Index]) -> Load:
    """The element that `store` stores where its loops have the values `env`."""
    return Load(store.buffer, tuple(substitute(x, env) for x in store.at))
