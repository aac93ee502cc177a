"""Errors: numbers of any length are spelled, and a refusal says what was asked, why not, and what instead."""

import pytest
from hypothesis import given, strategies as st

import loopir as lp
from loopir.errors import LoopirError, ScheduleError, literal, positive, spelled

LARGE = st.integers(-(1 << 5000), 1 << 5000) | st.integers(-(1 << 70), 1 << 70)


@given(LARGE)
def test_a_literal_is_the_number(number: int) -> None:
    assert eval(literal(number)) == number


@given(LARGE)
def test_a_spelled_number_is_short_and_near(number: int) -> None:
    word = spelled(number)
    assert len(word) <= 30
    if "^" in word:
        power = int(word.partition("^")[2])
        assert (1 << power - 1) <= abs(number) <= (1 << power + 1)
        assert ("-" in word) == (number < 0)
    else:
        assert int(word) == number


@given(st.integers(-5, 5))
def test_a_divisor_is_positive_or_refused(divisor: int) -> None:
    if divisor >= 1:
        assert positive(divisor, "n") == divisor
    else:
        with pytest.raises(ValueError, match=f"divides by n, which is {divisor}"):
            positive(divisor, "n")


def test_a_refusal_says_what_was_asked_and_what_instead() -> None:
    error = ScheduleError("it cannot be", primitive="split", suggestion="another")
    assert str(error) == repr(error) == "split: it cannot be\n  instead: another"
    error.call = 'split("i", 0)'
    assert str(error).startswith('split("i", 0): it cannot be')


@pytest.mark.parametrize("kind", [k for k in vars(lp).values() if isinstance(k, type) and issubclass(k, LoopirError)])
def test_every_public_error_is_one_of_ours_and_documented(kind: type) -> None:
    assert kind.__doc__
    assert issubclass(kind, Exception)
