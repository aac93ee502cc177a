"""The names of other libraries lead to what lp has, and all that a message names is there."""

import re

import pytest

import loopir as lp
from loopir.tensor.other_names import FUNCTIONS, METHODS, function_instead, method_instead


@pytest.mark.parametrize("text", sorted({*FUNCTIONS.values(), *METHODS.values()}))
def test_what_a_message_names_is_there(text: str) -> None:
    assert all(hasattr(lp, name) for name in re.findall(r"lp\.(\w+)", text))
    methods = set(re.findall(r"^\.(\w+)", text))
    assert methods <= set(dir(lp.placeholder((2,), name="x")))


def test_no_name_that_is_there_is_in_the_tables() -> None:
    assert not [name for name in FUNCTIONS if hasattr(lp, name)]
    assert not [name for name in METHODS if hasattr(lp.placeholder((2,), name="x"), name)]


def test_an_unknown_name_is_compared_with_the_functions() -> None:
    assert function_instead("frobnicate") == ""
    assert method_instead("exq", frozenset({"exp", "log"})) == "did you mean lp.exp?"
    assert method_instead("frobnicate", frozenset({"exp", "log"})) == "see dir(lp.Tensor) and dir(lp)"
