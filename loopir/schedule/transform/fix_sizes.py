"""Fix symbolic sizes of a program: the same program for these sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from loopir.arith.simplify import simplify_cond
from loopir.arith.simplify_func import simplify_func
from loopir.errors import ScheduleError
from loopir.ir.arguments import answer_arguments
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Arg,
    Body,
    Buffer,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    Int,
    Loop,
    Mapped,
    Mod,
    Mul,
    Node,
    Reduce,
    Size,
)
from loopir.ir.printer import text
from loopir.ir.traverse.free_vars import free_vars
from loopir.ir.traverse.rebuild import rebuild
from loopir.ir.traverse.substitute import substitute
from loopir.ir.traverse.walk import replace_buffers
from loopir.schedule.core.find import all_buffers

N = TypeVar("N", bound=Node)


@answer_arguments
def fix_sizes(func: Func, sizes: Mapping[str, int]) -> Func:
    """Substitute `sizes`, by name, in `func`: loops, shapes and guards of these are constants, and no parameters.

        lp.Schedule(lp.fix_sizes(s.func, {"n": 512}))

    ScheduleError for what is no size of `func`, for a negative one, where an assumption of `func` does not hold, and
    where a statement that runs divides by a size of 0.
    """
    if not isinstance(func, Func):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"fix_sizes takes a Func, not a {type(func).__name__}; of a Schedule s it is s.func")
    for name, value in sizes.items():
        if name not in func.sizes:
            known = ", ".join(func.sizes) or "none"
            raise ScheduleError(f"{func.name} has no size {name!r}", suggestion=f"its sizes, which are {known}")
        if value < 0:
            raise ScheduleError(f"{name}={value}: a size is at least 0", suggestion="a number from 0 on")
    env: dict[str, Index] = {name: Int(value) for name, value in sizes.items()}
    buffers = {b.name: _fixed(b, env) for b in all_buffers(func)}
    body = tuple(replace_buffers(s, buffers) for s in func.body)
    body = tuple(substitute(_without_zero_divisors(s, env, ()), env) for s in body)
    params = tuple(
        replace(p, buffer=buffers[p.buffer.name]) if isinstance(p, Arg) else p
        for p in func.params
        if not (isinstance(p, Size) and p.name in env)
    )
    assumes: list[Cond] = []
    for c in func.assumes:
        left = simplify_cond(substitute(c, env))
        if left == FALSE:
            given = ", ".join(f"{name}={value}" for name, value in sizes.items())
            raise ScheduleError(
                f"{func.name} assumes {text(c)}, which {given} does not meet", suggestion=f"sizes for which {text(c)}"
            )
        assumes += [] if left == TRUE else [left]
    return simplify_func(Func(func.name, params, tuple(assumes), body))


def _without_zero_divisors(node: N, env: Mapping[str, Index], skipped: tuple[frozenset[str], ...]) -> N:
    """`node` with divisions by 0 or less made products with 0, where they never run; ScheduleError where they do.

    Each set of `skipped` has the variables of a loop without iterations, or of a guard that is false, around `node`.
    A fold over one of those still initializes its element.
    """

    def visit(n: Any) -> Any:
        return _without_zero_divisors(n, env, skipped)

    def inside(body: Body, names: frozenset[str]) -> Body:
        return tuple(_without_zero_divisors(s, env, (*skipped, names)) for s in body)

    if isinstance(node, FloorDiv | Mod) and _is_none(by := substitute(node.b, env)):
        if not skipped:
            raise ScheduleError(f"{text(node)} divides by {text(by)} at these sizes", suggestion="sizes from 1 on")
        return cast(N, Mul(visit(node.a), Int(0)))
    if isinstance(node, Loop):
        extent = visit(node.extent)
        if _is_none(substitute(extent, env)):
            return cast(N, replace(node, extent=extent, body=inside(node.body, frozenset({node.var}))))
    if isinstance(node, If):
        cond = visit(node.cond)
        truth, names = simplify_cond(substitute(cond, env)), free_vars(cond)
        then = inside(node.then, names) if truth == FALSE else tuple(map(visit, node.then))
        orelse = inside(node.orelse, names) if truth == TRUE else tuple(map(visit, node.orelse))
        return cast(N, If(cond, then, orelse))
    if isinstance(node, Reduce) and node.init is not None:
        started = tuple(names for names in skipped if names.isdisjoint(node.over))
        at = tuple(_without_zero_divisors(x, env, started) for x in node.at)
        init = tuple(_without_zero_divisors(x, env, started) for x in node.init)
        values = tuple(map(visit, node.values))
        return cast(N, replace(node, at=at, init=init, values=values))
    return rebuild(node, visit)


def _is_none(count: Index) -> bool:
    """Whether there are no iterations or elements where these are so many: `m - 1` of a size that is 0."""
    return isinstance(count, Int) and count.value <= 0


def _fixed(buffer: Buffer, env: Mapping[str, Index]) -> Buffer:
    """`buffer` with its shape and layout at these sizes; the dimensions of a layout have names of their own."""
    own = frozenset(buffer.layout.dims) if isinstance(buffer.layout, Mapped) else frozenset[str]()
    inside = {name: value for name, value in env.items() if name not in own}
    shape = tuple(Int(0) if _is_none(d) else d for d in (substitute(x, env) for x in buffer.shape))
    skipped = (frozenset[str](),) if Int(0) in shape else ()  # no element has a place
    layout = buffer.layout and rebuild(
        buffer.layout, lambda x: substitute(_without_zero_divisors(x, inside, skipped), inside)
    )
    return replace(buffer, shape=shape, layout=layout)
