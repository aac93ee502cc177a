"""Results that leave a block as boxes: swizzled rows in slots of shared memory, right in what order tiles come."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from meaning import same_in_the_ring

import loopir as lp
from loopir.ir.layout.smem_descriptors import swizzle_byte
from loopir.ir.ops import find_instruction
from schedules.cuda.tma_store import (
    SHORT_NAMES,
    SWIZZLE_BYTES,
    result_bytes,
    slots_of,
    store_boxes,
    swizzled,
    tile_of_results,
)


@pytest.mark.parametrize("dtype", SHORT_NAMES)
@pytest.mark.parametrize("rows", [8, 64])
def test_a_tile_is_swizzled_as_boxes_are(dtype: str, rows: int) -> None:
    """Rows of 128 bytes, piece after piece: the layout puts an element where the copy of a box looks for it."""
    size = lp.placeholder((1,), dtype, name="x").dtype.bytes
    width = SWIZZLE_BYTES // size
    layout: Any = eval(swizzled(rows, width // 8))
    x, y = np.indices((rows, 3 * width))
    places = layout(x, y)
    assert sorted(places.ravel()) == [*range(3 * rows * width)]
    plain = (y // width * rows + x) * SWIZZLE_BYTES + y % width * size
    np.testing.assert_array_equal(places * size, swizzle_byte(plain, SWIZZLE_BYTES))
    box = find_instruction(f"tma_store_{rows}x{width}_{SHORT_NAMES[dtype]}")
    assert box is not None
    assert box.boxed is not None


@given(st.integers(1, 64), st.sampled_from([64, 128, 256]), st.sampled_from([1, 2, 4]))
def test_slots_follow_one_another_from_tile_to_tile(slices: int, rows: int, size: int) -> None:
    slots = slots_of(slices)
    assert slots in (1, 2, 3)
    assert slices % slots == 0
    assert slots > 1 or (slices % 2 and slices % 3)
    columns = slices * SWIZZLE_BYTES // size
    assert result_bytes(rows, columns, size) == rows * 128 * slots


def tiles(dtype: str, columns: int = 128) -> lp.Schedule:
    """Sums in two tiles of 64 x `columns`, and what is made of them."""
    a, b = lp.placeholder((128, 4), "bfloat16", name="A"), lp.placeholder((4, columns), "bfloat16", name="B")
    return lp.Schedule(lp.relu(a.astype("float32") @ b.astype("float32")).astype(dtype))


def same(s: lp.Schedule, t: lp.Schedule) -> None:
    rng = np.random.default_rng(0)
    arrays = {x: rng.integers(-3, 4, shape).astype(np.float32) for x, shape in (("A", (128, 4)), ("B", (4, 128)))}
    same_in_the_ring(s, t, arrays, {})


def placed(s: lp.Schedule, columns: int) -> tuple[lp.Schedule, str, str]:
    """The product computed in each tile of the last stage, with that and the loop of a tile."""
    out = s.stages[-1]
    i, j = s.loops(out)[-2:]
    s, (io, ii) = s.split(i, 64).with_loops
    s, (jo, ji) = s.split(j, columns).with_loops
    s = s.reorder(io, jo, ii, ji).compute_at("matmul", jo)
    return s, out, jo


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_tile_of_results_is_made_in_shared_memory_and_copied(dtype: str) -> None:
    s, out, at = placed(tiles(dtype), 128)
    t, made, copy = tile_of_results(s, "matmul", out, at)
    (target,) = (x for x in t.accesses(made) if x.write)
    assert t.buffer(target.buffer).scope == "shared"
    assert [d.value for d in t.buffer(target.buffer).shape] == [64, 128]
    assert {x.buffer for x in t.accesses(copy) if not x.write} == {target.buffer}
    same(s, t)


def by_warpgroup(s: lp.Schedule, loop: str) -> lp.Schedule:
    return s


@pytest.mark.parametrize(("dtype", "slots"), [("float16", 2), ("float32", 2)])
def test_slices_go_through_slots_as_boxes(dtype: str, slots: int) -> None:
    s, out, at = placed(tiles(dtype), 128)
    t = store_boxes(s, "matmul", out, at, 64, by_warpgroup, 64)
    assert t is not None
    width = SWIZZLE_BYTES // s.buffer(out).dtype.bytes
    assert f"with tma_store_64x{width}_{SHORT_NAMES[dtype]}()" in lp.text(t.func)
    (slot,) = set(t.buffers) - set(s.buffers)
    assert slots_of(128 // width) == slots
    same(s, t)
    assert t.buffer(slot).scope == "shared"


@pytest.mark.parametrize(
    ("dtype", "columns", "rows"), [("float64", 128, 64), ("float16", 96, 64), ("float16", 128, 512)]
)
def test_what_is_no_box_is_left_alone(dtype: str, columns: int, rows: int) -> None:
    """Elements that no tensor map has a name for here, slices that are not whole, more rows than a box has."""
    s, out, at = placed(tiles(dtype, columns), columns)
    assert store_boxes(s, "matmul", out, at, rows, by_warpgroup, 64) is None
