"""What the kinds of loops promise, tried by brute force: the iterations are run, and every access is looked at.

Before lowering, the interpreter runs parallel and bound loops in order, so a promise that does not hold changes nothing
there. Here such a loop is searched for two iterations that touch one element. A vectorized one is run in lockstep and
in order, and the traces compared, which tells more than the results of both do. Nothing of `loopir.analysis` is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopir.ir.grammar import THREAD_AXES, Func, Loop, Reduce, Stmt
from loopir.ir.traverse.walk import leaf_paths, rewrite, statements
from loopir.testing.oracles.access_trace import Event, Pair, Run, crossing
from loopir.testing.oracles.last_writers import Flow, asks_memory


def broken_promise(func: Func, sizes: Mapping[str, int]) -> str | None:
    """Two iterations that run at once and should not, or an element that lanes leave with another history."""
    promised = [s for s in statements(func.body) if isinstance(s, Loop) and s.kind not in ("serial", "unroll")]
    if not promised or asks_memory(func):
        return None
    run = Run(func, dict(sizes))
    for loop in promised:
        if loop.kind != "vectorize":
            clash = next(_clashes(func, run, loop), None)
            if clash is not None:
                return f"iterations of {loop.var}, which is {loop.kind}, clash: {_describe_events(*clash)}"
    if any(x.kind == "vectorize" for x in promised):
        return _lane_difference(func, sizes)
    return None


def serial_lanes(func: Func) -> Func:
    """`func` with lanes that run one after the other."""

    def visit(s: Stmt) -> Stmt | None:
        if isinstance(s, Loop) and s.kind == "vectorize":
            return replace(s, kind="serial", body=rewrite(s.body, visit))
        return None

    return replace(func, body=rewrite(func.body, visit))


def _clashes(func: Func, run: Run, loop: Loop) -> Iterator[Pair]:
    """Accesses of different iterations of `loop` to one element, but for folds that are done as one."""
    reduces = {p.stmt.label: p.stmt for p in leaf_paths(func.body) if isinstance(p.stmt, Reduce)}
    for e, f in crossing(run.events, loop.var):
        r, q = reduces.get(e.label), reduces.get(f.label)
        together = r is q and r is not None and loop.kind in THREAD_AXES and loop.var in r.over
        atomic = r is not None and q is not None and r.atomic and q.atomic and r.monoid == q.monoid
        if not (e.fold and f.fold and (together or atomic)):
            yield e, f


def _describe_events(e: Event, f: Event) -> str:
    def one(x: Event) -> str:
        at = ", ".join(f"{v}={n}" for v, n in x.env)
        return f"{x.label or 'control'} at ({at}) {'writes' if x.write else 'reads'}"

    return f"{one(e)} {e.home[0]}[{', '.join(map(str, e.cell))}], which {one(f)}"


def _lane_difference(func: Func, sizes: Mapping[str, int]) -> str | None:
    """An element of an output whose history is another one when lanes run together."""
    together, alone = Flow(func, dict(sizes)), Flow(serial_lanes(func), dict(sizes))
    for b in func.outputs():
        home = (b.name, frozenset[tuple[str, int]]())
        for where, at in alone.cells:
            if where == home and together.cells.get((home, at)) != alone.cells[home, at]:
                return f"{b.name}[{', '.join(map(str, at))}] comes from other writes when the lanes run together"
    return None
