"""Convolutions with batch norm and relu, scheduled for a GPU by the primitives of products: on the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from convolutions import CONVS, Conv
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Kernel
from loopir.ir.traverse.walk import statements
from loopir.ir.verify.verify import evaluate
from schedules.common.view_loops import over_folds
from schedules.cuda.conv import conv_channels_last, conv_of_floats, conv_on_tensor_cores, conv_split

SMALL = [c for c in CONVS if c.layout == "NHWC" or c.name.endswith(("padding", "stride 2", "2 groups", "odd"))]


@pytest.mark.parametrize("conv", SMALL, ids=lambda c: c.name)
def test_they_mean_what_they_say(conv: Conv) -> None:
    given = conv.arrays()
    (found,) = interpret(lp.lower(schedules.auto(conv.schedule(), "cuda"), "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)


@pytest.mark.parametrize("conv", [c for c in CONVS if c.dtype != "float32"], ids=lambda c: c.name)
def test_large_ones_are_done_by_tensor_cores(conv: Conv) -> None:
    large = replace(conv, n=128, h=4 * conv.h, c=4 * conv.c, k=4 * conv.k)
    assert "mma_m16n8k16" in lp.text(schedules.gpu(large.schedule()).func)


def test_warpgroups_take_windows_in_vectors_and_weights_in_boxes() -> None:
    conv = Conv("padding", n=1, c=64, h=7, k=64, r=2, padding=1)
    s = schedules.conv_wgmma(schedules.inlined(conv.schedule()), "conv", block=(64, 64), stages=2)
    assert all(x in lp.text(s.func) for x in ("wgmma_m64n64k16", "cp_async", "tma_load"))
    given = conv.arrays()
    (found,) = interpret(lp.lower(s, "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)


@pytest.mark.parametrize(
    ("channels", "filters", "options"),
    [(3, 18, {"stride": 2, "padding": 2, "dilation": 2}), (4, 16, {"groups": 2})],
)
def test_float32_is_copied_element_by_element_some_steps_ahead(
    channels: int, filters: int, options: dict[str, int]
) -> None:
    """Exact, without races and with all waits: the interpreter runs what is lowered."""
    shapes = (1, channels, 8, 8), (filters, channels // options.get("groups", 1), 3, 3), (filters,)
    x, w, b = (lp.placeholder(shape, "float32", name=name) for shape, name in zip(shapes, "xwb", strict=True))
    s = lp.Schedule(lp.relu(lp.conv2d(x, w, b, **options)))
    made = schedules.conv_simt(schedules.inlined(s), "conv", block=(32, 32), part=(4, 4))
    assert "cp_async_f32x1" in lp.text(made.func)
    rng = np.random.default_rng(0)
    given = tuple(rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    (found,) = interpret(lp.lower(made, "cuda")[0], given).values()
    np.testing.assert_array_equal(found, s.build("llvm")(*given))


def test_float32_fills_a_gpu_where_it_has_the_work() -> None:
    x, w = lp.placeholder((16, 200, 16, 16), name="x"), lp.placeholder((128, 200, 3, 3), name="w")
    s = lp.Schedule(lp.conv2d(x, w, stride=2, padding=2, dilation=2))
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert all(k.work.blocks >= 128 for k in made.report().kernels)  # filters are packed first
    pytest.importorskip("cuda.bindings")
    for resources in lp.compile_source(made, arch="sm_90a").resources.values():
        assert resources.spill_stores == resources.spill_loads == 0


def test_products_of_ragged_rows_are_waited_for_an_iteration_later() -> None:
    """Guards of rows and borders together are too much for the solver; without them the answer is the same."""
    conv = Conv("padding", n=16, c=256, h=14, k=256, r=3, padding=1)
    s = schedules.conv_wgmma(schedules.inlined(conv.schedule()), "conv", block=(128, 64), stages=3)
    waits = [x for x in statements(lp.lower(s, "cuda")[0].body) if isinstance(x, AsyncWait)]
    assert [x.pending for x in waits if x.group == "products"] == [1, 0]


@pytest.mark.parametrize("stages", [2, 3])
def test_warpgroups_take_parts_of_the_folded_loop(stages: int) -> None:
    """Exact, without races and with all waits, where rows are no whole tiles."""
    conv = Conv("padding", n=1, c=64, h=9, k=64, r=2, padding=1)
    s = schedules.conv_wgmma(schedules.inlined(conv.schedule()), "conv", block=(64, 64), parts=2, stages=stages)
    given = conv.arrays()
    (found,) = interpret(lp.lower(s, "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)


@pytest.mark.parametrize(("images", "size", "channels"), [(16, 14, 256), (16, 7, 512), (32, 7, 512)])
def test_a_few_rows_of_many_terms_fill_a_gpu_with_warpgroups(images: int, size: int, channels: int) -> None:
    conv = Conv("padding", n=images, c=channels, h=size, k=channels, r=3, padding=1)
    s = schedules.auto(conv.schedule(), "cuda", arch="sm_90a")
    assert "wgmma_m64n128" in lp.text(s.func)
    (product, _) = s.report().kernels
    assert product.work.blocks >= 92
    whole = schedules.conv_wgmma(schedules.inlined(conv.schedule()), "conv", block=(128, 128))
    assert lp.predict(s, "cuda").seconds < 0.85 * lp.predict(whole, "cuda").seconds


def test_weights_in_the_order_of_torch_are_stored_along_their_channels_for_warpgroups() -> None:
    """Exact, of images in the order NHWC and weights of (filters, channels, height, width)."""
    x, w = lp.placeholder((1, 5, 5, 64), "bfloat16", name="x"), lp.placeholder((64, 64, 3, 3), "bfloat16", name="w")
    u, v, c = (lp.reduce_axis(n, name=name) for n, name in ((3, "u"), (3, "v"), (64, "c")))

    def element(b: Any, i: Any, j: Any, o: Any) -> Any:
        return lp.sum(lp.cast(x[b, i + u, j + v, c], "float32") * lp.cast(w[o, c, u, v], "float32"), axis=(c, u, v))

    s = lp.Schedule(lp.relu(lp.compute((1, 3, 3, 64), element, name="conv")))
    made = conv_channels_last(schedules.inlined(s), "conv", warpgroups=True, block=(64, 64))
    assert all(text in lp.text(made.func) for text in ("wgmma_m64n64k16", "tma_load", "cp_async"))
    rng = np.random.default_rng(0)
    given = tuple(rng.integers(-2, 3, n).astype(x.dtype.numpy) for n in ((1, 5, 5, 64), (64, 64, 3, 3)))
    (found,) = interpret(lp.lower(made, "cuda")[0], given).values()
    np.testing.assert_array_equal(found, s.build("llvm")(*given))


@pytest.mark.parametrize(("k", "r", "h", "taken"), [(64, 3, 28, True), (64, 1, 28, False), (64, 3, 6, False)])
def test_warpgroups_are_for_many_large_tiles_of_many_steps(k: int, r: int, h: int, taken: bool) -> None:
    conv = Conv("", n=16, c=64, h=h, k=k, r=r, padding=r // 2)
    s = schedules.inlined(conv.schedule())
    if taken:
        assert "wgmma_m64n64k16" in str(schedules.conv_wgmma(s, "conv"))
        return
    with pytest.raises(lp.ScheduleError, match="conv is left to warps: warpgroups take many large tiles"):
        schedules.conv_wgmma(s, "conv")


@pytest.mark.parametrize("channels", [1, 3, 5, 13])
def test_few_channels_are_in_vectors_on_a_cpu(channels: int) -> None:
    """Tiles of registers from four on, else rows of the image: a window that is shorter than a vector is no fold."""
    shapes = {"x": (2, 3, 21, 25), "w": (channels, 3, 3, 3)}
    x, w = (lp.placeholder(shape, "float32", name=name) for name, shape in shapes.items())
    axes = c, h, v = tuple(lp.reduce_axis(3, name=name) for name in "chv")
    s = lp.Schedule(
        lp.compute(
            (2, channels, 19, 23), lambda b, o, i, j: lp.sum(x[b, c, i + h, j + v] * w[o, c, h, v], axis=axes), name="y"
        )
    )
    t = schedules.cpu(s, lanes=8)
    assert any(t.loop(loop).kind == "vectorize" for loop in t.loops())
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 5, shape).astype(np.float32) for shape in shapes.values())
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(t.build("llvm")(a, b), np.einsum("bcijhv,ochv->boij", windows, b))


def test_few_tiles_are_made_in_parts_of_the_folded_loop() -> None:
    conv = Conv("padding", n=1, c=32, h=7, k=64, r=3, padding=1)
    s = conv_split(schedules.inlined(conv.schedule()), "conv", parts=2)
    given = conv.arrays()
    (found,) = interpret(lp.lower(s, "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)
    x, w = (lp.placeholder(n, "bfloat16", name=name) for name, n in (("x", (1, 256, 14, 14)), ("w", (256, 256, 3, 3))))
    program = lp.Schedule(lp.relu(lp.conv2d(x, w, padding=1)))
    split, whole = (lp.predict(f(program, "conv"), "cuda").seconds for f in (conv_on_tensor_cores, schedules.conv_mma))
    assert split < whole / 2


def test_few_tiles_of_float32_are_made_in_parts_too() -> None:
    conv = Conv("padding", n=1, c=16, h=6, k=64, r=3, padding=1, dtype="float32")
    s = schedules.conv_simt(schedules.inlined(conv.schedule()), "conv", block=(64, 32), part=(4, 4), parts=2)
    given = conv.arrays()
    (found,) = interpret(lp.lower(s, "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)
    x, w = (lp.placeholder(n, name=name) for name, n in (("x", (1, 1024, 7, 7)), ("w", (64, 1024, 1, 1))))
    program = lp.Schedule(lp.relu(lp.conv2d(x, w)))
    split, whole = (lp.predict(f(program, "conv"), "cuda").seconds for f in (conv_of_floats, schedules.conv_simt))
    assert split < whole / 1.5


@pytest.mark.parametrize("parts", [1, 2])
def test_channels_across_rows_are_stored_along_them_first(parts: int) -> None:
    """So that windows of a padded array in NCHW are copied in whole vectors, asynchronously."""
    conv = Conv("padding", n=1, c=16, h=5, k=16, r=3, padding=1)
    s = conv_channels_last(schedules.inlined(conv.schedule()), "conv", parts=parts)
    assert "cp_async_bf16()" in str(s)
    given = conv.arrays()
    (found,) = interpret(lp.lower(s, "cuda")[0], tuple(given)).values()
    assert conv.right(found, given)


def by_threads(s: lp.Schedule, made: lp.Schedule, seed: int) -> None:
    """What `made` computes of small integers, interpreted with its threads, is what `s` says."""
    rng = np.random.default_rng(seed)
    given = [
        rng.integers(-4, 5, [evaluate(d, {}) for d in a.buffer.shape]).astype(a.buffer.dtype.numpy)
        for a in s.func.args
        if a.access != "out"
    ]
    (want,) = interpret(s.func, given).values()
    (found,) = interpret(lp.lower(made, "cuda")[0], given, seed=seed).values()
    np.testing.assert_array_equal(found, want)


@settings(max_examples=4, deadline=None)
@given(st.sampled_from([3, 5, 9, 20]), st.sampled_from([2, 3]), st.integers(3, 12), st.sampled_from([1, 2]))
def test_groups_of_any_size_are_tiles_of_their_own(filters: int, groups: int, columns: int, stride: int) -> None:
    """What a tile has beyond the filters of a group belongs to no other group."""
    x = lp.placeholder((2, groups * 6, columns), "bfloat16", name="x")
    w, b = (
        lp.placeholder(n, "bfloat16", name=v) for v, n in (("w", (filters * groups, 6, 3)), ("b", (filters * groups,)))
    )
    s = lp.Schedule(lp.conv1d(x, w, b, stride=stride, padding=1, groups=groups))
    made = schedules.conv_mma(schedules.inlined(s), "conv", block=(32, 32), warps=(2, 2), depth=64, stages=1)
    assert "mma_m16n8k16" in lp.text(made.func)
    by_threads(s, made, filters)


TRANSPOSED = [(2, 2, 0), (4, 2, 1), (3, 2, 1)]
WINDOWS = [*((w, False) for w in TRANSPOSED), (TRANSPOSED[0], True)]
"""With phases that read the same elements as rows, too."""


@settings(max_examples=4, deadline=None)
@given(st.sampled_from(WINDOWS), st.integers(16, 20), st.integers(3, 6), st.integers(1, 2))
def test_phases_of_a_transposed_convolution_are_stored_where_they_belong(
    how: tuple[tuple[int, int, int], bool], channels: int, size: int, images: int
) -> None:
    """In one kernel, where phases have as many elements each: no array of them is left that another one interleaves."""
    (r, stride, padding), together = how
    x = lp.placeholder((images, channels, size, size), "bfloat16", name="x")
    w = lp.placeholder((channels, 8, r, r), "bfloat16", name="w")
    s = lp.Schedule(lp.conv_transpose2d(x, w, stride=stride, padding=padding))
    ready = over_folds(schedules.inlined(s))
    made = schedules.conv_mma(ready, "conv", block=(32, 32), warps=(2, 2), depth=32, together=together)
    lowered = lp.lower(made, "cuda")[0]
    assert r % 2 or sum(isinstance(k, Kernel) for k in lowered.body) == 1
    by_threads(s, made, channels)


@pytest.mark.parametrize("window", TRANSPOSED[:2])
def test_a_transposed_convolution_is_one_kernel(window: tuple[int, int, int]) -> None:
    r, stride, padding = window
    x, w = (lp.placeholder(n, "bfloat16", name=v) for v, n in (("x", (4, 48, 24, 24)), ("w", (48, 40, r, r))))
    made = schedules.gpu(lp.Schedule(lp.conv_transpose2d(x, w, stride=stride, padding=padding)), arch="sm_90a")
    assert len(made.report("sm_90a").kernels) == 1
    pytest.importorskip("cuda.bindings")
    for resources in lp.compile_source(made, arch="sm_90a").resources.values():
        assert resources.spill_stores == resources.spill_loads == resources.stack == 0


def test_a_gpu_is_filled_by_smaller_tiles() -> None:
    """Of channels stored along rows, too: tiles of 64 x 128 would be 32 blocks."""
    x, w = (lp.placeholder(n, "bfloat16", name=v) for v, n in (("x", (4, 128, 32, 32)), ("w", (64, 128, 3, 3))))
    s = lp.Schedule(lp.conv2d(x, w, padding=1))
    made = schedules.gpu(s, arch="sm_90a")
    assert made.report("sm_90a").kernels[-1].work.blocks >= 128
    small = Conv("padding", n=1, c=16, h=5, k=16, r=3, padding=1)
    tile = {"block": (32, 64), "warps": (2, 2), "depth": 64, "stages": 3}
    by = conv_channels_last(schedules.inlined(small.schedule()), "conv", **tile)
    given = small.arrays()
    (found,) = interpret(lp.lower(by, "cuda")[0], tuple(given)).values()
    assert small.right(found, given)


@pytest.mark.parametrize(("arch", "count"), [("sm_90a", 1), ("sm_80", 0)])
def test_copies_with_channels_last_are_left_to_warpgroups_too_where_there_are_any(
    arch: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def first(s: lp.Schedule, stage: str, recipes: list[Any]) -> lp.Schedule:
        seen.extend(recipes)
        return s

    monkeypatch.setattr("schedules.cuda.conv._cheapest_of", first)
    x, w = (lp.placeholder(n, "bfloat16", name=name) for n, name in (((16, 64, 56, 56), "x"), ((128, 64, 3, 3), "w")))
    s = lp.Schedule(lp.conv2d(x, w, padding=1))
    with lp.scheduling_for(lp.machine(arch)):
        conv_on_tensor_cores(s, next(x for x in s.stages if s.reduced(x)))
    assert sum(x.keywords["options"] == {"warpgroups": True} for x in seen) == count
