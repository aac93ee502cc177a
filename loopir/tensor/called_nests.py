"""Call a nest of loops inside a tensor expression: its arrays are tensors, and what it writes is a stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loopir.arith.simplify import simplify_cond
from loopir.errors import ExprError
from loopir.ir.grammar import TRUE, Arg, Body, Buffer, Func, Index, Int, Loop, Size, Stmt, Store, Var
from loopir.ir.printer import text
from loopir.ir.traverse.clone import renamed_declarations
from loopir.ir.traverse.walk import allocated_buffers, replace_buffers, substitute
from loopir.tensor.core import (
    Expr,
    Source,
    Symbols,
    as_expr,
    as_stage,
    default_names,
    next_order,
    stage_reduction,
    staged,
    unique,
)
from loopir.tensor.index import context, same, shown
from loopir.tensor.tensor import Tensor

__all__ = ["call"]


def call(nest: Any, *arrays: Any) -> Any:
    """Run the loops of `nest`, as `@lp.func` makes it, on tensors: its outputs, a tensor or a tuple of them.

    Arrays that it only writes are not given. An array that it changes in place is copied first, and the changed copy is
    an output. Its sizes are those of what is given.

        @lp.func
        def solve(n: "size", L: "float32[n, n]", x: "inout float32[n]"): ...

        y = lp.call(solve, A @ A.T, b) * 2.0
    """
    if not isinstance(nest, Func):
        raise TypeError(f"call takes a nest, made by @lp.func or lp.parse, and then its arrays; not {nest!r}")
    taken = [a for a in nest.args if a.access != "out"]
    if len(arrays) != len(taken):
        names = ", ".join(a.buffer.name for a in taken)
        raise ExprError(f"call of {nest.name}: it reads {len(taken)} arrays ({names}), and {len(arrays)} are given")
    tensors = [stage_reduction(as_expr(Tensor, x, None)) for x in arrays]
    results = staged(Tensor, _source(nest, list(zip(taken, tensors, strict=True))))
    return results[0] if len(results) == 1 else results


def _source(nest: Func, given: list[tuple[Arg, Any]]) -> Source:
    """The stage that `nest` is, with arrays and sizes of its own replaced by those that are given."""
    symbols: Symbols = {name: s for _, t in given for name, s in t.symbols.items()}
    sizes = _sizes_of_call(nest, given, symbols)
    read = [(a.buffer.name, _memory(t, a.buffer.name)) for a, t in given if a.access == "in"]
    written = {a.buffer.name: _sized(a.buffer, sizes, unique(a.buffer.name)) for a in nest.args if a.access != "in"}
    body = renamed_declarations(nest.body, unique, unique)
    inside = allocated_buffers(Func(nest.name, (), (), body))
    buffers = {name: t.source[0].buffers[t.source[1]] for name, t in read} | written
    buffers |= {b.name: _sized(b, sizes, b.name) for b in inside}
    copies = [_copy_nest(written[a.buffer.name], t) for a, t in given if a.access == "inout"]
    deps = dict.fromkeys(d for t in (*(t for _, t in read), *(t for _, t in given)) for d in t.deps)
    return Source(
        nest.name, tuple(written.values()), next_order(), symbols, deps=tuple(deps),
        body=(*copies, *(substitute(replace_buffers(s, buffers), sizes) for s in body)),
    )  # fmt: skip


def _sizes_of_call(nest: Func, given: list[tuple[Arg, Any]], symbols: Symbols) -> dict[str, Index]:
    """The sizes of `nest`, by name, from the shapes of the tensors that it is called on."""
    sizes: dict[str, Index] = {}
    for a, t in given:
        what = f"{a.buffer.name} is {t.described()}"
        if t.dtype != a.buffer.dtype:
            raise ExprError(f"call of {nest.name}: {what}, and it takes {a.buffer.dtype}; .astype converts")
        if t.ndim != len(a.buffer.shape):
            raise ExprError(f"call of {nest.name}: {what}, and it takes {len(a.buffer.shape)} dimensions")
        for own, dim in zip(a.buffer.shape, t.dims, strict=True):
            if isinstance(own, Var):
                sizes.setdefault(own.name, dim)
    missing = [p.name for p in nest.params if isinstance(p, Size) and p.name not in sizes]
    if missing:
        raise ExprError(f"call of {nest.name}: no array that it reads has the size {missing[0]} as a dimension")
    for a, t in given:
        for n, (own, dim) in enumerate(zip(a.buffer.shape, t.dims, strict=True)):
            if not same(substitute(own, sizes), dim, symbols):
                here = shown(substitute(own, sizes), symbols)
                value = "" if isinstance(own, Int) else f", which are {here!r} here"
                raise ExprError(
                    f"call of {nest.name}: {a.buffer.name} is {t.described()}, and takes {text(own)} elements in "
                    f"dimension {n}{value}"
                )
    for c in nest.assumes:
        if simplify_cond(substitute(c, sizes), context(symbols)) != TRUE:
            raise ExprError(f"call of {nest.name}: it assumes {text(c)}, which is not so for all sizes of its arrays")
    return sizes


def _sized(b: Buffer, sizes: dict[str, Index], name: str) -> Buffer:
    if b.layout is not None:
        raise ExprError(f"call: {b.name} has a layout; a nest is called as it is written, and scheduled with the rest")
    return replace(b, name=name, shape=tuple(substitute(d, sizes) for d in b.shape))


def _memory(t: Expr, name: str) -> Any:
    return t if t.source is not None else as_stage(t, name)


def _copy_nest(to: Buffer, t: Expr) -> Stmt:
    """The loops that store the elements of `t` in `to`."""
    loops = [(unique(v), d) for v, d in zip(default_names(t.ndim), t.dims, strict=True)]
    at = tuple(Var(v) for v, _ in loops)
    made: Body = (Store(unique(f"{to.name.partition('#')[0]}_copy"), to, at, t.at(at)),)
    for v, extent in reversed(loops):
        made = (Loop(v, extent, "serial", made),)
    return made[0]
