"""A parse that a finaliser or a signal handler interrupts by one of its own: CPython counts their depth together."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import loopir as lp

NEST = """
def f(n: "size", A: "float32[n] lambda i: i", X: "out float32[n]"):
    for i in range(n):
        X[i] = A[i] + 1.0
"""


def test_a_parse_that_was_interrupted_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, real, interrupted = lp.parse(NEST.replace(" lambda i: i", "")), ast.parse, [True]

    def parse(*args: Any, **kwargs: Any) -> Any:
        interrupted[0] = not interrupted[0]
        if not interrupted[0]:
            raise SystemError("AST constructor recursion depth mismatch (before=54, after=99)")
        return real(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", parse)
    assert lp.parse(NEST.replace(" lambda i: i", "")) == wanted
    assert lp.Schedule(wanted).specialize("i", "n == 4").trace


def test_what_cannot_be_parsed_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*args: Any, **kwargs: Any) -> Any:
        raise SystemError("something else")

    monkeypatch.setattr(ast, "parse", parse)
    with pytest.raises(SystemError, match="something else"):
        lp.parse(NEST)
