"""Products over several loops: which loops each operand speaks of, its borders, its epilogue, its pool, its groups."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import same_in_the_ring

import loopir as lp
from schedules.common.nest_queries import extent
from schedules.common.products import filled, followed, pooled, product, require_product, several


def image(n: int = 2, c: int = 4, h: int = 10, name: str = "x") -> lp.Tensor:
    return lp.placeholder((n, c, h, h), "float32", name=name)


def weights(k: int = 8, c: int = 4, r: int = 3) -> lp.Tensor:
    return lp.placeholder((k, c, r, r), "float32", name="w")


def test_a_convolution_is_a_product_over_channels_and_windows() -> None:
    s = lp.Schedule(lp.relu(lp.conv2d(image(), weights(), padding=1)))
    assert s.stages == ("padded", "conv", "out")
    p = require_product(s, "conv")
    assert (len(p.free), len(p.reduced)) == (4, 3)
    assert (p.left.buffer, p.right.buffer, p.column) == ("w", "padded", p.free[-1])
    assert p.left.loops == (p.free[1],)
    assert p.right.loops == (p.free[0], *p.free[2:])
    assert (p.left.along, p.right.along) == (p.reduced[-1], p.column)
    assert (filled(s, ("conv",)), filled(s, ("out",)), pooled(s, "out")) == (("padded",), (), None)
    assert several(s, "conv", 4)
    assert not several(s, "conv", 16)  # 8 filters


@settings(max_examples=10)
@given(st.permutations("bijk"), st.booleans())
def test_each_operand_speaks_of_loops_of_its_own(order: list[str], turned: bool) -> None:
    """By the subscripts that are written: a batch both speak of, rows and columns one each."""
    sizes = dict(zip("bijk", (2, 3, 4, 5), strict=True))
    a = lp.placeholder((2, 5, 3) if turned else (2, 3, 5), "float32", name="A")
    b = lp.placeholder((2, 5, 4), "float32", name="B")
    k = lp.reduce_axis(5, name="k")
    free = [x for x in order if x != "k"]

    def element(*at: Any) -> Any:
        i = dict(zip(free, at, strict=True))
        left = a[i["b"], k, i["i"]] if turned else a[i["b"], i["i"], k]
        return lp.sum(left * b[i["b"], k, i["j"]], axis=k)

    made = lp.compute(tuple(sizes[x] for x in free), lambda x, y, z: element(x, y, z), name="C")
    s = lp.Schedule(made)
    loops = dict(zip(free, s.loops("C"), strict=False))
    p, column = product(s, "C"), free[-1]
    if column == "b":
        assert p is None  # the output runs along what both operands speak of
        return
    assert p is not None
    right, left = ("A", "B") if column == "i" else ("B", "A")
    assert (p.free, p.column) == (tuple(loops.values()), loops[column])
    assert (p.left.buffer, p.right.buffer) == (left, right)
    assert (p.left.loops, p.right.loops) == ((loops["j" if column == "i" else "i"],), (loops[column],))


@pytest.mark.parametrize(
    "value",
    [
        lambda x, y: lp.sum(x, axis=1),
        lambda x, y: x * y,
        lambda x, y: x @ x,  # of one buffer: see separate_operands
        lambda x, y: lp.sum(x * y, axis=1),  # both speak of all loops
    ],
)
def test_what_is_no_product_is_refused(value: Any) -> None:
    x, y = (lp.placeholder((8, 8), "float32", name=n) for n in "xy")
    s = lp.Schedule(value(x, y).named("z"))
    assert product(s, "z") is None
    assert not several(s, "z", 1)
    with pytest.raises(lp.ScheduleError, match="z folds no product of two operands over independent loops"):
        require_product(s, "z")


def test_what_pools_neighbours_is_told_and_what_it_reads_is_no_border() -> None:
    s = lp.Schedule(lp.max_pool2d(lp.relu(lp.conv2d(image(), weights(), padding=1)).named("r"), 2))
    assert pooled(s, s.stages[-2]) == "max_pool"
    assert pooled(s, "max_pool") is None
    assert filled(s, ("max_pool",)) == ()


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_sums_are_taken_one_by_one_group_by_group(groups: int, after: bool) -> None:
    made = lp.conv2d(image(1, 4, 5), weights(8, 4 // groups, 2), groups=groups)
    s = lp.Schedule(lp.relu(made).named("out") if after else made)
    t, stage, out = followed(s, "conv")
    assert out == ("out" if after else "conv")
    assert (stage == "conv") is after
    p = require_product(t, stage)
    if groups > 1:
        assert product(s, "conv") is None  # its loop over filters counts groups, too
        assert (extent(t, p.free[1]), extent(t, p.free[2])) == (groups, 8 // groups)
    assert len(t.loops(out)) == len(p.free)
    rng = np.random.default_rng(0)
    arrays = {"x": rng.integers(0, 9, (1, 4, 5, 5)), "w": rng.integers(0, 9, (8, 4 // groups, 2, 2))}
    same_in_the_ring(s, t, {k: v.astype(np.float32) for k, v in arrays.items()}, {})


def test_no_loop_is_split_for_a_look_at_what_is_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold of three rows that indices select; 8,000 has 28 divisors, each of which could be a group."""
    x, t = lp.placeholder((50, 3), "float32", name="x"), lp.placeholder((8000, 3), "int32", name="t")
    s = lp.Schedule(lp.sum(x[t[:, 0]] * x[t[:, 1]] * x[t[:, 2]], axis=1))
    monkeypatch.delattr(lp.Schedule, "split")
    assert not several(s, s.stages[0])
