"""The monoids known by name: each made for the dtypes of its components, with its exact identity."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from loopir.intrinsics.ops import arith, compare, math as functions
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Const, Monoid, Op, Param, Select, Value, ValueToCond
from loopir.ir.ops import ASCENDING, MONOIDS, Intrinsic


def _fold(name: str, fn: Intrinsic, identity: Callable[[DType], int | float | bool]) -> None:
    def make(types: tuple[DType, ...]) -> Monoid:
        (t,) = types
        a, b = Param("a", t), Param("b", t)
        return Monoid(name, (a,), (b,), (Op(fn, (a, b)),), (Const(identity(t), t),))

    MONOIDS[name] = make


_fold("sum", arith.add, lambda t: 0)
_fold("prod", arith.mul, lambda t: 1)
_fold("min", arith.minimum, lambda t: t.greatest)
_fold("max", arith.maximum, lambda t: t.least)
_fold("any", arith.or_, lambda t: False)
_fold("all", arith.and_, lambda t: -1 if t.kind == "int" else t.greatest)  # every bit set


def _both(a: Value, b: Value) -> Value:
    return Op(arith.and_, (a, b))


def _arg(name: str, worst: Callable[[DType], int | float | bool], *, larger: bool) -> None:
    """The value and the index of the extreme: first index on ties; NaN is more extreme than any number (NumPy).

    Where indices ascend, (v, i) is the identity, whose index is above all, or i is below j: what beats w is then among
    what is as good, and before it."""

    def make(types: tuple[DType, ...], *, ascending: bool) -> Monoid:
        t, at = types
        v, i, w, j = Param("v", t), Param("i", at), Param("w", t), Param("j", at)
        more, less = (v, w) if larger else (w, v)
        beats: Value = Op(compare.lt, (less, more))
        as_good: Value = Op(compare.le, (less, more))
        if t.is_float:
            nan_v, nan_w = Op(functions.isnan, (v,)), Op(functions.isnan, (w,))
            beats = _both(Op(arith.invert, (Op(compare.le, (more, less)),)), Op(arith.invert, (nan_w,)))
            as_good = Op(arith.or_, (as_good, nan_v))
        first = _both(as_good, Op(compare.lt, (i, j)))
        identity = (Const(worst(t), t), Const(at.greatest, at))
        keep = ValueToCond(first if ascending else Op(arith.or_, (beats, first)))
        called = f"{name}_ascending" if ascending else name
        return Monoid(called, (v, i), (w, j), (Select(keep, v, w), Select(keep, i, j)), identity)

    MONOIDS[name] = partial(make, ascending=False)
    ASCENDING[name] = partial(make, ascending=True)


_arg("argmax", lambda t: t.least, larger=True)
_arg("argmin", lambda t: t.greatest, larger=False)
