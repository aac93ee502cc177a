"""Tensor: what a person holds, with NumPy's operators and methods."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DTypeLike
from loopir.ir.grammar import Buffer, Const, Func
from loopir.tensor import reductions as red
from loopir.tensor.core import (
    Source,
    as_expr,
    as_stage,
    cast,
    common_type,
    compute_in,
    elementwise,
    next_order,
    no_tensor,
    staged,
)
from loopir.tensor.index import OPERATORS, dimension, require_name, unique
from loopir.tensor.nest import to_func
from loopir.tensor.other_names import function_instead, method_instead
from loopir.tensor.views import Views


class Tensor(Views):
    """A tensor expression: placeholders, results of `compute`, and whatever is made from them.

    `.shape`, `.dtype`, `.ndim`, `.name` say what it is. Operators follow NumPy: broadcasting, promotion, `@`,
    slicing, methods. Nothing is computed until a Schedule of it is built and called.
    """

    __slots__ = ()
    functions: ClassVar[frozenset[str]] = frozenset()
    """The names of the functions of tensors, for messages."""

    if TYPE_CHECKING:  # functions that are methods, too: loopir/tensor/__init__.py

        def clip(self, min: Any = None, max: Any = None) -> Tensor: ...
        def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor: ...
        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor: ...
        def ravel(self) -> Tensor: ...
        def repeat(self, repeats: int, axis: int | None = None) -> Tensor: ...
        def round(self, decimals: int = 0) -> Tensor: ...
        def squeeze(self, axis: int | Sequence[int] | None = None) -> Tensor: ...
        def std(self, axis: Any = None, keepdims: bool = False, correction: float = 0, passes: int = 2) -> Tensor: ...
        def swapaxes(self, axis1: int, axis2: int) -> Tensor: ...
        def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor: ...
        def var(
            self, axis: Any = None, keepdims: bool = False, correction: float = 0, passes: int = 2, mean: Any = None
        ) -> Tensor: ...

    else:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            instead = method_instead(name, self.functions)
            raise AttributeError(f"{self.described()} has no {name!r}; {instead}", name=name, obj=self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """A number of NumPy's with an operator; whatever else NumPy is asked to do with a tensor, it cannot."""
        operator = OPERATORS.get(ufunc.__name__) if method == "__call__" else None
        others = [x for x in inputs if not isinstance(x, Tensor)]
        if operator is not None and not any(getattr(x, "shape", ()) for x in others):
            first, second = (as_expr(Tensor, x, None) for x in inputs)
            return operator(first, second)
        arrays = [x for x in others if getattr(x, "shape", ())]
        raise TypeError(
            no_tensor(arrays[0]) if operator is not None and arrays else _not_of_library(self, ufunc.__name__, "np")
        )

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(_not_of_library(self, func.__name__, "np"))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Torch asks here for what a function of its own makes of a tensor expression: nothing."""
        given = [y for x in args for y in (x if isinstance(x, list | tuple) else (x,))] + [*(kwargs or {}).values()]
        name = func.__name__.strip("_")
        arrays = [x for x in given if not isinstance(x, Tensor) and getattr(x, "shape", ())]
        if arrays and name in _OPERATORS_OF_TORCH:
            raise TypeError(no_tensor(arrays[0]))
        raise TypeError(_not_of_library(next(x for x in given if isinstance(x, Tensor)), name, "torch"))

    def __loopir_func__(self, *others: Tensor) -> Func:
        return to_func([self, *others])

    def __repr__(self) -> str:
        return f"<Tensor {self.described()}>"

    def named(self, name: str) -> Tensor:
        """This expression stored in a buffer called `name`: a stage of its own."""
        return as_stage(self, name)

    def astype(self, dtype: DTypeLike) -> Tensor:
        """The elements converted to `dtype`."""
        return cast(self, dtype)

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Tensor:
        return numeric("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return numeric("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return numeric("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return numeric("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return numeric("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return numeric("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return divide(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return divide(other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "floordiv", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return power(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return power(other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Tensor:
        if not isinstance(digits, int | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"round to {digits!r} digits; their number is an int, known while an expression is built")
        return self.round(digits or 0)

    def __neg__(self) -> Tensor:
        return elementwise(Tensor, "neg", self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return absolute(self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return red.product(self, as_expr(Tensor, other, None), None)

    def __rmatmul__(self, other: Any) -> Tensor:
        return red.product(as_expr(Tensor, other, None), self, None)

    # ------------------------------------------------------------ comparisons and logic

    def __lt__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "lt", self, other)

    def __le__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "le", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "lt", other, self)

    def __ge__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "le", other, self)

    def __eq__(self, other: object) -> Any:
        return elementwise(Tensor, "eq", self, other)

    def __ne__(self, other: object) -> Any:
        return elementwise(Tensor, "ne", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "and_", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "or_", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Tensor:
        return elementwise(Tensor, "invert", self)

    def __lshift__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "shl", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "shl", other, self)

    def __rrshift__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "shr", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return elementwise(Tensor, "shr", self, other)

    # ------------------------------------------------------------ reductions

    def sum(self, axis: Any = None, keepdims: bool = False, accum_dtype: DTypeLike | None = None) -> Tensor:
        return reduce_sum(self, axis=axis, keepdims=keepdims, accum_dtype=accum_dtype)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return red.fold(Tensor, "prod", self, axis, keepdims, red.sum_type(self.dtype), "prod").astype(_result(self))

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        name = "any" if self.dtype == dtypes.bool_ else "max"
        return red.fold(Tensor, name, self, axis, keepdims, self.dtype, "max")

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        name = "all" if self.dtype == dtypes.bool_ else "min"
        return red.fold(Tensor, name, self, axis, keepdims, self.dtype, "min")

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduce_mean(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return red.fold(Tensor, "any", as_bool(self), axis, keepdims, dtypes.bool_, "any")

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return red.fold(Tensor, "all", as_bool(self), axis, keepdims, dtypes.bool_, "all")

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return red.arg_extreme(Tensor, "argmax", self, axis, keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return red.arg_extreme(Tensor, "argmin", self, axis, keepdims)


_OTHER_NAMES = {
    "absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "power": "pow", "rint": "round", "amax": "max",
    "amin": "min", "dot": "matmul",
}  # fmt: skip


_OPERATORS_OF_TORCH = frozenset(
    f"{side}{name}"
    for side in ("", "r")
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
    )
)


def _not_of_library(x: Tensor, name: str, library: str) -> str:
    """Why the function `name` of `library` does not take `x`, and what does."""
    ours = _OTHER_NAMES.get(name, name)
    cure = (
        f"lp.{ours} makes the expression"
        if ours in Tensor.functions
        else function_instead(name) or f"lp has no {name}; see dir(lp)"
    )
    return f"{library}.{name} takes arrays, and {x.described()} is an expression: {cure}"


def placeholder(shape: Sequence[Any], dtype: DTypeLike = "float32", *, name: str) -> Tensor:
    """An input array. `shape` are integers and sizes made from `symbol`; `name` is what the kernel calls it.

    Raises ExprError for a size below 0 or a name that is no identifier, TypeError for an unknown dtype.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'placeholder: name={name!r}; a name is a string, as lp.placeholder((n, 8), name="A")')
    if not name.isidentifier():
        raise ExprError(f"placeholder {name!r}: a name is an identifier")
    require_name(name, f"placeholder {name!r}")
    if isinstance(shape, int) or not hasattr(shape, "__iter__"):
        shape = (shape,)
    dims = [dimension(d, f"placeholder {name}") for d in shape]
    symbols = {k: s for _, found in dims for k, s in found.items()}
    b = Buffer(unique(name), tuple(d for d, _ in dims), dtypes.dtype(dtype))
    return staged(Tensor, Source(name, (b,), next_order(), symbols))[0]


@overload
def compute(shape: Sequence[Any], fn: Callable[..., Tensor | float], name: str | None = None) -> Tensor: ...
@overload
def compute(
    shape: Sequence[Any], fn: Callable[..., tuple[Tensor, ...]], name: str | None = None
) -> tuple[Tensor, ...]: ...
def compute(shape: Sequence[Any], fn: Callable[..., Any], name: str | None = None) -> Any:
    """A stage: element [i, j, ...] of a tensor of `shape` is `fn(i, j, ...)`, in a loop nest of its own.

    The loops are called as the parameters of `fn`. A reduction as a whole, `lp.sum(A[i, k], axis=k)`, makes the
    stage a reduction; inside a larger expression it becomes a stage of its own first. One reduction over several
    values gives a tuple of tensors. Raises ExprError where the shapes do not fit.

        >>> A = lp.placeholder((8, 64), "float32", name="A")
        >>> k = lp.reduce_axis(64, name="k")
        >>> lp.compute((8,), lambda i: lp.sum(A[i, k] * A[i, k], axis=k), name="squares")
        <Tensor squares float32[8]>
    """
    return compute_in(Tensor, shape, fn, name)


# ---------------------------------------------------------------- what methods and functions share


def numeric(fn: str, a: Any, b: Any) -> Tensor:
    """Arithmetic; bools add and multiply as NumPy's do, by or and and."""
    if fn in _OF_BOOLS and common_type((a, b)) == dtypes.bool_:
        fn = _OF_BOOLS[fn]
    return elementwise(Tensor, fn, a, b)


_OF_BOOLS = {"add": "or_", "mul": "and_", "maximum": "or_", "minimum": "and_"}


def absolute(x: Tensor) -> Tensor:
    return x if x.dtype == dtypes.bool_ else elementwise(Tensor, "abs", x)


def real_type(t: dtypes.DType) -> dtypes.DType:
    """The float type in which NumPy evaluates a function of real numbers on `t`."""
    if t.is_float:
        return t
    return dtypes.float16 if t.bits <= 8 else dtypes.float32 if t.bits == 16 else dtypes.float64


def mean_type(t: dtypes.DType) -> dtypes.DType:
    """The float type in which NumPy divides and averages `t`: its own, or float64 of integers of any width."""
    return t if t.is_float else dtypes.float64


def divide(a: Any, b: Any) -> Tensor:
    """True division; integers divide as float64."""
    return elementwise(Tensor, "div", a, b, to=mean_type(common_type((a, b))))


def power(a: Any, b: Any) -> Tensor:
    """a ** b: by multiplications for a small whole number b, else for floats."""
    if isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= 16 and isinstance(a, Tensor):
        base = cast(a, common_type((a, b)))
        if b == 0:
            return constant_like(base, 1)
        out, square = None, base
        while b:
            if b & 1:
                out = square if out is None else out * square
            b >>= 1
            square = square * square if b else square
        assert out is not None
        return out
    t = common_type((a, b))
    if not t.is_float:
        raise TypeError("pow of integers takes a whole number from 0 to 16 as its exponent; convert to a float first")
    return elementwise(Tensor, "pow", a, b)


def constant_like(x: Tensor, value: int) -> Tensor:
    """`value` in the shape and type of `x`, whatever `x` holds."""
    return x.like(x.dims, x.dtype, lambda _: Const(value, x.dtype))


def as_bool(x: Tensor) -> Tensor:
    return x if x.dtype == dtypes.bool_ else elementwise(Tensor, "ne", x, 0)


def _result(x: Tensor) -> dtypes.DType:
    """The type of a sum of `x`: the accumulator's, but narrow floats come back as they went in."""
    return x.dtype if x.dtype.is_float else red.sum_type(x.dtype)


def reduce_sum(x: Any, *, axis: Any, keepdims: bool, accum_dtype: DTypeLike | None) -> Tensor:
    e = as_expr(Tensor, x, None)
    accum = red.sum_type(e.dtype) if accum_dtype is None else dtypes.dtype(accum_dtype)
    return cast(red.fold(Tensor, "sum", e, axis, keepdims, accum, "sum"), _result(e) if e.dtype.is_float else accum)


def reduce_mean(x: Any, *, axis: Any, keepdims: bool) -> Tensor:
    e = as_expr(Tensor, x, None)
    t = mean_type(e.dtype)
    work = dtypes.float32 if t.is_narrow else t
    total = red.fold(Tensor, "sum", cast(e, work), axis, keepdims, work, "sum", said_as="mean")
    count: Any = 1
    over = range(e.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    for d in over:
        if not isinstance(d, int):
            raise ExprError("mean takes integer axes; inside compute, divide a sum by the extent")
        count = e.shape[d] * count
    return cast(divide(total, as_expr(Tensor, count, work)), t)
