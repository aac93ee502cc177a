"""A plugin of pytest: the fixture `loopir_check`, which puts a transformation to every oracle.

An installed loopir registers it by itself (entry point `pytest11`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import loopir

PATIENCE = 4.0
"""Seconds for which a failure is made smaller."""


@pytest.fixture(scope="session")
def loopir_check() -> Callable[..., Any]:
    """Try a transformation on random programs: `loopir_check(transform, examples=200)`, as `loopir.testing.check` does.

    A failure names the program before and after, the element, what it is and what it should be.
    """
    return partial(loopir.testing.check, patience=PATIENCE)
