"""Convolutions with batch norm and relu on a GPU, in both layouts, with strides, padding, dilation, groups: exact."""

from __future__ import annotations

from dataclasses import replace

import pytest
from convolutions import CONVS, Conv

import schedules

pytestmark = pytest.mark.gpu


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("more", [{}, {"n": 3, "h": 13}, {"n": 2, "h": 28, "c": 64, "k": 64}], ids=["", "13", "28"])
@pytest.mark.parametrize("conv", CONVS, ids=lambda c: c.name)
def test_they_mean_what_they_say(conv: Conv, more: dict[str, int]) -> None:
    conv = replace(conv, **more)
    given = conv.arrays()
    assert conv.right(schedules.auto(conv.schedule(), "cuda").build("cuda")(*given), given)
