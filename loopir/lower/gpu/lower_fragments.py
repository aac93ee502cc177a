"""Lower fragments to each lane's registers, and instructions to calls with registers and addresses.

The registers of a lane are numbered tile after tile; the first register of an operand follows from the element at which
the operand starts. An operand in memory becomes the address of an element, which depends on the lane where a warp's
instruction takes one address from each lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import cast

from loopir.analysis.regions.operands import address_element, descriptor_words, operand_misfit, span_of
from loopir.arith.poly import const_of
from loopir.arith.prove import nonnegative
from loopir.arith.simplify import Context, poly, simplify
from loopir.errors import LowerError
from loopir.ir.grammar import (
    LANES,
    Alloc,
    Body,
    Buffer,
    Fragment,
    Func,
    If,
    Index,
    InstrCall,
    InstrRegion,
    Int,
    Kernel,
    Load,
    Loop,
    Node,
    Not,
    Reduce,
    RegisterFence,
    Stmt,
    Store,
    TmaBox,
    Var,
)
from loopir.ir.instr.match_nest import match
from loopir.ir.layout.layouts import register_tile, replicas
from loopir.ir.ops import LANE, IssueScope
from loopir.ir.printer import text
from loopir.ir.traverse.walk import map_body, map_kernels, map_stmts, rebuild, statements, substitute
from loopir.lower.target import Target


def lower_fragments(func: Func, target: Target) -> Func:
    """`func` with every InstrRegion as an InstrCall, and every fragment in local memory."""
    return map_kernels(func, lambda s: _kernel(func, s))


def _kernel(func: Func, kernel: Kernel) -> Stmt:
    lanes = _Lanes.of(kernel)

    def visit(s: Stmt, ctx: Context) -> Stmt | Body:
        match s:
            case InstrRegion():
                return _issued(s, ctx, lanes)
            case Loop(var, extent):
                return map_stmts(s, lambda x: visit(x, ctx.loop(var, extent)))
            case If(cond, then, orelse):
                yes, no = ctx.inside(cond), ctx.inside(Not(cond))
                return If(cond, map_body(then, lambda x: visit(x, yes)), map_body(orelse, lambda x: visit(x, no)))
            case Alloc(b, inner):
                done = map_body(inner, lambda x: visit(x, ctx))
                return Alloc(_registers(b), done) if isinstance(b.layout, Fragment) else replace(s, body=done)
            case RegisterFence(b):
                return replace(s, buffer=_registers(b))
            case Store() | Reduce():
                return cast(Stmt, _on_lanes(s, ctx, lanes))
            case _:
                return s

    return replace(kernel, body=map_body(kernel.body, lambda s: visit(s, Context.of(func))))


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The variables of the lanes of a warp, and of the warps of a warpgroup, if there are any."""

    lane: str | None
    warp: str | None

    @staticmethod
    def of(kernel: Kernel) -> _Lanes:
        axes = {s.kind: s.var for s in statements(kernel.body) if isinstance(s, Loop)}
        return _Lanes(axes.get("threadIdx.x"), axes.get("threadIdx.y"))

    def who(self, level: IssueScope) -> dict[str, Index]:
        """The index of the lane in an address that depends on it."""
        if self.lane is None or level == "thread":
            return {}
        return {LANE: Var(self.lane) if level == "warp" else Var(self.warp or "") * LANES + Var(self.lane)}

    def holder(self, layout: Fragment) -> Index:
        """Which of those who hold a fragment together this thread is."""
        lane = Var(self.lane or "")
        return lane if layout.lanes == LANES else Var(self.warp or "") * LANES + lane


def _issued(s: InstrRegion, ctx: Context, lanes: _Lanes) -> Stmt:
    found = match(s, lowered=True)
    if (odd := operand_misfit(s.fn, found, ctx)) is not None:
        raise LowerError(f"{s.fn.name} cannot do this: {odd}")
    out: list[Load] = []
    boxes: list[TmaBox] = []
    for a in s.fn.meaning.args:
        operand = found.operands[a.buffer.name]
        b = operand.buffer
        if isinstance(b.layout, Fragment):
            out.append(Load(_registers(b), (simplify(_first(b, operand.at), ctx),)))
        elif s.fn.boxed is not None and a.buffer.name == s.fn.boxed[0]:
            along = dict(zip(operand.dims, (d.value for d in a.buffer.shape if isinstance(d, Int)), strict=True))
            sizes = tuple(along.get(d, 1) for d in range(len(b.shape)))
            boxes.append(TmaBox(a.buffer.name, b, operand.at, sizes, span_of(s.fn, found)))
            out.append(Load(b, tuple(Int(0) for _ in b.shape)))
        else:
            at = address_element(s.fn.pointers.get(a.buffer.name), operand)
            env = lanes.who(s.fn.level)
            out.append(Load(b, tuple(substitute(x, env) for x in at)))
    return InstrCall(s.fn, tuple(out), descriptor_words(s.fn, found, ctx), tuple(boxes), s.ring, s.blocks)


def _registers(b: Buffer) -> Buffer:
    """What a lane has of `b`."""
    assert isinstance(b.layout, Fragment)
    sizes = [d.value for d in b.shape if isinstance(d, Int)]
    if len(sizes) != len(b.shape):
        raise LowerError(f"{b.name} is a fragment, so its shape has to be constant")
    return Buffer(b.name, (Int(prod(sizes) * replicas(b.layout) // b.layout.lanes),), b.dtype, "local")


def _first(b: Buffer, at: tuple[Index, ...]) -> Index:
    """The first register of the tile that element `at` of `b` is in."""
    layout = b.layout
    assert isinstance(layout, Fragment)
    unit = register_tile(layout) or ()
    units = (*(1 for _ in range(len(b.shape) - len(unit))), *unit)
    number: Index = Int(0)
    for x, size, u in zip(at, b.shape, units, strict=True):
        number = number * (size // u) + x // u
    return number * layout.registers


def _registers_counted(ctx: Context) -> Iterator[Index]:
    """What may be the number of a register: a loop, or two loops right inside one another that count as one."""
    for n, (inner, top) in enumerate(ctx.tops):
        yield inner
        count = const_of(top)
        if count is not None and count > 0:  # a fragment beside has fewer registers for the same elements
            yield from (inner // d for d in (2, 4) if d <= count)
            yield from (inner // d % 2 for d in (1, 2) if 2 * d <= count)
            yield inner % 4
        if n + 1 < len(ctx.tops) and count is not None:
            yield ctx.tops[n + 1][0] * (count + 1) + inner
            yield ctx.tops[n + 1][0]
            yield Int(0)


def _on_lanes(s: Store | Reduce, ctx: Context, lanes: _Lanes) -> Node:
    """`s`, spread over the lanes before, on this lane's registers."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load | Store) and isinstance(n.buffer.layout, Fragment):
            return replace(n, buffer=_registers(n.buffer), at=(_own(n.buffer, n.at, ctx, lanes),))
        if isinstance(n, Reduce) and any(isinstance(b.layout, Fragment) for b in n.buffers):
            where = {_own(b, n.at, ctx, lanes) for b in n.buffers if isinstance(b.layout, Fragment)}
            if len(where) > 1 or not all(isinstance(b.layout, Fragment) for b in n.buffers):
                raise LowerError(f"{n.label} folds into fragments that lanes hold in different ways")
            return replace(n, buffers=tuple(map(_registers, n.buffers)), at=(where.pop(),))
        return n

    return visit(s)


def _own(b: Buffer, at: tuple[Index, ...], ctx: Context, lanes: _Lanes) -> Index:
    """The register that holds element `at`: of its tile the one that a loop around counts, as `spread` wrote it."""
    layout = b.layout
    assert isinstance(layout, Fragment)
    unit = register_tile(layout) or ()
    inner = at[len(at) - len(unit) :]
    for register in _registers_counted(ctx) if lanes.lane is not None else ():
        env = {layout.dims[0]: lanes.holder(layout), layout.dims[1]: register}
        begin = [simplify(x - substitute(y, env), ctx) for x, y in zip(inner, layout.at, strict=True)]
        there = nonnegative(poly(layout.registers - 1 - register, ctx), ctx)  # further ones are in other tiles
        if there and all(simplify(x % u, ctx) == Int(0) for x, u in zip(begin, unit, strict=True)):
            return simplify(_first(b, (*at[: len(at) - len(unit)], *begin)) + register, ctx)
    where = ", ".join(map(text, at))
    raise LowerError(f"which register holds {b.name}[{where}] is not known; go over whole tiles of it, or stage it")
