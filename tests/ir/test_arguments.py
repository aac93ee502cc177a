"""Calls with arguments that do not fit are answered with those that do."""

import pytest

from loopir.ir.arguments import answer_arguments, listed_parameters, wrong_arguments


def called(x: int, *more: int, step: int = 1, **sizes: int) -> int:
    return x + step + int(*more)


def test_what_a_function_takes() -> None:
    assert listed_parameters(called) == "x, *more, step=, **sizes"
    assert listed_parameters(lambda: None) == "no arguments"
    assert wrong_arguments(called, (1,), {}) is None
    assert (
        wrong_arguments(called, (), {}) == "called: missing a required argument: 'x'; it takes x, *more, step=, **sizes"
    )


def test_errors_from_inside_stay_what_they_are() -> None:
    answering = answer_arguments(called)
    assert answering(1, 2) == 4
    with pytest.raises(TypeError, match="it takes x"):
        answering(step=3)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="at most 2 arguments"):
        answering(1, 2, 3, 4)
