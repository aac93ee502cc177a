"""Steps that are drawn have a chance: of every primitive, more than one in ten is accepted on programs of all kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.acceptance import acceptance, main
from loopir.testing.generate.steps import arguments_of

SELDOM = ("tensorize", "reuse", "double_buffer", "reverse_compute_at", "hoist", "privatize")
"""Those that find a place in few nests."""


def test_what_seldom_has_a_place_is_still_accepted() -> None:
    shares = acceptance(40, primitives=SELDOM)  # of fewer programs the share is a matter of chance
    tried, accepted = sum(x.tried for x in shares.values()), sum(x.accepted for x in shares.values())
    assert accepted * 10 > tried, shares
    assert sum(x.accepted > 0 for x in shares.values()) >= len(SELDOM) - 2, shares


NEST = parse("""
def f(A: "float32[8]", B: "out float32[8]"):
    for i in range(8):
        B[i] = A[i]
""")


@given(arguments_of(PRIMITIVES["split"], NEST))
def test_arguments_are_found_in_the_nest(drawn: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    (loop, factor, *_), _ = drawn
    assert (loop, type(factor)) == ("i", int)


def failing(func: Func, loop: str) -> Func:
    raise ZeroDivisionError(loop)


@given(arguments_of(failing, NEST))
def test_arguments_at_which_a_primitive_fails_are_passed_on(drawn: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Whoever draws them meets the failure, not the draw."""
    assert drawn == (("i",), {})


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--programs", "3", "--primitives", "split", "--why", "1"]) == 0
    assert "| split | " in capsys.readouterr().out
