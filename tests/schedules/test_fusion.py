"""Fusion by inlining: what costs little is computed where it is read, what would be computed again is kept."""

import pytest

import loopir as lp
from schedules.common.fusion import inlined


@pytest.mark.parametrize(("count", "stays"), [(1, 0), (8, 1)])
def test_what_would_be_computed_again_is_kept(count: int, stays: int) -> None:
    a = lp.placeholder((4, 8), "float32", name="a")
    e = lp.compute((4, 8), lambda i, j: lp.exp(a[i, j]), name="e")
    k = lp.reduce_axis(8, name="k")
    out = lp.compute((4, count), lambda i, j: lp.sum(e[i, k] * (j + 1), axis=k), name="out")
    assert len(inlined(lp.Schedule(out)).stages) == 1 + stays
