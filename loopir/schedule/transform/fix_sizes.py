"""Fix symbolic sizes of a program: the same program for these sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopir.arith.simplify import simplify_cond
from loopir.arith.simplify_func import simplify_func
from loopir.errors import ScheduleError
from loopir.ir.grammar import FALSE, TRUE, Arg, Buffer, Cond, Func, Index, Int, Mapped, Size
from loopir.ir.printer import text
from loopir.ir.traverse.rebuild import rebuild
from loopir.ir.traverse.substitute import substitute
from loopir.ir.traverse.walk import replace_buffers
from loopir.schedule.core.find import all_buffers


def fix_sizes(func: Func, sizes: Mapping[str, int]) -> Func:
    """Substitute `sizes`, by name, in `func`: loops, shapes and guards of these are constants, and no parameters.

        lp.Schedule(lp.fix_sizes(s.func, {"n": 512}))

    ScheduleError for what is no size of `func`, for a negative one, and where an assumption of `func` does not hold.
    """
    for name, value in sizes.items():
        if name not in func.sizes:
            known = ", ".join(func.sizes) or "none"
            raise ScheduleError(f"{func.name} has no size {name!r}", suggestion=f"its sizes, which are {known}")
        if value < 0:
            raise ScheduleError(f"{name}={value}: a size is at least 0", suggestion="a number from 0 on")
    env: dict[str, Index] = {name: Int(value) for name, value in sizes.items()}
    buffers = {b.name: _fixed(b, env) for b in all_buffers(func)}
    body = tuple(substitute(replace_buffers(s, buffers), env) for s in func.body)
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


def _fixed(buffer: Buffer, env: Mapping[str, Index]) -> Buffer:
    """`buffer` with its shape and layout at these sizes; the dimensions of a layout have names of their own."""
    own = frozenset(buffer.layout.dims) if isinstance(buffer.layout, Mapped) else frozenset[str]()
    inside = {name: value for name, value in env.items() if name not in own}
    shape = tuple(substitute(x, env) for x in buffer.shape)
    layout = buffer.layout and rebuild(buffer.layout, lambda x: substitute(x, inside))
    return replace(buffer, shape=shape, layout=layout)
