"""Distribute the elements of a fragment over the lanes that hold them.

A nest over the elements of a fragment becomes loops over lanes, tiles, and registers of a tile; its indices follow from
the fragment's layout. These are the same iterations in another order, each in one lane. A nest that needs an element of
another lane is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

from loopir.analysis.dependence.depend import loop_carried
from loopir.arith.simplify import Context, simplify
from loopir.errors import LowerError
from loopir.intrinsics.nvidia.warp_shuffle import LANE_XOR
from loopir.ir.grammar import (
    GROUP_WARPS,
    LANES,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Fragment,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    Load,
    Loop,
    Not,
    Op,
    Reduce,
    Stmt,
    Store,
    Value,
    Var,
    conj,
)
from loopir.ir.instr.match_nest import linear_coefficients
from loopir.ir.layout.layouts import evaluate, fragment_elements, register_tile, replicas
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    free_vars,
    loaded_buffers,
    map_body,
    map_stmts,
    nodes,
    substitute,
    take_name,
    taken_names,
)
from loopir.lower.target import Target

LANE = "#lane"
"""Stands for the number of a lane in its warp until its loop has a name."""
SEQUENTIAL = ("serial", "unroll", "vectorize")


def distribute_fragments(func: Func, target: Target) -> Func:
    """`func` with every plain nest over a fragment distributed over the lanes."""
    taken = taken_names(func)

    def visit(s: Stmt, ctx: Context) -> Stmt | Body:
        if isinstance(s, InstrRegion):
            return s
        if isinstance(s, Loop | Store | Reduce) and (chain := _chain(s)) is not None:
            return _distribute_nest(func, chain, ctx, taken)
        if isinstance(s, Loop):
            return map_stmts(s, lambda x: visit(x, ctx.loop(s.var, s.extent)))
        if isinstance(s, If):
            yes, no = ctx.inside(s.cond), ctx.inside(Not(s.cond))
            return If(s.cond, map_body(s.then, lambda x: visit(x, yes)), map_body(s.orelse, lambda x: visit(x, no)))
        return map_stmts(s, lambda x: visit(x, ctx))

    return replace(func, body=map_body(func.body, lambda s: visit(s, Context.of(func))))


@dataclass(frozen=True, slots=True)
class _Nest:
    """A perfect nest of sequential loops and guards, and the statement in it, which accesses fragments."""

    loops: tuple[Loop, ...]
    guards: tuple[Cond, ...]
    stmt: Store | Reduce
    held: tuple[tuple[Buffer, tuple[Index, ...]], ...]


def _chain(s: Stmt) -> _Nest | None:
    loops: list[Loop] = []
    guards: list[Cond] = []
    while True:
        if isinstance(s, Loop) and s.kind in SEQUENTIAL and len(s.body) == 1:
            loops.append(s)
            s = s.body[0]
        elif isinstance(s, If) and not s.orelse and len(s.then) == 1:
            guards.append(s.cond)
            s = s.then[0]
        else:
            break
    if not isinstance(s, Store | Reduce):
        return None
    written = s.buffers
    touched = [*((b, s.at) for b in written), *((n.buffer, n.at) for n in nodes(s) if isinstance(n, Load))]
    held = tuple((b, at) for b, at in touched if _is_held(b))
    return _Nest(tuple(loops), tuple(guards), s, held) if held else None


def _is_held(b: Buffer) -> bool:
    return isinstance(b.layout, Fragment)


def _distribute_nest(func: Func, nest: _Nest, ctx: Context, taken: set[str]) -> Body:
    b, at = max(nest.held, key=lambda x: prod(register_tile(x[0].layout) or ()))  # the others are beside its tiles
    layout = b.layout
    assert isinstance(layout, Fragment)
    unit = register_tile(layout) or ()
    inner = reduce(lambda c, x: c.loop(x.var, x.extent), nest.loops, ctx)
    along = _tile_loops(nest, b, at, unit, inner)
    for other, where in nest.held:
        if (other, where) == (b, at):
            continue
        if (register_tile(other.layout) or ()) == unit and not _is_beside(where, nest, unit):
            _require_owner(nest, (b, along), (other, _tile_loops(nest, other, where, unit, inner)))
        else:
            _require_beside(nest, (b, along, unit), (other, where))
    for v in () if _folds_into_held(nest) else along:
        if (clash := loop_carried(func, v)) is not None:
            raise LowerError(f"{clash.witness}, in another lane, which nothing orders; stage {b.name} in shared memory")

    def name(hint: str) -> str:
        made = take_name(hint, taken)
        return made

    if _is_shared_fold(nest, layout):
        return _folded_across_lanes(nest, (b, along), inner, name)
    return _distributed(nest, layout, along, nest.stmt, name)


def _distributed(nest: _Nest, layout: Fragment, along: tuple[str, ...], stmt: Stmt, name: Callable[[str], str]) -> Body:
    """The loops of `nest` with `stmt` in them, each iteration by the lane that holds the element of a fragment of
    `layout` that `along` counts. LANE in `stmt` is the number of the lane in its warp."""
    label = nest.stmt.label
    threads, thread = _threads(layout, label, name)
    registers = [Loop(name(f"{label}_r"), Int(layout.registers), "unroll", ())]
    number: Index = Var(registers[0].var)
    if _in_pairs(nest, layout):
        registers = [replace(registers[0], extent=Int(layout.registers // 2))]
        registers.append(Loop(name(f"{label}_v"), Int(2), "vectorize", ()))
        number = number * 2 + Var(registers[1].var)
    env = {layout.dims[0]: thread, layout.dims[1]: number}
    new: dict[str, Index] = {LANE: Var(threads[-1].var)}
    tiles: list[Loop] = []
    for v, size, x in zip(along, register_tile(layout) or (), layout.at, strict=True):
        count = _tiles(nest, v, size)
        new[v] = substitute(x, env) + (Var(v) * size if count > 1 else 0)
        if count > 1:
            tiles.append(Loop(v, Int(count), "unroll", ()))
    body: Body = (stmt,)
    guards = nest.guards
    if (count := replicas(layout)) > 1 and not _stays_held(stmt):
        guards = (*guards, Cmp("==", Var(LANE) % count, Int(0)))  # one of those that hold it
    if guards:
        body = (If(conj(*guards), body),)
    body = tuple(substitute(s, new) for s in body)
    first = next(n for n, x in enumerate(nest.loops) if x.var in along)
    inside = [x for x in nest.loops[first:] if x.var not in along]
    for loop in reversed([*nest.loops[:first], *threads, *tiles, *registers, *inside]):
        body = (replace(loop, body=body),)
    return body


def _stays_held(s: Stmt) -> bool:
    """Whether `s` writes fragments alone."""
    return _is_held(s.buffer) if isinstance(s, Store) else isinstance(s, Reduce) and all(map(_is_held, s.buffers))


def _is_shared_fold(nest: _Nest, layout: Fragment) -> bool:
    """Whether lanes that hold terms of their own, of a fragment of `layout`, fold into an element that all hold."""
    s = nest.stmt
    into = s.buffers[0].layout if isinstance(s, Reduce) else None
    return isinstance(into, Fragment) and replicas(into) > replicas(layout)


def _folded_across_lanes(
    nest: _Nest, one: tuple[Buffer, tuple[str, ...]], ctx: Context, name: Callable[[str], str]
) -> Body:
    """The fold of what each lane holds into a part of its own, the parts of lanes that hold the same element exchanged
    until each has the whole, and that folded into what the lanes hold."""
    (b, along), s = one, nest.stmt
    assert isinstance(s, Reduce)
    assert isinstance(b.layout, Fragment)
    into, layout = s.buffers[0], s.buffers[0].layout
    assert isinstance(layout, Fragment)
    count = replicas(layout)
    if len(s.buffers) > 1 or replicas(b.layout) > 1:
        raise LowerError(f"{s.label} folds several values, or of what several lanes hold, across lanes")
    own = _tile_loops(nest, into, s.at, register_tile(layout) or (), ctx)
    outer = next(n for n, x in enumerate(nest.loops) if x.var in along)
    if not {*own} <= {*along} or any(Var(x.var) in s.at for x in nest.loops[outer:] if x.var not in own):
        raise LowerError(f"{s.label} folds into {into.name} along other loops than {b.name} has; stage one of them")
    parts, theirs = (_partial_fragment(nest, own, count, x, name) for x in ("parts", "theirs"))
    at: tuple[Index, ...] = (*map(Var, own), Var(LANE) % count)
    loops = tuple(x for x in nest.loops[outer:] if x.var in own)
    alone = _Nest(loops, (), s, ())

    def fold(of: Value) -> Reduce:
        return replace(s, buffers=(parts,), at=at, values=(of,), over=(), init=None, label=name(s.label))

    def each(stmt: Stmt) -> Body:
        return _distributed(alone, layout, own, stmt, name)

    body = each(Store(name(s.label), parts, at, s.monoid.identity[0]))
    body += _distributed(replace(nest, loops=nest.loops[outer:]), b.layout, along, fold(s.values[0]), name)
    for n in range(count.bit_length() - 1):
        body += each(Store(name(theirs.name), theirs, at, Op(LANE_XOR[1 << n], (Load(parts, at),))))
        body += each(fold(Load(theirs, at)))
    body += each(replace(s, values=(Load(parts, at),), over=(), init=None))
    body = (Alloc(parts, (Alloc(theirs, body),)),)
    for loop in reversed(nest.loops[:outer]):
        body = (replace(loop, body=body),)
    return body


def _partial_fragment(nest: _Nest, own: tuple[str, ...], count: int, kind: str, name: Callable[[str], str]) -> Buffer:
    """A fragment like that which `nest` folds into, with an element for each of the `count` lanes that hold one."""
    assert isinstance(nest.stmt, Reduce)
    (into,) = nest.stmt.buffers
    layout = into.layout
    assert isinstance(layout, Fragment)
    sizes = tuple(next(x.extent for x in nest.loops if x.var == v) for v in own)
    held = Fragment(layout.lanes, layout.registers, layout.dims, (*layout.at, Var(layout.dims[0]) % count))
    return Buffer(name(f"{nest.stmt.label}_{kind}"), (*sizes, Int(count)), into.dtype, "fragment", held)


def _folds_into_held(nest: _Nest) -> bool:
    """Whether what is folded into is a fragment: each element has one lane, which alone folds into it."""
    s = nest.stmt
    return isinstance(s, Reduce) and all(map(_is_held, s.buffers))


def _is_beside(where: tuple[Index, ...], nest: _Nest, unit: tuple[int, ...]) -> bool:
    """Whether an element is found by other indices than one loop a dimension."""
    loops: Mapping[str, Loop] = {x.var: x for x in nest.loops}
    return any(linear_coefficients(x, loops) is None for x in where[len(where) - len(unit) :])


def _require_beside(
    nest: _Nest, one: tuple[Buffer, tuple[str, ...], tuple[int, ...]], two: tuple[Buffer, tuple[Index, ...]]
) -> None:
    """Refuse if a lane that holds an element of one fragment needs an element of another, of tiles of any kind, that it
    does not hold: tried for all elements, as other loops move by whole tiles."""
    (b, along, unit), (c, where) = one, two
    assert isinstance(b.layout, Fragment)
    assert isinstance(c.layout, Fragment)
    if b.layout.lanes != c.layout.lanes:
        raise LowerError(f"{nest.stmt.label} pairs {b.name} and {c.name}, which other threads hold")
    size = register_tile(c.layout) or ()
    owner, group = _owners(c.layout), replicas(c.layout)
    inner = [_without_tiles(nest, x, n, along, c) for x, n in zip(where[len(where) - len(size) :], size, strict=True)]
    held = fragment_elements(b.layout)
    lanes = np.arange(len(held))[:, None] // group * group
    for tiles in np.ndindex(*(_tiles(nest, v, n) for v, n in zip(along, unit, strict=True))):
        env = {v: held[..., d] + n * unit[d] for d, (v, n) in enumerate(zip(along, tiles, strict=True))}
        need = [np.broadcast_to(evaluate(x, env), held.shape[:2]) % n for x, n in zip(inner, size, strict=True)]
        wrong = np.argwhere(owner[tuple(need)] != lanes)
        if len(wrong):
            lane, register = map(int, wrong[0])
            at = [int(x[lane, register]) for x in need]
            raise LowerError(
                f"{nest.stmt.label}: lane {lane}, which holds register {register} of {b.name}, needs "
                f"{c.name}[{', '.join(map(str, at))}], which lane {owner[tuple(at)]} holds; stage it in shared memory"
            )


@lru_cache(maxsize=256)
def _owners(layout: Fragment) -> Any:
    """By element of a tile, the first of those lanes that hold it: an array of the shape of the tile."""
    owner, group = np.zeros(register_tile(layout) or (), int), replicas(layout)
    for lane, xs in enumerate(fragment_elements(layout)[::group]):
        owner[tuple(xs.T)] = lane * group
    return owner


def _without_tiles(nest: _Nest, at: Index, size: int, along: tuple[str, ...], c: Buffer) -> Index:
    """`at` without what other variables than `along` add, which has to be whole tiles of `size` elements of `c`."""
    others = sorted(free_vars(at) - {*along})
    parts = linear_coefficients(at, dict.fromkeys(others))
    if parts is None or any(k % size for k in parts[0].values()):
        raise LowerError(
            f"{nest.stmt.label} moves along {c.name} by less than a tile of it with {', '.join(others)}; "
            f"stage it in shared memory"
        )
    return parts[1]


def _threads(layout: Fragment, label: str, name: Callable[[str], str]) -> tuple[list[Loop], Index]:
    """The loops over those who hold a fragment, the lanes of a warp or of all warps of a warpgroup, and the holder."""
    lane = Loop(name(f"{label}_lane"), Int(LANES), "lane", ())
    if layout.lanes == LANES:
        return [lane], Var(lane.var)
    warp = Loop(name(f"{label}_warp"), Int(GROUP_WARPS), "warp.x", ())
    return [warp, lane], Var(warp.var) * LANES + Var(lane.var)


def _in_pairs(nest: _Nest, layout: Fragment) -> bool:
    """Whether `nest` stores, somewhere else, and the registers of a lane hold two neighbours along a row each."""
    s = nest.stmt
    if not isinstance(s, Store) or _is_held(s.buffer) or layout.registers % 2 or s.buffer.name in loaded_buffers(s):
        return False
    held = fragment_elements(layout)
    step = held[:, 1::2] - held[:, ::2]
    return bool((step[..., -1] == 1).all() and (step[..., :-1] == 0).all())


def _tiles(nest: _Nest, var: str, size: int) -> int:
    extent = next(x.extent for x in nest.loops if x.var == var)
    assert isinstance(extent, Int)
    return extent.value // size


def _whole_tile_loop(
    x: Index, size: int, free: Mapping[str, Loop], loops: Mapping[str, Loop], ctx: Context
) -> str | None:
    """The one of the loops `free` that moves the subscript `x` over whole tiles of `size`, from the start of one."""
    parts = linear_coefficients(x, loops)
    moving = [v for v, c in parts[0].items() if c == 1 and v in free] if parts else []
    whole = [v for v in moving if isinstance(n := free[v].extent, Int) and n.value and n.value % size == 0]
    return whole[0] if len(whole) == 1 and simplify((x - Var(whole[0])) % size, ctx) == Int(0) else None


def _tile_loops(nest: _Nest, b: Buffer, at: tuple[Index, ...], unit: tuple[int, ...], ctx: Context) -> tuple[str, ...]:
    """The loop that runs along each dimension of the tiles of `b`: over whole tiles, from the start of one."""
    out: list[str] = []
    loops: Mapping[str, Loop] = {x.var: x for x in nest.loops}
    layout = b.layout
    assert isinstance(layout, Fragment)
    if (register_tile(layout) or ()) != unit or len(unit) > len(at):
        raise LowerError(
            f"{nest.stmt.label} goes over {b.name} beside a fragment of other tiles; stage it in shared memory"
        )
    for x, size in zip(at[len(at) - len(unit) :], unit, strict=True):
        v = _whole_tile_loop(x, size, {v: loop for v, loop in loops.items() if v not in out}, loops, ctx)
        if v is None:
            raise LowerError(_not_whole(nest, b, x, f"does not go over whole tiles of {size}"))
        out.append(v)
    first = next(n for n, x in enumerate(nest.loops) if x.var in out)
    others = [x.var for x in nest.loops[first:] if x.var not in out]
    if others and isinstance(nest.stmt, Store):
        raise LowerError(_not_whole(nest, b, at[-1], f"is stored again in each iteration of {others[0]}"))
    return tuple(out)


def _not_whole(nest: _Nest, b: Buffer, x: Index, why: str) -> str:
    return f"{nest.stmt.label} goes over the fragment {b.name} in a way that its lanes cannot share: {text(x)} {why}"


def _require_owner(nest: _Nest, one: tuple[Buffer, tuple[str, ...]], two: tuple[Buffer, tuple[str, ...]]) -> None:
    """Refuse if a lane that holds an element of one fragment needs an element of the other that it does not hold."""
    (b, along), (c, across) = one, two
    assert isinstance(b.layout, Fragment)
    assert isinstance(c.layout, Fragment)
    held = fragment_elements(b.layout)[..., [along.index(v) for v in across]] if {*along} == {*across} else None
    if held is None or b.layout.lanes != c.layout.lanes:
        raise LowerError(f"{nest.stmt.label} pairs {b.name} and {c.name} along other loops; stage one in shared memory")
    owner, group = _owners(c.layout), replicas(c.layout)
    wrong = np.argwhere(owner[tuple(np.moveaxis(held, -1, 0))] != np.arange(len(held))[:, None] // group * group)
    if len(wrong):
        lane, register = map(int, wrong[0])
        need = tuple(map(int, held[lane, register]))
        raise LowerError(
            f"{nest.stmt.label}: lane {lane}, which holds register {register} of {b.name}, needs "
            f"{c.name}[{', '.join(map(str, need))}], which lane {owner[need]} holds; stage it in shared memory"
        )
