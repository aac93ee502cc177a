"""Programs of clusters: multicast takes most of them, refuses some, and breaks none."""

from __future__ import annotations

from hypothesis import given, settings

from loopir.ir.grammar import Func
from loopir.schedule.core.trace import Step
from loopir.testing.checking import QUIET
from loopir.testing.generate.clusters import clustered
from loopir.testing.legality import verdict


def test_what_all_blocks_read_is_multicast_and_what_one_reads_is_not() -> None:
    found: set[str] = set()

    def judge(func: Func) -> None:
        found.add(verdict(func, Step("multicast", ("p",), ()))[0])

    settings(QUIET, max_examples=60)(given(clustered())(judge))()
    assert found == {"accepted", "no rewrite"}
