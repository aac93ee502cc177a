"""What a tensor expression computes, by the interpreter, and how close that is to NumPy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import loopir as lp

Array = np.ndarray[Any, Any]


def run(t: Any, *arrays: Array) -> Any:
    return lp.Schedule(t).build("interpret")(*arrays)


def inputs(*arrays: Array) -> list[Any]:
    return [lp.placeholder(a.shape, a.dtype, name=f"x{n}") for n, a in enumerate(arrays)]


def assert_as_numpy(ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: Array, ulps: float = 0) -> None:
    """`ours` of tensors is `theirs` of arrays: shape, type, and values to within `ulps` units in the last place."""
    with np.errstate(all="ignore"):
        expected = np.asarray(theirs(*arrays))
    tensor = ours(*inputs(*arrays))
    assert tensor.shape == expected.shape
    assert tensor.dtype.numpy == expected.dtype
    assert_close(run(tensor, *arrays), expected, ulps)


def assert_close(found: Array, expected: Array, ulps: float = 0) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu" or not ulps:
        np.testing.assert_array_equal(found, expected)
        return
    a, b = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
    np.testing.assert_array_equal(a[~np.isfinite(a)], b[~np.isfinite(b)])
    fine = np.isfinite(a)
    unit = np.spacing(np.abs(expected[fine])).astype(np.float64)
    assert (np.abs(a[fine] - b[fine]) <= ulps * unit).all(), (found, expected)


def sample(dtype: Any, shape: Sequence[int], seed: int = 0) -> Array:
    """Small values of both signs, zeros among them; for floats quarters, for which sums and products are exact."""
    rng = np.random.default_rng(seed)
    t = np.dtype(dtype)
    if t.kind == "b":
        return rng.integers(0, 2, shape).astype(t)
    low = 0 if t.kind == "u" else -6
    whole = rng.integers(low, 7, shape)
    return (whole / 4).astype(t) if t.kind not in "iu" else whole.astype(t)
