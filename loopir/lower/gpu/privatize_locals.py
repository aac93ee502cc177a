"""Privatize local memory that is allocated around thread loops: keep each thread's part.

A schedule allocates accumulators outside a serial loop and updates them inside, in nests bound to threads. If no two
threads access one element, each thread gets its own part, indexed as thread 0 indexes it. Otherwise the memory cannot
be local.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import prod
from typing import cast

from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.depend import Pair, conflicts
from loopir.arith.poly import Poly, constant_poly, poly_add, to_index
from loopir.arith.simplify import Context, interval, poly, simplify
from loopir.arith.simplify_func import known_at, statements_known
from loopir.errors import LowerError
from loopir.ir.grammar import (
    BLOCK_AXES,
    LANES,
    THREAD_AXES,
    Alloc,
    Buffer,
    Fragment,
    Func,
    Index,
    Int,
    Kernel,
    Load,
    Loop,
    Node,
    Reduce,
    Stmt,
    Store,
    Var,
)
from loopir.ir.layout.layouts import is_tiled
from loopir.ir.printer import text
from loopir.ir.traverse.memo import cached, memoized
from loopir.ir.traverse.walk import (
    accessed_buffers,
    child_stmts,
    free_vars,
    leaf_paths,
    nodes,
    rebuild,
    replace_buffers,
    rewrite,
    substitute,
)

Axes = dict[str, str]
"""By axis, the loop that is bound to it around a statement, and inside the allocation."""


def privatize_locals(func: Func, kernel: Kernel) -> tuple[Kernel, frozenset[str]]:
    """`kernel` with such memory reduced to one thread's part, and the names of these buffers."""
    names: set[str] = set()

    def visit(s: Stmt) -> Stmt | None:
        if not isinstance(s, Alloc) or s.buffer.scope not in ("local", "fragment"):
            return None
        if s.buffer.scope == "fragment":
            names.add(s.buffer.name)
        if not _divided(s):
            return None
        names.add(s.buffer.name)
        inner = rewrite(s.body, visit)
        _require_own(func, s)
        return _thread_part(func, s, replace(s, body=inner))

    return replace(kernel, body=rewrite(kernel.body, visit)), frozenset(names)


def _divided(alloc: Alloc) -> bool:
    """Whether a thread writes part of the memory: not all of it, as for a reduction over the threads' loops."""
    if any(map(_has_block_loop, alloc.body)):
        return False
    for p in leaf_paths(alloc.body, alloc.buffer.name):
        over = p.stmt.over if isinstance(p.stmt, Reduce) else ()
        written = p.stmt.buffers
        if alloc.buffer in written and any(x.kind in _axes_of(alloc) and x.var not in over for x in p.loops):
            return True
    return False


@memoized
def _has_block_loop(s: Stmt) -> bool:
    """Whether `s` is a loop that is bound to blocks, or holds one."""
    return (isinstance(s, Loop) and s.kind in BLOCK_AXES) or any(map(_has_block_loop, child_stmts(s)))


def _axes_of(alloc: Alloc) -> tuple[str, ...]:
    """The axes whose threads have parts. Those of a warp, or of a warpgroup, share a fragment, by its layout."""
    layout = alloc.buffer.layout
    holders = ("lane", "warp.x") if isinstance(layout, Fragment) and layout.lanes > LANES else ("lane",)
    return tuple(x for x in THREAD_AXES if alloc.buffer.scope != "fragment" or x not in holders)


def _axes_in(alloc: Alloc, around: Sequence[Stmt]) -> Axes:
    """Of what is `around` a statement, `alloc` among it, the loops in `alloc` that are bound to threads."""
    axes, begin = _axes_of(alloc), next(n for n, s in enumerate(around) if s is alloc)
    return {s.kind: s.var for s in around[begin:] if isinstance(s, Loop) and s.kind in axes}


# ---------------------------------------------------------------- the proof


def _require_own(func: Func, alloc: Alloc) -> None:
    """Refuse if two threads touch one element, be it to read."""
    name = alloc.buffer.name
    touching = [s for s in statements_of(func) if name in s.touches and any(a.buffer == name for a in s.accesses)]
    axes = {s.label: _axes_in(alloc, s.place.around) for s in touching}
    for s, t in combinations_with_replacement(touching, 2):
        pairs = [Pair(func, s, a, t, b) for a, b in conflicts(s, t) if a.buffer == name]
        for axis in sorted({*axes[s.label], *axes[t.label]}):
            _require_apart(name, pairs, axes[s.label].get(axis), axes[t.label].get(axis))


def _require_apart(name: str, pairs: Sequence[Pair], u: str | None, v: str | None) -> None:
    """Refuse if instances of one of `pairs` with different indices of an axis, `u` and `v`, meet."""
    difference = {} if u is None else {f"s.{u}": 1}
    difference |= {} if v is None else {f"t.{v}": -1}
    steps = [[({k: sign * c for k, c in difference.items()} | {"": -1}, False)] for sign in (1, -1)]
    for pair in pairs:
        if (clash := next(pair.clashes(steps), None)) is not None:
            raise LowerError(
                f"{name} is local memory, and {clash.witness}, in another thread; give it scope "
                f'"shared", or bind the loops of {pair.s.label} and {pair.t.label} alike'
            )


# ---------------------------------------------------------------- the part


@dataclass(frozen=True)
class _Element:
    """An access to the memory, its place there, what is known, and the loops of threads around it."""

    access: tuple[Index, ...]
    at: tuple[Index, ...]
    known: Context
    axes: Axes

    @cached
    def mine(self) -> tuple[Index, ...]:
        """Where thread 0 has the element."""
        zero = {v: Int(0) for v in self.axes.values()}
        return tuple(simplify(_zero_variables(x, zero, self.known), self.known) for x in self.at)


def _zero_variables(ix: Index, zero: dict[str, Int], known: Context) -> Index:
    p = poly(ix, known)
    for v in zero:
        share, p = _split_sum(p, v)
        p = poly_add(p, poly(substitute(to_index(share), {v: Int(0)}), known))
    return to_index(p)


def _split_sum(p: Poly, v: str) -> tuple[Poly, Poly]:
    """What speaks of `v` in a sum, and the rest."""
    share = {m: c for m, c in p.items() if any(v in free_vars(a) for a in m)}
    return share, {m: c for m, c in p.items() if m not in share}


def _thread_part(func: Func, original: Alloc, alloc: Alloc) -> Alloc:
    """`alloc` with the part of thread 0 alone, which is the shape of every thread's: in the dimensions of the memory,
    or, where threads step through these together, as through the digits of a number, in their one row."""
    found = list(_elements(func, original))
    try:
        return _part_of(alloc, alloc.buffer, found)
    except LowerError:
        row, elements = _as_row(alloc.buffer, found)
        if row is None:
            raise
        return _part_of(alloc, row, elements)


def _as_row(b: Buffer, found: list[_Element]) -> tuple[Buffer | None, list[_Element]]:
    """The memory with one dimension, and where the elements are in it; None where it has a layout, or one already."""
    sizes = [d.value for d in b.shape if isinstance(d, Int)]
    if len(b.shape) < 2 or len(sizes) < len(b.shape) or b.layout is not None:
        return None, []
    elements: list[_Element] = []
    for e in found:
        place: Index = Int(0)
        for x, size in zip(e.at, sizes, strict=True):
            place = place * size + x
        elements.append(replace(e, at=(simplify(place, e.known),)))
    return replace(b, shape=(Int(prod(sizes)),)), elements


def _part_of(alloc: Alloc, b: Buffer, found: list[_Element]) -> Alloc:
    """`alloc` with the part that thread 0 has of `b`, its memory."""
    shares = {_shares(b, e) for e in found}
    shared = {axis: {dict(s).get(axis) for s in shares} - {None} for axis in THREAD_AXES}
    if any(len(x) > 1 for x in shared.values()):
        raise _unclear(b, "threads do not step through it alike in all nests")
    lows, sizes = zip(*(_room(b, d, found) for d in range(len(b.shape))), strict=True) if b.shape else ((), ())
    layout = b.layout if isinstance(b.layout, Fragment) else None
    part = replace(b, shape=tuple(map(Int, sizes)), layout=layout)
    if layout is not None and not (is_tiled(layout, part.shape) and is_tiled(layout, tuple(map(Int, lows)))):
        raise _unclear(b, "a warp does not have whole tiles of it")
    places_of = {e.access: tuple(x - low for x, low in zip(e.mine, lows, strict=True)) for e in found}

    def at_of(at: tuple[Index, ...]) -> tuple[Index, ...]:
        if at not in places_of:
            raise _unclear(b, "its indices are read from it")
        return places_of[at]

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer) or (isinstance(n, Stmt) and b.name not in accessed_buffers(n)):
            return n
        n = rebuild(n, visit)
        match n:
            case Load(buffer, at) | Store(_, buffer, at) if buffer.name == b.name:
                return replace(n, at=at_of(at))
            case Reduce(buffers=buffers, at=at) if any(x.name == b.name for x in buffers):
                if len(buffers) > 1:
                    raise _unclear(b, f"{n.label} folds several values at once")
                return replace(n, at=at_of(at))
            case _:
                return n

    return replace_buffers(cast(Alloc, visit(alloc)), {b.name: part})


def _elements(func: Func, alloc: Alloc) -> Iterator[_Element]:
    """Every access to the memory of `alloc`."""
    name = alloc.buffer.name
    axes = {p.stmt.label: _axes_in(alloc, (alloc, *p.around)) for p in leaf_paths(alloc.body, name)}
    for s, known in statements_known(alloc.body, known_at(func, alloc), lambda s: name in accessed_buffers(s)):
        if not isinstance(s, Store | Reduce):
            continue
        if alloc.buffer in s.buffers:
            yield _Element(s.at, s.at, known.here, axes[s.label])
        for n in nodes(s):
            if isinstance(n, Load) and n.buffer.name == name:
                yield _Element(n.at, n.at, known.here, axes[s.label])


def _shares(b: Buffer, e: _Element) -> tuple[tuple[str, tuple[Index, ...]], ...]:
    """How far the element is, in each dimension, for a thread of an axis, from that of thread 0."""
    out: list[tuple[str, tuple[Index, ...]]] = []
    for axis, v in e.axes.items():
        steps: list[Index] = []
        for x in e.at:
            step = to_index(_split_sum(poly(x, e.known), v)[0])
            if free_vars(step) - {v}:
                raise _unclear(b, f"{text(Load(b, e.at))} is not a fixed step from thread to thread")
            steps.append(substitute(step, {v: Var(axis)}))
        out.append((axis, tuple(steps)))
    return tuple(out)


def _room(b: Buffer, d: int, found: list[_Element]) -> tuple[int, int]:
    """The least index of thread 0's part in dimension `d`, and how many there are."""
    low, high = 1 << 62, -(1 << 62)
    for e in found:
        least, most = interval(poly_add(poly(e.mine[d], e.known), constant_poly(0)), e.known)
        size = b.shape[d]
        if (least is None or most is None) and isinstance(size, Int) and not e.axes:
            least, most = 0, size.value - 1
        if least is None or most is None:
            raise _unclear(b, f"how much of {text(Load(b, e.at))} a thread has is not known")
        low, high = min(low, least), max(high, most)
    return low, high - low + 1


def _unclear(b: Buffer, why: str) -> LowerError:
    return LowerError(
        f'{b.name} is local memory around loops that are bound to threads, and {why}; give it scope "shared"'
    )
