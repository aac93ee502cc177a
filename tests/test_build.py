"""From a Schedule and a target to a kernel: a target that can be lowered for and not built for is refused."""

import pytest

import loopir as lp
from loopir.lower.target import TARGETS, Target


def test_a_target_that_nothing_builds_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "serial", Target("serial", frozenset()))
    s = lp.Schedule(lp.placeholder((8,), "float32", name="x") * 2.0)
    with pytest.raises(lp.TargetError, match="knows the target 'serial', but nothing builds kernels for it"):
        s.build("serial")
