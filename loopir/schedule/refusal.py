"""Turning a clash that the dependence analysis found into the refusal that a person reads."""

from __future__ import annotations

from loopir.analysis.depend import Clash
from loopir.errors import ScheduleError


def refusal(clash: Clash, reason: str, loop: str | None, suggestion: str) -> ScheduleError:
    """A ScheduleError with the witness of `clash`; says so where analysis could not tell."""
    if clash.unsure is not None:
        reason += f"; {clash.unsure}"
    return ScheduleError(reason, loop=loop, witness=clash.witness, suggestion=suggestion)
