"""Convolutions as they are written, in register tiles on a CPU and with shared windows on a GPU: right at odd sizes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import same_in_the_ring

import loopir as lp
from schedules.common.direct_conv import direct_cpu, direct_gpu, in_strips


def convolution(c: int, h: int, k: int, r: int, stride: int, after: str) -> lp.Schedule:
    x, w = lp.placeholder((2, c, h, h), "float32", name="x"), lp.placeholder((k, c, r, r), "float32", name="w")
    made = lp.conv2d(x, w, padding=r // 2, stride=stride)
    if after:
        made = lp.relu(made).named("out")
    return lp.Schedule(lp.max_pool2d(made, 2) if after == "pool" else made)


def arrays(s: lp.Schedule) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {a.buffer.name: [d.value for d in a.buffer.shape] for a in s.func.args if a.access == "in"}
    return {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}


sizes = st.tuples(st.integers(1, 5), st.integers(4, 7), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(1, 2))


@settings(max_examples=4)
@given(sizes, st.sampled_from(["", "relu"]), st.sampled_from([(2, 6), (4, 9)]))
def test_on_a_cpu_it_means_the_same(size: tuple[int, ...], after: str, machine: tuple[int, int]) -> None:
    s = convolution(*size, after)
    t = direct_cpu(s, "conv", lanes=machine[0], registers=machine[1])
    same_in_the_ring(s, t, arrays(s), {})


@settings(max_examples=2)
@given(sizes, st.sampled_from(["", "relu", "pool"]))
def test_on_a_gpu_it_means_the_same(size: tuple[int, ...], after: str) -> None:
    s = convolution(*size, after)
    t = direct_gpu(s, "conv", tile=(2, 4), lanes=8, threads=2, depth=2)
    same_in_the_ring(s, t, arrays(s), {})
    assert len(lp.nests(t.func)) == 1  # one kernel, with its borders and what is made of the sums


def test_the_code_of_a_cpu_is_right() -> None:
    s = convolution(3, 9, 10, 3, 1, "relu")
    inputs = arrays(s)
    t = direct_cpu(s, "conv", lanes=4, registers=9)
    np.testing.assert_array_equal(t.build("llvm")(*inputs.values()), s.build("interpret")(*inputs.values()))
    kinds = {t.loop(x).kind for x in t.loops()}
    assert kinds >= {"vectorize", "unroll", "parallel"}


def test_a_pooling_has_strips_of_rows() -> None:
    s = convolution(2, 8, 4, 3, 1, "pool")
    t = in_strips(s, "max_pool", "out", strip=2)
    same_in_the_ring(s, t, arrays(s), {})
    assert t.loops("out")[0] == t.loops("max_pool")[0]


@pytest.mark.parametrize("how", [direct_cpu, direct_gpu])
def test_what_is_no_product_is_refused(how: Any) -> None:
    x = lp.placeholder((8, 8), "float32", name="x")
    with pytest.raises(lp.ScheduleError, match="folds no product of two operands over independent loops"):
        how(lp.Schedule(lp.sum(x, axis=1).named("z")), "z")


def test_a_matrix_has_no_windows() -> None:
    a, b = (lp.placeholder((8, 8), "float32", name=n) for n in "ab")
    with pytest.raises(lp.ScheduleError, match="has 2 loops besides those it folds, and windows have three or more"):
        direct_gpu(lp.Schedule(a @ b), "matmul")


def test_tiles_of_what_a_sum_is_begin_early_enough_to_be_whole() -> None:
    a, b = lp.placeholder((3, 4, 7), "float32", name="a"), lp.placeholder((4, 3, 13), "float32", name="b")
    s = lp.Schedule(lp.einsum("klm,lkn->mn", a, b))
    (stage,) = (x for x in s.stages if s.reduced(x))
    t = direct_cpu(s, stage, lanes=4, registers=9)
    assert "min(" in lp.text(t.func)
    assert " if " not in lp.text(t.func)
    inputs = arrays(s)
    same_in_the_ring(s, t, inputs, {})
    np.testing.assert_array_equal(t.build("llvm")(*inputs.values()), np.einsum("klm,lkn->mn", *inputs.values()))
