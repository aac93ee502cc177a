"""What a nest costs, as formulas in its sizes: operations, elements moved, and the bytes that no schedule avoids.

Formulas are sympy expressions in symbols named as the sizes; sympy is loaded when the first one is asked for. A loop
whose extent depends on an outer loop is summed exactly. Guards are taken to hold and data-dependent loops to be
unknown, so counts under guards are upper bounds, and a loop bound read from memory becomes a symbol of its own.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from loopir.ir.grammar import (
    Add,
    FloorDiv,
    Func,
    Index,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Op,
    Reduce,
    Store,
    Value,
    Var,
)
from loopir.ir.inits import explicit_init
from loopir.ir.text import text
from loopir.ir.walk import Place, nodes, places

FMA_FLOPS = 2


@dataclass(frozen=True, slots=True)
class Cost:
    """Formulas: `flops` (one an arithmetic operation, two an fma), `special` (functions of real numbers), bytes loaded
    and stored by the statements as written, and `compulsory` bytes, each argument moved once in each direction it is
    used in. `by_statement` has the number of instances of each statement, `by_buffer` the bytes of each buffer that are
    loaded and stored."""

    flops: Any
    special: Any
    bytes_loaded: Any
    bytes_stored: Any
    compulsory: Any
    by_statement: Mapping[str, Any]
    by_buffer: Mapping[str, Any]

    @property
    def intensity(self) -> Any:
        """Operations for each compulsory byte."""
        return (self.flops + self.special) / self.compulsory


@lru_cache(maxsize=64)
def cost(func: Func) -> Cost:
    """The formulas of `func`, initial values of reductions counted as stores."""
    import sympy

    flops = special = loaded = stored = sympy.Integer(0)
    counts: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    for p in places(explicit_init(func).body):
        times = instances(p)
        counts[p.stmt.label] = times
        values, targets, folds = _parts(p.stmt)
        ops = [n for v in values for n in nodes(v) if isinstance(n, Op)]
        loads = [n for x in (*values, *p.stmt.at) for n in nodes(x) if isinstance(n, Load)]
        flops += times * sum(FMA_FLOPS if o.fn.name == "fma" else 1 for o in ops if not o.fn.ulp or o.fn.name == "fma")
        special += times * sum(1 for o in ops if o.fn.ulp and o.fn.name != "fma")
        width = sum(b.dtype.bytes for b in targets)
        loaded += times * (sum(n.buffer.dtype.bytes for n in loads) + (width if folds else 0))
        stored += times * width
        for b in (*(n.buffer for n in loads), *targets, *(targets if folds else ())):
            moved[b.name] = moved.get(b.name, 0) + times * b.dtype.bytes
    return Cost(flops, special, loaded, stored, _compulsory(func), counts, moved)


def evaluate(formula: Any, sizes: Mapping[str, int]) -> float:
    """A formula's value at `sizes`; compiled once, then quick."""
    names = tuple(sorted(sizes))
    return _compiled(formula, names)(*(sizes[n] for n in names))


@lru_cache(maxsize=256)
def _compiled(formula: Any, names: tuple[str, ...]) -> Any:
    import sympy

    return sympy.lambdify([symbol(n) for n in names], formula, "math")


def symbol(name: str) -> Any:
    """The sympy symbol of a size or loop: an integer of at least 0."""
    import sympy

    return sympy.Symbol(name, integer=True, nonnegative=True)


def formula(ix: Index) -> Any:
    """An index as a sympy expression; what comes from memory is a symbol."""
    import sympy

    match ix:
        case Int(value):
            return sympy.Integer(value)
        case Var(name):
            return symbol(name)
        case Add(a, b):
            return formula(a) + formula(b)
        case Mul(a, b):
            return formula(a) * formula(b)
        case FloorDiv(a, b):
            return sympy.floor(formula(a) / formula(b))
        case Mod(a, b):
            return sympy.Mod(formula(a), formula(b))
        case Min(a, b):
            return sympy.Min(formula(a), formula(b))
        case Max(a, b):
            return sympy.Max(formula(a), formula(b))
        case _:
            return symbol(f"[{text(ix)}]")


def instances(p: Place) -> Any:
    """How often the statement at `p` runs, guards taken to hold: inner extents summed over outer loops."""
    import sympy

    total = sympy.Integer(1)
    for loop in reversed(p.loops):
        var, extent = symbol(loop.var), formula(loop.extent)
        total = sympy.summation(total, (var, 0, extent - 1)) if total.has(var) else total * extent
    return sympy.expand(total)


def _parts(s: Store | Reduce) -> tuple[tuple[Value, ...], tuple[Any, ...], bool]:
    if isinstance(s, Store):
        return (s.value,), (s.buffer,), False
    return (*s.values, *s.monoid.combine), s.buffers, True


def _compulsory(func: Func) -> Any:
    import sympy

    total = sympy.Integer(0)
    for a in func.args:
        size = sympy.Integer(a.buffer.dtype.bytes)
        for d in a.buffer.shape:
            size *= formula(d)
        total += size * (2 if a.access == "inout" else 1)
    return sympy.expand(total)
