"""Plans of calls: the short way is taken when all is well and only then, and plans do not grow without end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_arrays import F32, VECTOR, bound, signature

from loopir.runtime.plans import Plans


def test_the_short_way_is_taken_when_all_is_well_and_only_then() -> None:
    s = signature("a in float32 n", "b out float32 n", "c inout float32 n")
    plans = Plans(s, "cpu")
    a, c = np.ones(4, F32), np.ones(4, F32)
    assert plans.ready((a, c), None) is None
    runs: list[Any] = []
    plans.learn((a, c), bound(s, a, c), lambda: runs.append)
    run, pointers, made = plans.ready((a, c), None) or pytest.fail("no plan")
    run(pointers)
    assert runs == [(a.ctypes.data, made.ctypes.data, c.ctypes.data)]
    out = np.empty(4, F32)
    assert plans.ready((a, c), (out,)) is not None
    locked, both, odd = np.ones(4, F32), np.ones(7, F32), np.zeros(17, np.uint8)[1:].view(F32)
    locked.flags.writeable = False
    for args, given in [
        ((a, np.ones(5, F32)), None),
        ((a, np.ones(4)), None),
        ((a, locked), None),
        ((a, a), None),
        ((np.ones(8, F32)[::2], c), None),
        ((odd, c), None),
        ((a, c), (locked,)),
        ((a, c), (c,)),
        ((a, c), (np.empty(5, F32),)),
        ((a, c), [out]),
        ((both[:4], both[3:]), None),
        ((a,), None),
        ((a, c, c), None),
        ((a, 1.0), None),
        ((a, np.ma.array(c)), None),
    ]:
        assert plans.ready(args, given) is None
    assert plans.ready((locked, c), None) is not None


def test_shapes_without_end_do_not_fill_the_plans() -> None:
    plans = Plans(VECTOR, "cpu")
    for n in range(600):
        a = np.ones(n, F32)
        plans.learn((a,), bound(VECTOR, a), lambda: print)
    assert len(plans.new) <= 256
