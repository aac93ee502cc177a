"""Rows with running folds in one kernel: exact on interpreted threads at any length, and taken by `auto`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.common.fusion import inlined
from schedules.cuda.row_blocks import row_blocks
from schedules.cuda.row_scans import row_scans

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sum of a running sum": lambda x: lp.sum(lp.cumsum(x, axis=-1) * x, axis=-1),
    "divided by the last": lambda x: lp.cumsum(x, axis=-1) - lp.max(lp.cumsum(x, axis=-1), axis=-1, keepdims=True),
    "both": lambda x: [lp.cumsum(x, axis=-1), lp.max(lp.cumsum(x, axis=-1), axis=-1)],
    "of what was folded": lambda x: lp.where(
        lp.cumsum(x - lp.max(x, axis=-1, keepdims=True), axis=-1) < -3, x, lp.zeros_like(x)
    ),
    "twice": lambda x: lp.cumsum(lp.cumsum(x, axis=-1), axis=-1) + x,
    "product": lambda x: lp.sum(lp.cumprod(x, axis=-1), axis=-1),
}


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(PROGRAMS)), st.lists(st.integers(1, 3), min_size=1, max_size=2), st.integers(1, 300),
    st.sampled_from(["float32", "int32", "float64"]), st.sampled_from([None, 32, 64]), st.booleans(), st.integers(0, 9),
)  # fmt: skip
def test_rows_are_what_they_were(
    name: str, rows: list[int], length: int, dtype: str, threads: int | None, keep: bool, seed: int
) -> None:
    s = inlined(lp.Schedule(PROGRAMS[name](lp.placeholder((*rows, length), dtype, name="x"))))
    try:
        made = row_blocks(s, threads=threads, keep=keep)
    except lp.ScheduleError:
        assert length <= 4 or len(row_scans(s, s.stages)) > 1 or name == "both"
        return
    x = np.random.default_rng(seed).integers(-2, 3, (*rows, length)).astype(dtype)
    want = lp.interpret(s.func, {"x": x}, domain="ring")
    (program,) = lp.lower(made, "cuda")
    got = lp.interpret(program, {"x": x}, domain="ring", seed=seed)
    assert all(np.array_equal(want[y], got[y]) for y in want)


@pytest.mark.parametrize("name", ["sum of a running sum", "divided by the last", "of what was folded"])
def test_auto_makes_one_kernel(name: str) -> None:
    s = lp.Schedule(PROGRAMS[name](lp.placeholder((4096, 1000), "float32", name="x")))
    (kernel,) = schedules.auto(s, "cuda", arch="sm_90a").report(arch="sm_90a").kernels
    given = sum(np.prod([d.value for d in a.buffer.shape]) * 4 for a in s.func.args)
    assert kernel.moved < 1.1 * given


def test_a_length_that_is_not_known_is_refused() -> None:
    x = lp.placeholder((64, lp.symbol("n")), "float32", name="x")
    s = inlined(lp.Schedule(PROGRAMS["sum of a running sum"](x)))
    with pytest.raises(lp.ScheduleError, match="running folds of a row have one length, which is known"):
        row_blocks(s)
