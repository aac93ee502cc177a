"""A correction of predictions from records: it finds what is wrong by a factor, and says what it is worth elsewhere."""

from __future__ import annotations

import random

import pytest
from loopir.schedules.tuning.records import Record, Subject
from loopir.schedules.tuning.residual import Residual, residual_report


def records(programs: int) -> list[Record]:
    """Of a machine that is three times slower than predicted, and twice as fast with each octave of "unroll"."""
    draw, found = random.Random(0), list[Record]()
    for n in range(programs):
        subject = Subject(f"program {n}", (), "llvm", "a machine")
        for value in (2, 4, 8, 16):
            predicted = draw.uniform(1e-5, 1e-3)
            seconds = 3.0 * predicted * (0.5 if value == 8 else 0.25 if value == 16 else 2.0 if value == 2 else 1.0)
            knobs = () if value == 4 else ((f"unroll(y{n})", value, 4),)
            found.append(Record(subject, "candidate", "auto", knobs, (), "ok", seconds=seconds, predicted=predicted))
    return found


def test_what_is_off_by_a_factor_is_corrected() -> None:
    found = Residual.of(records(12))
    assert found is not None
    assert found.seconds(1e-4, 0.0, ()) == pytest.approx(3e-4, rel=0.1)
    assert found.seconds(1e-4, 0.0, (("unroll(z)", 16, 4),)) == pytest.approx(0.75e-4, rel=0.2)
    assert found.seconds(1e-4, 0.0, (("another", True, False),)) == pytest.approx(3e-4, rel=0.1)
    assert Residual.of(records(3)) is None
    assert Residual.of(records(12), "another machine") is None


def test_the_report_is_of_programs_that_had_no_part_in_it() -> None:
    (found,) = residual_report(records(12))
    assert (found.records, found.programs) == (48, 12)
    assert found.before > 2.0
    assert found.after < 1.2
    assert found.order_after > found.order_before
    assert "held-out programs" in str(found)
    assert residual_report(records(2)) == []


def test_what_differs_within_programs_is_found_whatever_programs_are_off_by() -> None:
    """Programs are off by up to a thousand times, at random, and the better value gains a tenth in each."""
    draw, found = random.Random(1), list[Record]()
    for n in range(16):
        subject, off = Subject(f"program {n}", (), "llvm", "a machine"), 10.0 ** draw.uniform(-1.5, 1.5)
        for value, gain in ((4, 1.0), (8, 0.9), (2, 1.1)):
            knobs = () if value == 4 else (("unroll(y)", value, 4),)
            found.append(Record(subject, "candidate", "auto", knobs, (), "ok", seconds=off * gain, predicted=1.0))
    (report,) = residual_report(found)
    assert report.order_after == 1.0
