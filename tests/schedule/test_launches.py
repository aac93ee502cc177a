"""Blocks of one launch depend on one another by no loop between them."""

from hypothesis import HealthCheck, given, settings, strategies as st
from stages import programs
from test_reordering import check

import loopir.intrinsics  # noqa: F401
from loopir.ir.parser.parse import parse
from loopir.schedule.core.trace import Step
from loopir.testing.generate.steps import schedules, steps
from loopir.testing.generate.strategies import funcs


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_launch(data: st.DataObject) -> None:
    """A loop more that is bound is asked about with what it is nested with, and nothing else."""
    func = parse(data.draw(programs())) if data.draw(st.booleans()) else data.draw(funcs())
    func = data.draw(schedules(func, most=4, primitives=("bind", "bind", "split", "fuse_loops", "compute_at"))).func
    check(func, data.draw(steps(func, ("bind",))))


def test_blocks_that_fold_by_themselves_have_no_total() -> None:
    """Its element speaks of a loop as long as a serial one of the sum has come to."""
    func = parse("""
def f(n: "size", A: "float32[n, n]", X: "inout float32[n]"):
    for i in range((n + 1) // 2):
        for k in bind("blockIdx.x", 2):
            if i * 2 + k < n:
                for j in range(i * 2 + k + 1):
                    X[j] = sum(A[i * 2 + k, j] * 2.0, over=(i, k))
""")
    check(func, Step("bind", ("j", "blockIdx.y")))
