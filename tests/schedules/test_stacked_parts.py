"""Stacks of several formulas by threads that make all parts: exact on interpreted threads, and taken by `auto`."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.common.fusion import inlined
from schedules.cuda.stacked_parts import part_loop, stacked_parts

FORMULAS = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: lp.maximum(x, y),
    lambda x, y: x - y + 1,
)


def stack(shape: tuple[int, ...], parts: int, axis: int, dtype: str, total: bool) -> lp.Schedule:
    """Parts of two planes, or records of two elements, and of the sum of these for each place."""
    axes = [*shape]
    axes.insert(axis, 3)
    x = lp.placeholder(tuple(axes), dtype, name="x")
    first, second = lp.take(x, 0, axis=axis), lp.take(x, 2, axis=axis)
    first = lp.sum(x, axis=axis) if total else first
    return lp.Schedule(lp.stack([FORMULAS[n % 4](first, second + n) for n in range(parts)], axis=axis))


def same(s: lp.Schedule, made: lp.Schedule, seed: int) -> None:
    (x,) = (a.buffer for a in s.func.args if a.access == "in")
    shape = [d.value for d in x.shape]
    values = np.random.default_rng(seed).integers(0, 5, shape).astype(x.dtype.numpy)
    want = lp.interpret(s.func, {x.name: values}, domain="ring")
    (program,) = lp.lower(made, "cuda")
    got = lp.interpret(program, {x.name: values}, domain="ring", seed=seed)
    assert all(np.array_equal(want[name], got[name]) for name in want)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=2), st.integers(2, 5), st.integers(0, 2),
    st.sampled_from(["float32", "float16", "int8", "float64"]), st.booleans(), st.integers(0, 9),
)  # fmt: skip
def test_any_stack(shape: list[int], parts: int, axis: int, dtype: str, total: bool, seed: int) -> None:
    s = inlined(stack(tuple(shape), parts, min(axis, len(shape)), dtype, total))
    last = s.stages[-1]
    if part_loop(s, last) is not None:
        try:
            made = stacked_parts(s, last, producers=[x for x in s.stages if x != last], threads=4)
        except lp.ScheduleError as error:
            if "need more registers than a thread has" not in str(error):  # as short rows, across whose ends vectors go
                raise
        else:
            same(s, made, seed)


@pytest.mark.parametrize(("axis", "stores"), [(0, "vectorize(4)"), (2, "out_local")])
def test_auto_takes_it(axis: int, stores: str) -> None:
    s = stack((1024, 1020), 4, axis, "float32", total=True)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert stores in str(made)
    report = made.report(arch="sm_90a")
    assert len(report.kernels) == 1
    (work,) = report.kernels
    assert work.moved <= 1.01 * (3 + 4) * 1024 * 1020 * 4


def test_what_is_no_stack_is_refused() -> None:
    x = lp.placeholder((8, 3), "float32", name="x")
    s = lp.Schedule(x + 1)
    with pytest.raises(lp.ScheduleError, match="has no short loop of parts"):
        stacked_parts(s, s.stages[0])
