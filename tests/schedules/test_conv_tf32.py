"""Convolutions of float32 that a program rounds to TF32, on tensor cores: exact, on the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from schedules.cuda.conv import conv_channels_last, conv_split

TILE = {"block": (32, 32), "warps": (2, 2), "depth": 16}
WAYS: dict[str, Callable[[lp.Schedule, str], lp.Schedule]] = {
    "one tile": partial(schedules.conv_mma, **TILE),
    "in steps": partial(schedules.conv_mma, **TILE, stages=3),
    "two parts": partial(conv_split, parts=2, block=(32, 32), depth=16),
    "channels last": partial(conv_channels_last, **TILE, stages=3),
}


@lru_cache
def rounded(how: str) -> tuple[lp.Schedule, Any]:
    """A convolution of operands rounded `how`, and arrays for it whose elements are no numbers of TF32."""
    x, w = lp.placeholder((2, 16, 5, 6), "float32", name="x"), lp.placeholder((24, 16, 3, 3), "float32", name="w")
    a, b = (lp.tf32(t, nearest=how == "tf32") for t in (x, w))
    rng = np.random.default_rng(0)
    given = (rng.integers(-3, 4, x.shape) * (1 + 2.0**-12), rng.integers(-3, 4, w.shape) * (1 - 2.0**-12))
    return lp.Schedule(lp.conv2d(a, b, padding=1)), tuple(g.astype(np.float32) for g in given)


@lru_cache
def convolved(how: str) -> Any:
    s, given = rounded(how)
    return s.build("llvm")(*given)


@pytest.mark.parametrize("how", ["tf32", "tf32_below"])
@pytest.mark.parametrize("way", WAYS)
def test_tensor_cores_multiply_what_is_rounded(way: str, how: str) -> None:
    """Bit by bit: all sums of these are exact, and other roundings give others."""
    s, given = rounded(how)
    made = WAYS[way](schedules.inlined(s), "conv")
    assert f"mma_m16n8k8_{how}" in lp.text(made.func)
    (found,) = interpret(lp.lower(made, "cuda")[0], given).values()
    np.testing.assert_array_equal(found, convolved(how))
    assert (convolved("tf32" if how == "tf32_below" else "tf32_below") != found).any()


def test_warpgroups_multiply_what_is_cut_off() -> None:
    """Of weights in the order of torch, and images with channels last."""
    x, w = lp.placeholder((1, 5, 5, 32), "float32", name="x"), lp.placeholder((64, 32, 3, 3), "float32", name="w")
    u, v, c = (lp.reduce_axis(n, name=name) for n, name in ((3, "u"), (3, "v"), (32, "c")))

    def element(b: Any, i: Any, j: Any, o: Any) -> Any:
        return lp.sum(lp.tf32(x, nearest=False)[b, i + u, j + v, c] * lp.tf32(w, nearest=False)[o, c, u, v],
                      axis=(c, u, v))  # fmt: skip

    s = lp.Schedule(lp.relu(lp.compute((1, 3, 3, 64), element, name="conv")))
    made = conv_channels_last(schedules.inlined(s), "conv", warpgroups=True, block=(64, 64))
    assert all(text in lp.text(made.func) for text in ("wgmma_m64n64k8_tf32", "tma_load", "cp_async"))
    rng = np.random.default_rng(0)
    given = tuple((rng.integers(-2, 3, n) * (1 + 2.0**-12)).astype(np.float32) for n in (x.shape, w.shape))
    (found,) = interpret(lp.lower(made, "cuda")[0], given).values()
    np.testing.assert_array_equal(found, s.build("llvm")(*given))


@pytest.mark.parametrize("how", ["tf32", "tf32_below"])
def test_they_are_on_tensor_cores_by_default(how: str) -> None:
    """By warps, or by warpgroups, which cut off by themselves."""
    x, w = (lp.placeholder(n, "float32", name=v) for v, n in (("x", (16, 64, 28, 28)), ("w", (64, 64, 3, 3))))
    a, b = (lp.tf32(t, nearest=how == "tf32") for t in (x, w))
    plain, made = (
        schedules.auto(lp.Schedule(lp.conv2d(*given, padding=1)), "cuda", arch="sm_90a") for given in ((x, w), (a, b))
    )
    text = lp.text(made.func)
    assert f"mma_m16n8k8_{how}" in text or (how == "tf32_below" and "k8_tf32_bt" in text)
    assert lp.predict(made, "cuda").seconds < lp.predict(plain, "cuda").seconds / 1.5
