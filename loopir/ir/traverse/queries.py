"""Queries on statements, memoized per node: nested statements, and the names read, written and declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    If,
    InstrRegion,
    InTurn,
    Kernel,
    Loop,
    Node,
    Prefetch,
    Reduce,
    Stmt,
    Store,
    WarpSpecialized,
)
from loopir.ir.traverse.free_vars import free_vars, guarded_loads, is_affine_visible
from loopir.ir.traverse.memo import memoized, peek_memo
from loopir.ir.traverse.rebuild import children, nodes

T = TypeVar("T")
NESTS = frozenset({Loop, Alloc, InstrRegion, WarpSpecialized, InTurn, Kernel})
"""Statements with one `body`."""


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The statement lists inside `stmt`."""
    if type(stmt) in NESTS:
        return (stmt.body,)  # type: ignore[attr-defined]
    return (stmt.then, stmt.orelse) if isinstance(stmt, If) else ()


def child_stmts(stmt: Stmt) -> list[Stmt]:
    """The statements directly in `stmt`."""
    return [s for body in bodies(stmt) for s in body]


def statements(body: Body) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    pending = [*reversed(body)]
    while pending:
        s = pending.pop()
        yield s
        if type(s) in NESTS:
            holder: Any = s
            pending += holder.body[::-1]
        elif isinstance(s, If):
            pending += (s.then + s.orelse)[::-1]


def statements_unknown(stmt: Stmt, fn: Callable[[Stmt], T]) -> tuple[list[Stmt], list[T]]:
    """`stmt` and the statements in it, but for loops at which the result of the `memoized` function `fn` is stored and
    what is in these; and those results. So what is asked of a nest after a step is not asked of all of it."""
    unknown, known = list[Stmt](), list[T]()
    pending: list[Stmt] = [stmt]
    while pending:
        s = pending.pop()
        if type(s) is Loop and s is not stmt and (found := peek_memo(fn, s)) is not None:
            known.append(found)
            continue
        unknown.append(s)
        if type(s) in NESTS:
            holder: Any = s
            pending += holder.body[::-1]
        elif isinstance(s, If):
            pending += (s.then + s.orelse)[::-1]
    return unknown, known


def is_vector_reduction(loop: Loop) -> bool:
    """Whether `loop` is one reduction over it and nothing else, of what does not depend on the result so far, so that
    its lanes, if it is vectorized, are folded into one another."""
    match loop.body:
        case (Reduce(buffers=into, over=over, atomic=False) as s,):
            return loop.var in over and loaded_buffers(s).isdisjoint({b.name for b in into})
        case _:
            return False


def has_lockstep_lanes(loop: Loop) -> bool:
    """Whether `loop` is vectorized, and what it holds has one length in all lanes, so that they can run in lockstep."""
    if loop.kind != "vectorize":
        return False
    inner = list(statements(loop.body))
    own = {s.buffer.name for s in inner if isinstance(s, Alloc)}
    for s in inner:
        if (isinstance(s, Loop) and s.kind == "vectorize") or (isinstance(s, Reduce) and s.atomic):
            return False
        if isinstance(s, Reduce) and loop.var in s.over:
            return False
        lengths = (s.extent,) if isinstance(s, Loop) else s.buffer.shape if isinstance(s, Alloc) else ()
        for ix in lengths:
            if loop.var in free_vars(ix) or any(isinstance(x, Buffer) and x.name in own for x in nodes(ix)):
                return False
    return True


_NOTHING: frozenset[str] = frozenset()


@memoized
def loaded_buffers(node: Node) -> frozenset[str]:
    """The buffers loaded from anywhere in `node`, without those that are only folded into or prefetched."""
    if isinstance(node, Prefetch):
        return _NOTHING
    if isinstance(node, Stmt) and (inner := child_stmts(node)):
        return _own(node).union(*map(loaded_buffers, inner))
    if isinstance(node, Store | Reduce):
        values = (node.value,) if isinstance(node, Store) else (*node.values, *(node.init or ()))
        parts = (*values, *(x for x in node.at if not is_affine_visible(x)))
        return frozenset([load.buffer.name for x in parts for load, _ in guarded_loads(x)])
    return frozenset([load.buffer.name for load, _ in guarded_loads(node)])


def _own(s: Stmt) -> frozenset[str]:
    """What a statement that holds others reads itself."""
    if isinstance(s, Alloc) or (isinstance(s, Loop) and is_affine_visible(s.extent)):
        return _NOTHING
    return _NOTHING.union(*(loaded_buffers(x) for x in children(s) if not isinstance(x, Stmt | Buffer)))


@memoized
def accessed_buffers(s: Stmt) -> frozenset[str]:
    """The buffers that are read or written anywhere in `s`."""
    if isinstance(s, Store | Reduce):
        return loaded_buffers(s) | leaf_writes(s)
    return _own(s).union(*map(accessed_buffers, child_stmts(s)))


def leaf_writes(s: Store | Reduce) -> frozenset[str]:
    """The buffers that a leaf statement writes."""
    return frozenset([b.name for b in s.buffers])


@memoized
def stored_buffers(s: Stmt) -> frozenset[str]:
    """The buffers that are written anywhere in `s`."""
    return leaf_writes(s) if isinstance(s, Store | Reduce) else _NOTHING.union(*map(stored_buffers, child_stmts(s)))


@memoized
def declared_names(s: Stmt) -> frozenset[str]:
    """The names of the loops, labels, buffers and kernels declared in `s`."""
    if type(s) is Alloc:  # around nests of which it is known
        return frozenset((s.buffer.name,)).union(*map(declared_names, s.body))
    unknown, known = statements_unknown(s, declared_names)
    return frozenset([name for x in unknown if (name := name_of_stmt(x)) is not None]).union(*known)


def name_of_stmt(s: Stmt) -> str | None:
    """The name of a loop, a kernel or what an Alloc allocates, or the label of a statement."""
    if isinstance(s, Loop):
        return s.var
    if isinstance(s, Store) or isinstance(s, Reduce):  # noqa: SIM101  (a union is made anew each time)
        return s.label
    return s.buffer.name if isinstance(s, Alloc) else s.name if isinstance(s, Kernel) else None


@memoized
def reduction_start_loops(s: Stmt) -> frozenset[str]:
    """The loops in `over` of the reductions in `s` that have an `init`."""
    if isinstance(s, Reduce):
        return frozenset(s.over) if s.init is not None else _NOTHING
    return _NOTHING.union(*map(reduction_start_loops, child_stmts(s)))
