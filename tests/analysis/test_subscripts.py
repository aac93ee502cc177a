"""Subscripts: digits, sums of multiples, and that both are what the index is."""

import pytest
from hypothesis import given, strategies as st

import loopir as lp
from loopir.analysis.regions.subscripts import Digit, Subscript
from loopir.ir.grammar import FloorDiv, Int, Mod, Var


def subscript(source: str) -> Subscript:
    """The subscript of what a nest over `i` and `j` reads."""
    s = lp.Schedule(
        lp.parse(f"""
def f(n: "size", A: "float32[4096]", B: "out float32[64, 8]"):
    for i in range(64):
        for j in range(8):
            B[i, j] = A[{source}]
""")
    )
    return s.accesses("B")[0].subscripts[0]


@pytest.mark.parametrize(
    ("source", "digit", "digits"),
    [
        ("i", Digit("i"), [Digit("i")]),
        ("i // 4", Digit("i", 4), [Digit("i", 4)]),
        ("i % 4", Digit("i", 1, 4), [Digit("i", 1, 4)]),
        ("i // 2 % 3", Digit("i", 2, 3), [Digit("i", 2, 3)]),
        ("i // 4 + i % 4 * 8", None, [Digit("i", 4), Digit("i", 1, 4)]),
        ("i - i // 4 * 4", Digit("i", 1, 4), [Digit("i", 1, 4)]),
        ("i // 2 - i // 6 * 3", Digit("i", 2, 3), [Digit("i", 2, 3)]),
        ("i - i // 4 * 2", None, [Digit("i"), Digit("i", 4)]),
        ("i - j // 4 * 4 + 60", None, [Digit("i"), Digit("j", 4)]),
        ("(i + j) // 4", None, [Digit("i"), Digit("j")]),
    ],
)
def test_digits(source: str, digit: Digit | None, digits: list[Digit]) -> None:
    assert subscript(source).digit == digit
    assert [*subscript(source).digits] == digits


def test_sums_of_multiples() -> None:
    found = subscript("i * 32 + j + 5")
    assert found == "i * 32 + j + 5"
    assert found.multiples == {"i": 32, "j": 1}
    assert found.constant == 5
    assert found.variables == {"i", "j"}
    assert not found.divides
    assert subscript("i // 4").multiples == {}
    assert subscript("i // 4").divides


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_digit_has_the_weight_and_base_of_its_index(weight: int, base: int) -> None:
    ix = Mod(FloorDiv(Var("i"), Int(weight)), Int(base))
    assert Subscript(ix).digit == ("i", weight, base)


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_remainder_may_be_spelled_as_a_difference(weight: int, base: int) -> None:
    low, high = (FloorDiv(Var("i"), Int(n)) for n in (weight, weight * base))
    ix = low - high * base
    found = Subscript(ix).digit
    assert found is None or found == ("i", weight, base)
    assert found is not None or weight == base == 1 or base == 1
