"""Literals are equal when their bits are; every value has a type."""

import math

from loopir.ir.dtypes import bool_, float32, float64, int64
from loopir.ir.grammar import Buffer, Cast, Cmp, Const, IndexToValue, Int, Load, Op, Select, Var
from loopir.ir.ops import REGISTRY

A = Buffer("A", (Int(3),), float32)


def test_literals_are_told_apart_by_their_bits() -> None:
    assert Const(math.nan, float32) == Const(math.nan, float32)
    assert Const(0.0, float32) != Const(-0.0, float32)
    assert Const(1.0, float32) != Const(1.0, float64)
    assert Const(1, int64) != Const(True, bool_)
    assert len({Const(math.nan, float32), Const(math.nan, float32), Const(0.0, float32), Const(-0.0, float32)}) == 3


def test_every_value_has_a_type() -> None:
    load, test = Load(A, (Var("i"),)), Cmp("<", Var("i"), Int(2))
    for value, t in (
        (load, float32), (Cast(load, int64), int64), (IndexToValue(Var("i"), int64), int64),
        (Select(test, load, Const(0.0, float32)), float32), (Op(REGISTRY["add"], (load, load)), float32),
        (Op(REGISTRY["lt"], (load, load)), bool_) if "lt" in REGISTRY else (IndexToValue(test, bool_), bool_),
    ):  # fmt: skip
        assert value.dtype is t
