"""The fixture that an installed loopir gives to pytest."""

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import loopir as lp
from loopir.ir.traverse.walk import replace_loop
from loopir.pytest_plugin import loopir_check  # noqa: F401  (a fixture)
from loopir.testing import Wrong, tiny


def test_a_right_step_passes(loopir_check: Callable[..., Any]) -> None:  # noqa: F811
    def tiles(s: lp.Schedule, loop: str, factor: int) -> lp.Schedule:
        return s.split(loop, factor)

    loopir_check(tiles, examples=5)


def test_a_wrong_one_is_reported_whole(loopir_check: Callable[..., Any]) -> None:  # noqa: F811
    def shortened(func: lp.Func, loop: str) -> lp.Func:
        return replace_loop(func, loop, lambda x: replace(x, extent=x.extent - 1))

    with pytest.raises(Wrong, match="shortened") as caught:
        loopir_check(shortened, programs=tiny(nests=1), examples=50, patience=0.5)
    told = str(caught.value)
    assert str(lp.Schedule(caught.value.before)) in told
    assert "became" in told


def test_it_is_registered() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"loopir": "loopir.pytest_plugin"}
