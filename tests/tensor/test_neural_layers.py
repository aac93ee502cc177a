"""Activations and normalizations are torch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import run

import loopir as lp

torch = pytest.importorskip("torch")
F = torch.nn.functional
LAYERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "leaky_relu": (lp.leaky_relu, F.leaky_relu),
    "slope": (lambda x: lp.leaky_relu(x, 0.3), lambda x: F.leaky_relu(x, 0.3)),
    "elu": (lp.elu, F.elu),
    "alpha": (lambda x: lp.elu(x, 2.0), lambda x: F.elu(x, 2.0)),
    "hardswish": (lp.hardswish, F.hardswish),
    "mish": (lp.mish, F.mish),
    "log_sigmoid": (lp.log_sigmoid, F.logsigmoid),
    "layer_norm": (lp.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:])),
    "two axes": (lambda x: lp.layer_norm(x, (-2, -1), eps=0.1), lambda x: F.layer_norm(x, x.shape[-2:], eps=0.1)),
    "affine": (
        lambda x: lp.layer_norm(x, weight=2.0, bias=lp.arange(x.shape[-1]).astype("float32")),
        lambda x: F.layer_norm(x, x.shape[-1:]) * 2 + torch.arange(x.shape[-1]),
    ),
    "rms_norm": (
        lambda x: lp.rms_norm(x, weight=0.5, eps=1e-3),
        lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-3) * 0.5,
    ),
}


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(LAYERS)), st.tuples(st.integers(1, 3), st.integers(2, 5)), st.integers(0, 99))
def test_as_torch(name: str, shape: tuple[int, int], seed: int) -> None:
    ours, theirs = LAYERS[name]
    x = np.random.default_rng(seed).normal(0, 30 if seed % 2 else 1, shape).astype(np.float32)
    got = run(ours(lp.placeholder(shape, "float32", name="x")), x)
    np.testing.assert_allclose(got, theirs(torch.tensor(x).double()).numpy(), rtol=3e-5, atol=3e-5)


def test_narrow_floats_are_computed_in_32_bits() -> None:
    x = np.array([[60000.0, -60000.0, 30000.0]], np.float16)
    got = run(lp.layer_norm(lp.placeholder(x.shape, "float16", name="x")), x)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, F.layer_norm(torch.tensor(x).float(), (3,)).numpy(), rtol=2e-3)
