"""Indices as a person writes them: sizes, loop variables and arithmetic on them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from loopir.analysis.presburger.constraints import ConstraintSystem
from loopir.arith.simplify import Context, simplify, simplify_cond
from loopir.errors import ExprError, VerifyError
from loopir.ir import grammar as ir
from loopir.ir.grammar import Cmp, Cond, Index, Int, Mod, Not, Var
from loopir.ir.printer import text
from loopir.ir.traverse.measure import written_size
from loopir.ir.verify.scope import require_usable


@dataclass(frozen=True, slots=True)
class Symbol:
    """What is known of a size: its name, the least it can be, and a number that divides it."""

    name: str
    min: int
    multiple_of: int

    def __str__(self) -> str:
        least = f", min={self.min}" if self.min != 1 else ""
        return f'lp.symbol("{self.name}"{least}{f", multiple_of={self.multiple_of}" if self.multiple_of > 1 else ""})'

    def assumes(self) -> tuple[Cond, ...]:
        least = (Cmp("<=", Int(self.min), Var(self.name)),) if self.min > 0 else ()
        divisor = (Cmp("==", Mod(Var(self.name), Int(self.multiple_of)), Int(0)),) if self.multiple_of > 1 else ()
        return (*least, *divisor)


Symbols: TypeAlias = "Mapping[str, Symbol]"


OPERATORS: dict[str, Any] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "floor_divide": operator.floordiv,
    "divide": operator.truediv, "remainder": operator.mod, "power": operator.pow, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "left_shift": operator.lshift, "right_shift": operator.rshift,
}  # fmt: skip
"""NumPy's functions that operators call, where the left side is a number of NumPy's."""


class IndexExpr:
    """Integer arithmetic on sizes and loop variables: + - * // % with integers, and comparisons, which give conditions.

    It can index a tensor, and it becomes a value where it meets one.
    """

    __slots__ = ("ix", "symbols")

    def __init__(self, ix: Index, symbols: Symbols) -> None:
        self.ix = ix
        self.symbols = symbols

    def _with(self, other: object, fn: Any, *, swap: bool = False) -> Any:
        if isinstance(other, IndexExpr):
            b, symbols = other.ix, {**self.symbols, **other.symbols}
        elif isinstance(other, int) and not isinstance(other, bool):
            b, symbols = Int(other), self.symbols
        elif isinstance(other, float):
            raise TypeError(
                f"{self!r} is an index, a whole number, and {other!r} is none; lp.cast({self!r}, 'float32') is a value"
            )
        else:
            return NotImplemented
        out = fn(b, self.ix) if swap else fn(self.ix, b)
        return CondExpr(out, symbols) if isinstance(out, Cond) else IndexExpr(_short(out, symbols), symbols)

    def joined(self, other: object, fn: Any) -> Any:
        """`fn` of this index and `other`, in an order that does not matter."""
        return self._with(other, fn)

    def __add__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a + b, swap=True)

    def __sub__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a - b, swap=True)

    def __mul__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a // b)

    def __truediv__(self, other: object) -> Any:
        if isinstance(other, int | float | IndexExpr):
            raise TypeError(f"an index is a whole number: write // for /, or lp.cast of it for a real one, in {self!r}")
        return NotImplemented

    def __mod__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a % b)

    def __neg__(self) -> IndexExpr:
        return IndexExpr(-self.ix, self.symbols)

    def __lt__(self, other: object) -> Any:
        return self._with(other, lambda a, b: Cmp("<", a, b))

    def __le__(self, other: object) -> Any:
        return self._with(other, lambda a, b: Cmp("<=", a, b))

    def __gt__(self, other: object) -> Any:
        return self._with(other, lambda a, b: Cmp("<", b, a))

    def __ge__(self, other: object) -> Any:
        return self._with(other, lambda a, b: Cmp("<=", b, a))

    def __eq__(self, other: object) -> Any:
        return self._with(other, lambda a, b: Cmp("==", a, b))

    def __ne__(self, other: object) -> Any:
        return self._with(other, lambda a, b: Cmp("!=", a, b))

    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> int:
        raise TypeError(
            f"{self!r} is no number until the kernel is called: range, int and lists take numbers; a loop over it is "
            "written with lp.compute, lp.reduce_axis or @lp.func, where a size is a parameter, n: 'size'"
        )

    __int__ = __index__

    def __float__(self) -> float:
        raise TypeError(f"{self!r} is no number until the kernel is called; lp.cast({self!r}, 'float32') is its value")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        operator = OPERATORS.get(ufunc.__name__) if method == "__call__" else None
        if operator is not None and not any(getattr(x, "shape", ()) for x in inputs if not isinstance(x, IndexExpr)):
            return operator(*(x.item() if hasattr(x, "item") else x for x in inputs))
        raise TypeError(f"np.{ufunc.__name__} of the index {self!r}: NumPy takes numbers; lp.{ufunc.__name__} takes it")

    def __abs__(self) -> IndexExpr:
        return self.joined(0 - self, ir.maximum)

    def __repr__(self) -> str:
        return given_name(text(self.ix))


class CondExpr:
    """A condition on indices, for `where` and as a bool value; combine with & | ~."""

    __slots__ = ("cond", "symbols")

    def __init__(self, cond: Cond, symbols: Symbols) -> None:
        self.cond = cond
        self.symbols = symbols

    def __and__(self, other: object) -> Any:
        if not isinstance(other, CondExpr):
            return NotImplemented
        return CondExpr(ir.And((self.cond, other.cond)), {**self.symbols, **other.symbols})

    def __or__(self, other: object) -> Any:
        if not isinstance(other, CondExpr):
            return NotImplemented
        return CondExpr(ir.Or((self.cond, other.cond)), {**self.symbols, **other.symbols})

    def __invert__(self) -> CondExpr:
        return CondExpr(Not(self.cond), self.symbols)

    def __bool__(self) -> bool:
        raise TypeError(
            "a comparison of indices has no truth while an expression is built; use lp.where(cond, a, b), or "
            "lp.minimum and lp.maximum for min and max"
        )


class ReduceAxis(IndexExpr):
    """A loop that a reduction runs over, from 0 to `extent` - 1."""

    __slots__ = ("__weakref__", "extent", "name")

    def __init__(self, name: str, extent: Index, symbols: Symbols) -> None:
        super().__init__(Var(name), symbols)
        self.name = name
        self.extent = extent
        AXES[name] = self


AXES: WeakValueDictionary[str, ReduceAxis] = WeakValueDictionary()
"""Those that somebody holds, by the names of their loops."""
_count = 0


def unique(name: str) -> str:
    """A name that no person's name is equal to; `nest` gives the final ones."""
    global _count
    _count += 1
    return f"{name}#{_count}"


def given_name(text: str) -> str:
    """`text` with names as a person gave them."""
    return re.sub(r"#\d+", "", text)


def symbol(name: str, *, min: int = 1, multiple_of: int = 1) -> IndexExpr:
    """A symbolic size: at least `min`, a multiple of `multiple_of`. One kernel serves every such size.

    Raises ExprError for a name that is no identifier, a negative `min` or a `multiple_of` below 1.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"symbol({name!r}): a size is named by a string; a size that is known is an int")
    if not name.isidentifier():
        raise ExprError(f"symbol({name!r}): a size is named by an identifier")
    require_name(name, f"symbol({name!r})")
    if min < 0 or multiple_of < 1:
        raise ExprError(f"symbol({name!r}): min={min} and multiple_of={multiple_of}; they are at least 0 and 1")
    return IndexExpr(Var(name), {name: Symbol(name, min, multiple_of)})


def require_name(name: str, what: str) -> None:
    """ExprError unless a kernel may call a parameter `name`."""
    try:
        require_usable(name)
    except VerifyError as error:
        raise ExprError(f"{what}: {error}") from None


def reduce_axis(extent: int | IndexExpr, *, name: str = "k") -> ReduceAxis:
    """A loop of `extent` iterations for a reduction in `compute`: `lp.sum(A[i, k] * B[k, j], axis=k)`.

    Raises ExprError for what is no size.
    """
    dim, symbols = dimension(extent, "reduce_axis")
    return ReduceAxis(unique(name), dim, symbols)


WRITTEN = 512
"""How many nodes an index is made of, when it is written out, before it is simplified; and how many it may keep."""


def _short(ix: Index, symbols: Symbols) -> Index:
    """`ix`, simplified where it is long when it is written out; ExprError where that does not make it short."""
    if written_size(ix) > WRITTEN and written_size(ix := simplify(ix, context(symbols))) > WRITTEN:
        raise ExprError(
            f"an index of {written_size(ix)} operations, where {WRITTEN} are the most that one is made of; store a "
            "part of it, as an integer tensor"
        )
    return ix


def dimension(x: object, what: str) -> tuple[Index, Symbols]:
    """A size that a person gave, as an index; ExprError for anything else or a negative one."""
    if isinstance(x, IndexExpr):
        return x.ix, x.symbols
    if isinstance(x, int) and not isinstance(x, bool) and x >= 0:
        return Int(x), {}
    if hasattr(x, "__index__") and not isinstance(x, int):
        return dimension(x.__index__(), what)  # type: ignore[attr-defined]
    raise ExprError(f"{what}: {x!r} is no size; a size is an integer of at least 0 or made from lp.symbol")


def context(symbols: Symbols) -> Context:
    """What the symbols' facts allow to simplify."""
    return Context().given(*(c for s in symbols.values() for c in s.assumes()))


def same(a: Index, b: Index, symbols: Symbols) -> bool:
    """Whether two sizes are equal for all values of the symbols."""
    return a == b or simplify(a - b, context(symbols)) == Int(0) or _never_apart(a, b, symbols)


def at_least(size: Index, number: int, symbols: Symbols) -> bool:
    """Whether a size is `number` or more for all values of the symbols."""
    return simplify_cond(Cmp("<=", Int(number), size), context(symbols)) == ir.TRUE


def _never_apart(a: Index, b: Index, symbols: Symbols) -> bool:
    """Whether no values of the symbols tell the two apart: by integer sets, where no rule of `simplify` says so."""
    system, names = ConstraintSystem(), {v: v for v in symbols}
    for c in (*(Cmp("<=", Int(0), Var(v)) for v in names), *(c for s in symbols.values() for c in s.assumes())):
        system.require(c, "", names)
    system.require(Cmp("!=", a, b), "", names)
    return not system.possible(tuple(names), ())


def shown(d: Index, symbols: Symbols) -> int | IndexExpr:
    """A dimension as a person sees it."""
    return d.value if isinstance(d, Int) else IndexExpr(d, symbols)
