"""The cost of a nest as formulas in its sizes: operations, elements moved, and compulsory traffic.

Formulas are sympy expressions in symbols named as the sizes; sympy is imported at the first one. A loop whose extent
depends on an outer loop is summed exactly, and so is a guard that leaves an interval of a loop. Other guards count as
true, with the more expensive side of a condition (`loopir.analysis.cost.trip_counts`), so that counts are upper bounds;
a loop bound read from memory becomes a symbol of its own.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from loopir.analysis.cost.trip_counts import Counts, sum_over_instances, symbol as symbol, to_sympy
from loopir.errors import page
from loopir.ir.grammar import Func, Load, Op, Reduce, Store, Value
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.traverse.walk import nodes

FMA_FLOPS = 2


@dataclass(frozen=True, slots=True)
class Cost:
    """Formulas: `flops` (one an arithmetic operation, two an fma), `special` (functions of real numbers), bytes loaded
    and stored by the statements as written, where what one statement names twice is loaded once, and `compulsory`
    bytes, each argument moved once in each direction it is used in. `by_statement` has the number of instances of each
    statement, `by_buffer` the bytes of each buffer that are loaded and stored."""

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

    def __str__(self) -> str:
        lines = [
            f"operations: {self.flops} plain, {self.special} of real functions",
            f"bytes: {self.bytes_loaded} loaded, {self.bytes_stored} stored, {self.compulsory} compulsory",
            f"operations a compulsory byte: {self.intensity if self.compulsory != 0 else 'nothing is moved'}",
            *(f"{name}: {count} times" for name, count in self.by_statement.items()),
            *(f"{name}: {moved} bytes loaded and stored" for name, moved in self.by_buffer.items()),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(str(self))


@lru_cache(maxsize=64)
def cost(func: Func) -> Cost:
    """The formulas of `func`, initial values of reductions counted as stores."""
    import sympy

    found = sum_over_instances(explicit_init(func), _instance)
    zero = sympy.Integer(0)
    flops, special, loaded, stored = (found.get(k, zero) for k in ("flops", "special", "loaded", "stored"))
    counts, moved = (
        {k.removeprefix(kind): v for k, v in found.items() if k.startswith(kind)} for kind in (RUNS, MOVES)
    )
    return Cost(flops, special, loaded, stored, _compulsory(func), counts, moved)


RUNS, MOVES = "runs of ", "bytes of "


def _named(kind: str, found: Counts) -> Counts:
    return {k.removeprefix(kind): v for k, v in found.items() if k.startswith(kind)}


def _instance(s: Store | Reduce) -> Counts:
    """What an instance of a statement costs."""
    values, targets, folds = _statement_parts(s)
    ops = [n for v in values for n in nodes(v) if isinstance(n, Op)]
    loads = dict.fromkeys(n for x in (*values, *s.at) for n in nodes(x) if isinstance(n, Load))
    width = sum(b.dtype.bytes for b in targets)
    out: dict[str, Any] = {
        f"{RUNS}{s.label}": 1,
        "flops": sum(FMA_FLOPS if o.fn.name == "fma" else 1 for o in ops if not o.fn.ulp or o.fn.name == "fma"),
        "special": sum(1 for o in ops if o.fn.ulp and o.fn.name != "fma"),
        "loaded": sum(n.buffer.dtype.bytes for n in loads) + (width if folds else 0),
        "stored": width,
    }
    for b in (*(n.buffer for n in loads), *targets, *(targets if folds else ())):
        out[f"{MOVES}{b.name}"] = out.get(f"{MOVES}{b.name}", 0) + b.dtype.bytes
    return out


def evaluate(formula: Any, sizes: Mapping[str, int]) -> float:
    """A formula's value at `sizes`, none less than 0, as loops of length -1 have no iterations; compiled once.

    Exact where it is an integer: n**3/3 + n**2/2 + n/6 in floats is less than 1 at n = 1.
    """
    names = tuple(sorted(sizes))
    value = max(0, _compiled(formula, names)(*(sizes[n] for n in names)))
    return int(value) if value == int(value) else float(value)


@lru_cache(maxsize=256)
def _compiled(formula: Any, names: tuple[str, ...]) -> Any:
    import sympy

    # a quotient of integers is rounded down as one: in floats, the floor of 7 / 3 + 2 / 3 is 2
    over, ratio = sympy.Function("over"), sympy.Function("ratio")
    exact = (
        sympy.sympify(formula)
        .replace(sympy.floor, lambda x: over(*sympy.fraction(sympy.together(x))))
        .replace(lambda x: x.is_Rational and not x.is_Integer, lambda x: ratio(x.p, x.q))
    )
    exactly = {"over": lambda a, b: a // b, "ratio": Fraction}
    return sympy.lambdify([symbol(n) for n in names], exact, [exactly, "math"])


def _statement_parts(s: Store | Reduce) -> tuple[tuple[Value, ...], tuple[Any, ...], bool]:
    if isinstance(s, Store):
        return (s.value,), (s.buffer,), False
    return (*s.values, *s.monoid.combine), s.buffers, True


def _compulsory(func: Func) -> Any:
    import sympy

    total = sympy.Integer(0)
    for a in func.args:
        size = sympy.Integer(a.buffer.dtype.bytes)
        for d in a.buffer.shape:
            size *= to_sympy(d)
        total += size * (2 if a.access == "inout" else 1)
    return sympy.expand(total)
