"""Knobs of recipes: the formula's value by itself, another where it is chosen, and none that is not legal."""

from __future__ import annotations

import pytest
from loopir.schedules.common.knobs import Knob, choosing, either, octaves

import loopir as lp

SIZE = Knob("size", "rows of a part", octaves(2, 64))
TILE = Knob("tile", "rows and columns", lambda formula: ((8, 8), (16, 4)), price=0.1)
PEEL = Knob("peel", "whether the end has a loop of its own", either)


def test_the_formula_decides_unless_another_value_is_chosen() -> None:
    assert SIZE(8, at="y") == 8
    with choosing({"size(y)": 16, "size": 4}) as choices:
        assert SIZE(8, at="y") == 16
        assert SIZE(8, at="z") == 8
        assert SIZE(8) == 4
        assert TILE((4, 4)) == (4, 4)
        assert PEEL(True) is True
    assert SIZE(8, at="y") == 8
    assert list(choices.queries) == ["size(y)", "size(z)", "size", "tile", "peel"]
    assert choices.queries["size(y)"].values == (8, 4, 16, 2, 32)
    assert choices.queries["peel"].values == (True, False)
    assert choices.queries["tile"].key == "tile"


def test_a_value_that_is_not_legal_is_refused() -> None:
    with choosing({"size(y)": 3}), pytest.raises(lp.ScheduleError, match=r"size\(y\) cannot be 3"):
        SIZE(8, at="y")


def test_values_far_from_the_formula_cost_more() -> None:
    assert SIZE.cost(8, 8) == 0.0
    assert SIZE.cost(16, 8) == SIZE.cost(4, 8) == 0.05
    assert SIZE.cost(64, 8) == pytest.approx(0.15)
    assert TILE.cost((16, 4), (8, 8)) == TILE.cost((8, 16), (8, 8)) == 0.1
    assert PEEL.cost(False, True) == 0.05


def test_an_inner_choice_ends_with_its_block() -> None:
    with choosing({"size": 4}):
        with choosing({}):
            assert SIZE(8) == 8
        assert SIZE(8) == 4
