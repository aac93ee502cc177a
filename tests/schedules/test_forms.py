"""Forms: that is planned of which the products are predicted to be faster, and plans of both are read back."""

from __future__ import annotations

from typing import Any

import pytest

import loopir as lp
import schedules
from schedules import forms
from schedules.cuda.channels_last import channels_last
from schedules.forms import heaviest_product, in_faster_form
from schedules.normal_form import normal_form
from schedules.planner import Planner
from schedules.rules import RULES

BF = "bfloat16"
ARCH = "sm_90a"


def given(name: str, *shape: int) -> Any:
    return lp.placeholder(shape, BF, name=name)


def block(size: int = 4, channels: int = 16, images: int = 1) -> lp.Schedule:
    x = given("x", images, channels, size, size)
    h = lp.relu(lp.conv2d(x, given("v", channels, channels, 3, 3), padding=1))
    return lp.Schedule(lp.relu(lp.conv2d(h, given("w", channels, channels, 3, 3), padding=1)))


@pytest.mark.parametrize("last", [False, True])
def test_the_form_of_fewer_seconds_is_planned(monkeypatch: pytest.MonkeyPatch, last: bool) -> None:
    s = block()
    programs = [normal_form(s), channels_last(normal_form(s))]
    assert lp.text(programs[0].func) != lp.text(programs[1].func)
    monkeypatch.setattr(
        forms, "_seconds_of_form", lambda p: float(last == (lp.text(p.program.func) == lp.text(s.func)))
    )
    assert lp.text(in_faster_form(Planner(s, "cuda", ARCH, {})).program.func) == lp.text(programs[last].func)


def test_a_plan_of_channels_last_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    s = block()
    monkeypatch.setattr("schedules.planner.RULES", [r for r in RULES if r.last_resort])
    p = Planner(s, "cuda", ARCH, {}, program=channels_last(normal_form(s))).plan(fuel=0)
    assert lp.text(schedules.load(s, p.json()).apply().func) == lp.text(p.apply().func)


def test_a_program_without_convolutions_has_one_form() -> None:
    s = lp.Schedule(lp.softmax(given("x", 64, 64)))
    assert in_faster_form(Planner(s, "cuda", ARCH, {})).program is normal_form(s)


def test_the_heaviest_product_comes_with_its_borders_and_its_reader() -> None:
    p = Planner(block(28, 64, 32), "cuda", ARCH, {})
    group = heaviest_product(p)
    assert len(group) == 3
    assert len(p.found(group).view.products) == 1
    none = Planner(lp.Schedule(lp.softmax(given("x", 64, 64))), "cuda", ARCH, {})
    assert heaviest_product(none) == frozenset()
