"""Below its limit no number from memory makes an index overflow; those that may be above are said."""

import pytest
from hypothesis import assume, given, strategies as st

from loopir.ir.dtypes import dtype
from loopir.ir.grammar import Buffer, Index, Int, Load, Mod, Mul, ValueToIndex, Var
from loopir.ir.magnitude import LIMIT, LINEAR, compared, greatest, is_unsigned, limit, range_checked


def number(name: str, of: str = "int64") -> ValueToIndex:
    return ValueToIndex(Load(Buffer(name, (Int(1),), dtype(of)), (Int(0),)))


x, y, i = number("x"), number("y"), Var("i")


@given(st.sampled_from([
    x, x + y, x * y, x * y * x, (x + 1) * (y - 3), x * 1023 + y, x * (1 << 19) + i, (x * y) // 5 + x, x * x * x * x,
]))  # fmt: skip
def test_below_the_limit_no_part_is_too_large(ix: Index) -> None:
    most = limit(ix) - 1

    def size(n: object) -> int:
        match n:
            case ValueToIndex():
                return most
            case Int(value):
                return abs(value)
            case Var():
                return 9
            case Mul(a, b):
                return size(a) * size(b)
            case _:
                return size(n.a) + size(n.b)  # type: ignore[attr-defined]

    assert size(ix) < LIMIT


@pytest.mark.parametrize(("ix", "found"), [
    (x, []), (x + 1, [x]), (x % 7, []), ((x + i) % 7, [x]), (x * y, [x, y]), (number("s", "int32") + i, []),
    (number("s", "int32") * number("t", "int32"), []), (Mod(number("u", "uint64"), Int(5)), []),
])  # fmt: skip
def test_numbers_in_arithmetic_are_checked(ix: Index, found: list[ValueToIndex]) -> None:
    assert list(range_checked(ix)) == found


def test_unsigned_numbers_are_compared_as_they_are_only_with_each_other() -> None:
    u, v = number("u", "uint64"), number("v", "uint64")
    assert is_unsigned(u)
    assert not is_unsigned(number("w", "uint32"))
    assert list(compared(u, v)) == []
    assert list(compared(u, i)) == []  # the largest int64 compares in the same way
    assert [part for part, _ in compared(u, x)] == [u]
    assert [(part, most) for part, most in compared(x + 1, i)] == [(x, LINEAR)]
    assert greatest(x) == 1 << 63
    assert greatest(u) == 1 << 64
    assert greatest(number("b", "int8")) == 128


@given(st.integers(2, 6))
def test_the_limit_of_a_power(degree: int) -> None:
    ix: Index = x
    for _ in range(degree - 1):
        ix = Mul(ix, x)
    assume(degree > 1)
    assert (limit(ix) - 1) ** degree < 1 << 62
