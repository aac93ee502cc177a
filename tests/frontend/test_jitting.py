"""lp.jit: functions of arrays, traced once for each signature."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopir as lp


@lp.jit
def scaled(x: Any, y: Any, factor: float = 2.0, flip: bool = False) -> Any:
    return (lp.flip(x) if flip else x) * factor + y


def test_a_function_is_traced_once_for_each_signature() -> None:
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    for _ in range(2):
        np.testing.assert_allclose(scaled(x, y), 2 * x + 1)
        np.testing.assert_allclose(scaled(x, y=y, factor=3.0), 3 * x + 1)
        np.testing.assert_allclose(scaled(x, y, flip=True), 2 * x[::-1] + 1)
    assert len(scaled.kernels) == 3  # type: ignore[union-attr]
    assert scaled(x[:2], y[:2]).shape == (2,)
    assert scaled(x.astype(np.float64), y).dtype == np.float64
    assert len(scaled.kernels) == 5  # type: ignore[union-attr]


def test_tuples_and_arrays_that_are_not_read() -> None:
    @lp.jit(target="llvm")
    def both(x: Any, unread: Any) -> Any:
        return x + 1, lp.sum(x)

    a, b = both(np.ones(3, np.float32), np.ones(2, np.int64))
    assert a.tolist() == [2, 2, 2]
    assert b == 3


def test_tensors_of_torch_share_the_kernel() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    x = np.ones(5, np.float32)
    scaled(x, x)
    before = len(scaled.kernels)  # type: ignore[union-attr]
    got = scaled(torch.ones(5), torch.ones(5))
    assert torch.equal(got, torch.full((5,), 3.0))
    assert len(scaled.kernels) == before  # type: ignore[union-attr]


def test_arrays_of_jax_come_back_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    class Array(np.ndarray):
        pass

    Array.__module__ = "jaxlib.xla"
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(numpy=SimpleNamespace(asarray=lambda x: ("jax", x))))
    kind, got = scaled(np.ones(6, np.float32).view(Array), np.ones(6, np.float32))
    assert (kind, got.tolist()) == ("jax", [3] * 6)


def test_what_cannot_be_traced_is_refused() -> None:
    with pytest.raises(TypeError, match=r"is given no array; lp.jit compiles functions of arrays"):
        scaled(1, 2)
    with pytest.raises(TypeError, match=r"is given a list; lp.jit takes arrays, and constants that can be hashed"):
        scaled(np.ones(2), [1, 2])
    with pytest.raises(TypeError, match=r"its parameters are named one by one"):
        lp.jit(lambda *x: x[0])
    with pytest.raises(TypeError, match=r"gives a int; a function under lp.jit gives a tensor"):
        lp.jit(lambda x: 1)(np.ones(2))  # type: ignore[operator]
