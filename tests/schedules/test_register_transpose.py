"""Transposes on a CPU by tiles in registers: right at every size, every vector whole but for the last tiles."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.llvm.register_transpose import transpose_cpu, transposed_tile


def permuted(shape: tuple[object, ...], order: tuple[int, ...], dtype: str = "float32") -> lp.Schedule:
    x = lp.placeholder(shape, dtype, name="x")
    out = tuple(shape[d] for d in order)
    return lp.Schedule(
        lp.compute(out, lambda *at: x[tuple(at[order.index(d)] for d in range(len(shape)))] + 1, name="y")
    )


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*[st.integers(1, 11)] * 3),
    st.sampled_from([p for p in permutations(range(3)) if p[-1] != 2]),
    st.booleans(),
    st.sampled_from([2, 4]),
)
def test_any_permutation(shape: tuple[int, ...], order: tuple[int, ...], symbolic: bool, rows: int) -> None:
    sizes = {f"n{d}": n for d, n in enumerate(shape)} if symbolic else {}
    s = permuted(tuple(map(lp.symbol, sizes)) if symbolic else shape, order)
    try:
        t = transpose_cpu(s, "y", rows=rows)
    except lp.ScheduleError:  # a side of one element turns nothing round
        assert 1 in shape
        return
    x = np.random.default_rng(0).integers(0, 99, shape).astype(np.float32)
    want, got = (lp.interpret(p.func, {"x": x}, sizes, domain="ring") for p in (s, t))
    np.testing.assert_array_equal(got["y"], want["y"])
    np.testing.assert_array_equal(t.build("llvm")(x), x.transpose(order) + 1)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "float16", "int32"])
@pytest.mark.parametrize("shape", [(64, 64), (61, 67), (200, 33)])
def test_auto_takes_tiles(shape: tuple[int, int], dtype: str) -> None:
    s = permuted(shape, (1, 0), dtype)
    t = schedules.auto(s, "llvm")
    assert len(t.loops("y")) == 4
    assert all(t.loop(x).kind in ("vectorize", "unroll") for x in t.loops("y")[2:])
    x = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    np.testing.assert_array_equal(t.build("llvm")(x), x.T + 1)


@pytest.mark.parametrize(
    ("shape", "down"), [((16, 1500), True), ((1500, 16), False), ((16, 24), False), ((1024, 1024), False)]
)
def test_tiles_go_along_rows_of_the_input_that_lie_on_pages_of_their_own(shape: tuple[int, int], down: bool) -> None:
    t = transpose_cpu(permuted(shape, (1, 0)), "y", rows=8)
    assert t.loops("y")[:2] == (("j_o", "i_o") if down else ("i_o", "j_o"))
    x = np.random.default_rng(0).integers(0, 99, shape).astype(np.float32)
    np.testing.assert_array_equal(t.build("llvm")(x), x.T + 1)


def test_what_turns_nothing_round_or_is_less_than_a_tile_is_no_transpose() -> None:
    x = lp.placeholder((64, 64), "float32", name="x")
    same = lp.Schedule(lp.compute((64, 64), lambda i, j: x[i, j] + 1.0, name="y"))
    assert transposed_tile(same, "y") is None
    assert transposed_tile(permuted((3, 64), (1, 0)), "y") is None
    with pytest.raises(lp.ScheduleError, match="y reads nothing across the direction that it writes in"):
        transpose_cpu(same, "y")


@pytest.mark.parametrize("how", ["both ways", "every second", "wrapped", "of two", "chosen"])
def test_auto_takes_what_is_read_across_in_any_way(how: str) -> None:
    x, y = (lp.placeholder((40, 40), "float32", name=name) for name in "xy")
    elements = {
        "both ways": lambda i, j: x[i, j] + x[j, i],
        "every second": lambda i, j: x[j // 2 * 2, i] + y[i, j],
        "wrapped": lambda i, j: x[(j + 7) % 40, i] + y[i, j],
        "of two": lambda i, j: x[j, i] * y[j, i],
        "chosen": lambda i, j: lp.where(y[i, j] > 3, x[j, i], y[i, j]),
    }
    s = lp.Schedule(lp.compute((40, 40), elements[how], name="z"))
    given = {b.buffer.name: np.random.default_rng(n).integers(0, 9, (40, 40)).astype(np.float32)
             for n, b in enumerate(s.func.args) if b.buffer.name != "z"}  # fmt: skip
    (want,) = lp.interpret(s.func, given).values()
    np.testing.assert_array_equal(schedules.auto(s, "llvm").build("llvm")(*given.values()), want)


def test_a_transpose_that_is_stored_once_more_is_moved_once() -> None:
    x = lp.placeholder((64, 48), "float32", name="x")
    s = lp.Schedule(lp.compute((48, 64), lambda i, j: x[j, i], name="y").named("z"))
    t = schedules.auto(s, "llvm")
    assert len(s.stages) == 2
    assert len(t.loops(t.stages[-1])) == 4
    a = np.random.default_rng(0).random((64, 48), np.float32)
    np.testing.assert_array_equal(t.build("llvm")(a), a.T)


def test_tiles_are_as_small_as_a_row_of_an_image_asks() -> None:
    rows = lp.vector_unit()[0] // 4
    shape = (2, 32, 6, 7 * (rows // 2))  # two dimensions are one loop, and a tile has half a vector of it
    s = permuted(shape, (0, 2, 3, 1))
    t = schedules.auto(s, "llvm")
    assert [t.loop(x).extent.value for x in t.loops("y")[-2:]] == [rows // 2] * 2  # type: ignore[union-attr]
    a = np.random.default_rng(0).integers(0, 99, shape).astype(np.float32)
    np.testing.assert_array_equal(t.build("llvm")(a), a.transpose(0, 2, 3, 1) + 1)
