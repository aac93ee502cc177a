"""torch's types and symbolic sizes as loopir's."""

from __future__ import annotations

from functools import reduce
from operator import add, mul, truediv
from typing import Any

import sympy
import torch

from loopir.frontend.torch.row import Unsupported
from loopir.ir.dtypes import float64
from loopir.ir.grammar import Var
from loopir.tensor.core import as_expr
from loopir.tensor.functions import maximum, minimum
from loopir.tensor.index import IndexExpr, symbol
from loopir.tensor.tensor import Tensor

DTYPE_NAMES: dict[torch.dtype, str] = {
    getattr(torch, name): name
    for name in (
        "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8",
        "uint8", "uint16", "uint32", "uint64", "bool",
    )
}  # fmt: skip


def dtype_name(t: torch.dtype) -> str:
    """loopir's name of a type; Unsupported for complex and quantized ones."""
    name = DTYPE_NAMES.get(t)
    if name is None:
        raise Unsupported(f"elements of {t}")
    return name


class SizeTable:
    """The symbolic sizes of one program, each declared once."""

    def __init__(self) -> None:
        self.symbols: dict[str, Any] = {}

    def convert(self, x: Any) -> Any:
        """A size as a number or an expression of symbols; Unsupported for what depends on data or is no polynomial."""
        if isinstance(x, int):
            return x
        if not isinstance(x, torch.SymInt):
            raise Unsupported(f"a size {x!r}")
        if x.node.is_constant():
            return int(x)
        return self._of(sympy.expand(x.node.expr), x.node.shape_env)

    def real(self, x: torch.SymFloat) -> Tensor:
        """A number that is made of sizes, as the count of elements that a mean divides by, in float64, as torch has it;
        Unsupported for what is no quotient, sum or product."""
        return self._real(x.node.expr, x.node.shape_env)

    def _real(self, e: Any, env: Any) -> Tensor:
        name = type(e).__name__
        if e.is_Float or (e.is_Rational and not e.is_Integer):
            return as_expr(Tensor, float(e), float64)
        if e.is_Add or e.is_Mul or name in ("FloatTrueDiv", "IntTrueDiv"):
            first, *others = (self._real(a, env) for a in e.args)
            step = add if e.is_Add else mul if e.is_Mul else truediv
            return reduce(step, others, first)
        return as_expr(Tensor, self._of(e.args[0] if name == "ToFloat" else e, env), None).astype(float64)

    def _of(self, e: Any, env: Any) -> Any:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            return self._symbol(e, env)
        parts = [self._of(a, env) for a in e.args]
        if e.is_Add or e.is_Mul:
            total = parts[0]
            for p in parts[1:]:
                total = total + p if e.is_Add else total * p
            return total
        if e.is_Pow and isinstance(parts[1], int) and 0 < parts[1] <= 4:
            total = parts[0]
            for _ in range(parts[1] - 1):
                total = total * parts[0]
            return total
        match type(e).__name__:
            case "FloorDiv" | "CleanDiv" if _is_positive(parts[1]):
                return parts[0] // parts[1]
            case "Mod" | "PythonMod" if isinstance(parts[1], int) and parts[1] > 0:
                return parts[0] % parts[1]
            case "Max" | "Min" if len(parts) == 2:
                return (maximum if type(e).__name__ == "Max" else minimum)(*parts)
            case _:
                raise Unsupported(f"a size {e}")

    def _symbol(self, e: Any, env: Any) -> Any:
        name = str(e)
        if name not in self.symbols:
            if not name.startswith("s") or not name.isidentifier():
                raise Unsupported(f"the size {name}, which depends on data")
            lowest = env.var_to_range[e].lower
            self.symbols[name] = symbol(name, min=max(0, int(lowest)) if lowest.is_Integer else 0)
        return self.symbols[name]


def _is_positive(x: Any) -> bool:
    """Whether a size is known to be 1 or more: a number, or a symbol that torch never has less for."""
    if isinstance(x, IndexExpr):
        return x.ix in [Var(name) for name, s in x.symbols.items() if s.min > 0]
    return x > 0
