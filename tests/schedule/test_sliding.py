"""A consumer at a distance runs once for each element, after all that it reads."""

import pytest

from loopir.schedule import Schedule
from loopir.schedule.primitives.placement import reverse_compute_at
from loopir.schedule.transform.placement import find_move
from loopir.schedule.transform.sliding import covers, in_order, nest_carries
from loopir.testing.generate import nests


def test_a_consumer_at_a_distance_is_seen_to_run_once_and_in_order() -> None:
    """Of a chain of neighbourhoods no set of instances is asked."""
    for make in (nests.constant, nests.symbolic):
        s = Schedule(make("stencils"))
        move = find_move(s.func, "s7", "j_5")
        behind = {"i_5": ("i_6", 2), "j_5": ("j_6", 2)}
        assert covers(move, s.loop("i_5"), s.loop("i_6"), 2)
        assert not covers(move, s.loop("i_5"), s.loop("i_6"), 3)
        assert in_order(move, behind)
        assert not in_order(move, behind | {"i_5": ("i_6", 1)}), "it reads two rows ahead"
        assert nest_carries(move, behind, {"s6"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reverse_compute_at, "violated_dependence", None)
            patch.setattr(reverse_compute_at, "require_each_once", None)
            s.reverse_compute_at("s7", "j_5")
            slid = Schedule(make("blur")).compute_at("h", "i_1").reverse_compute_at("v", "j")
        assert "if 2 <= i:" in str(slid), "it waits for the last of three rows"
