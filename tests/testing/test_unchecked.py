"""Without its checks a primitive makes what it would refuse, and the checks are there again after that."""

import pytest

import loopir as lp
from loopir.errors import ScheduleError
from loopir.testing.oracles.brute_force import first_violation, small_sizes
from loopir.testing.oracles.unchecked import unchecked

SCAN = lp.parse("""
def scan(n: "size", a: "inout float32[n + 1]"):
    for i in range(n):
        a[i + 1] = a[i] + a[i + 1]
""")


def test_a_refused_rewrite_is_made_and_wrong() -> None:
    with unchecked():
        wrong = lp.Schedule(SCAN).reverse("i").func
    assert first_violation(SCAN, wrong, small_sizes(SCAN)) is not None


def test_checks_return_after_an_error_too() -> None:
    with pytest.raises(RuntimeError), unchecked():
        raise RuntimeError
    with pytest.raises(ScheduleError):
        lp.Schedule(SCAN).reverse("i")


def test_what_is_refused_for_its_form_still_is() -> None:
    with unchecked(), pytest.raises(ScheduleError, match="no loop 'k'"):
        lp.Schedule(SCAN).reverse("k")
