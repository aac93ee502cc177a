"""The brute-force judge of loop kinds: a parallel loop whose iterations meet is found, and one without is not."""

import pytest

import loopir as lp
from loopir.testing.oracles.loop_kinds import broken_promise, serial_lanes

MEETING = """
def f(a: "inout float32[9]"):
    for i in {kind}(8):
        a[i + 1] = a[i] + 1.0
"""
APART = """
def f(A: "float32[8]", B: "out float32[8]"):
    for i in {kind}(8):
        B[i] = A[i] + 1.0
"""


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
def test_iterations_that_meet_break_the_promise_and_others_do_not(kind: str) -> None:
    assert broken_promise(lp.parse(MEETING.format(kind=kind)), {}) is not None
    assert broken_promise(lp.parse(APART.format(kind=kind)), {}) is None


def test_a_serial_loop_promises_nothing() -> None:
    assert broken_promise(lp.parse(MEETING.format(kind="range")), {}) is None


def test_serial_lanes_run_in_order() -> None:
    assert serial_lanes(lp.parse(MEETING.format(kind="vectorize"))) == lp.parse(MEETING.format(kind="range"))
