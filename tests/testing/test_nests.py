"""The programs that people schedule compute what NumPy does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import loopir as lp
from loopir.testing.generate import nests


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def blur(x: Any) -> Any:
    return sliding_window_view(sliding_window_view(x, 3, axis=1).mean(-1), 3, axis=0).mean(-1)


def conv2d(x: Any, w: Any) -> Any:
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.einsum("ncijuv,fcuv->nfij", windows, w)


def layernorm(x: Any, scale: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * scale


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.transpose(0, 2, 1)) @ v


def stencils(x: Any) -> Any:
    for _ in range(3):
        x = sliding_window_view(x, (3, 3)).mean((-2, -1))
    return x


CASES: dict[str, tuple[lp.Func, Callable[..., Any]]] = {
    "matmul": (nests.matmul(3, 4, 5), np.matmul),
    "blur": (nests.blur(5, 6), blur),
    "conv2d": (nests.conv2d(2, 4, 3, 2, 2), conv2d),
    "layernorm": (nests.layernorm(3, 5), layernorm),
    "attention": (nests.attention(2, 3, 4), attention),
    "stencils": (nests.stencils(9, 8, stages=3), stencils),
}


@pytest.mark.parametrize("name", CASES)
def test_nests_compute_what_numpy_does(name: str) -> None:
    func, expected = CASES[name]
    rng = np.random.default_rng(0)
    shapes = [tuple(d.value for d in a.buffer.shape) for a in func.args if a.access == "in"]  # pyright: ignore
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    got = lp.Schedule(func).build("interpret")(*inputs)
    np.testing.assert_allclose(got, expected(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", nests.NESTS)
def test_every_nest_is_made_at_numbers_and_at_symbols(name: str) -> None:
    assert not lp.Schedule(nests.constant(name)).func.sizes
    assert lp.Schedule(nests.symbolic(name)).func.sizes
