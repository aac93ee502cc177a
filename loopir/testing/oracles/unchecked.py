"""What a primitive would make of a nest if nobody asked whether it may: the other half of a legality table.

Primitives ask in two ways: functions called `require_...`, which raise or do nothing, and questions of the analysis
that answer with a clash or with None. Under `unchecked()` the former do nothing and the latter find nothing, so that
the rewrite itself is left. Nothing outside of `loopir.testing` can reach this; what is refused for its form (no such
loop, no perfect nest, no room on a GPU) is still refused.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from loopir.analysis.dataflow.coverage import find_duplicate, find_missing
from loopir.analysis.dataflow.liveness import clobbered_read, lifetime_clash
from loopir.analysis.dataflow.reaching_writes import intervening_write
from loopir.analysis.dependence.depend import lockstep, loop_carried
from loopir.analysis.dependence.reordering import violated_dependence
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.ir.layout.layouts import is_injective
from loopir.schedule.core.primitive import forget_made

QUESTIONS: dict[Callable[..., Any], Any] = {
    violated_dependence: None,
    loop_carried: None,
    lockstep: None,
    intervening_write: None,
    find_missing: None,
    find_duplicate: None,
    find_out_of_bounds: None,
    clobbered_read: None,
    lifetime_clash: None,
    is_injective: True,
}
"""Each with the answer that lets a step pass."""
FORM = {
    "require_next", "require_place", "require_places", "require_outside_lanes", "require_alike", "require_sole_writer",
    "_require_fit", "_require_around", "_require_known", "_require_bounds", "_require_identity", "_require_plain_sum",
    "_require_guards", "_require_distinct_axes", "_require_warpgroups", "_require_equally_often", "require_folded",
}  # fmt: skip
"""Checks without which there is no rewrite to speak of, or that are about memory and threads."""
CHECKED_PACKAGE = "loopir.schedule"


@contextmanager
def unchecked() -> Iterator[None]:
    """Primitives called inside refuse nothing but forms."""
    kept = [(owner, name, vars(owner)[name]) for owner, name, _ in _changes()]
    for owner, name, new in _changes():
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old in kept:
            setattr(owner, name, old)
        forget_made()


@cache
def _changes() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """Every name in the room of the primitives that stands for a check, with what stands there instead."""
    rooms = [m for name, m in sys.modules.items() if name == CHECKED_PACKAGE or name.startswith(f"{CHECKED_PACKAGE}.")]
    return tuple(x for m in rooms for owner in (m, *_classes(m)) for x in _checks(owner))


def _classes(module: ModuleType) -> list[type]:
    return [x for x in vars(module).values() if isinstance(x, type) and x.__module__ == module.__name__]


def _checks(owner: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    for name, value in list(vars(owner).items()):
        if not inspect.isfunction(value):
            continue
        if value in QUESTIONS:
            yield owner, name, _answering(QUESTIONS[value])
        elif value.__name__.lstrip("_").startswith("require_") and value.__name__ not in FORM:
            yield owner, name, _answering(None)


def _answering(answer: Any) -> Callable[..., Any]:
    def answered(*_: Any, **__: Any) -> Any:
        return answer

    return answered
