"""Inputs to measure a program with, and whether a result is the program's.

Inputs are multiples of 1/8, so that sums and products of most programs are exact in any order; where these leave most
of a result no number, they are positive. What is written is filled with values that no program gives first, so that an
element that is left out is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import loopir as lp

Array = np.ndarray[Any, np.dtype[Any]]
PERIOD = 99991
"""Elements after which an input repeats: a prime, so that no row is like another."""
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
ROUNDINGS = 16.0
"""Roundings of a result that another order of operations may differ by."""


def input_arrays(signature: Any, sizes: Sequence[int], *, positive: bool = False) -> list[Array]:
    """An array for each argument that is read, in order; the same in every process."""
    shapes = signature.shapes(*sizes)
    made: list[Array] = []
    for n, (spec, shape) in enumerate(zip(signature.args, shapes, strict=True)):
        if spec.access != "out":
            made.append(_array(np.random.default_rng(n), spec.numpy, shape, positive))
    return made


def _array(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], positive: bool) -> Array:
    few: Array
    if dtype.kind == "b":
        few = rng.integers(0, 2, PERIOD).astype(dtype)
    elif dtype.kind in "iu":
        few = rng.integers(0, 4, PERIOD).astype(dtype)
    else:
        low, high = (4, 13) if positive else (-8, 9)
        few = np.asarray(rng.integers(low, high, PERIOD) / 8.0, dtype)
    return np.resize(few, shape)


def output_arrays(signature: Any, sizes: Sequence[int]) -> list[Array]:
    """An array for each argument that is written alone, filled with what no program gives."""
    shapes = signature.shapes(*sizes)
    made: list[Array] = []
    for spec, shape in zip(signature.args, shapes, strict=True):
        if spec.access == "out":
            fill: Any = {"b": True, "u": 173, "i": -83}.get(spec.numpy.kind, -8.5e3 if spec.numpy.itemsize > 1 else 416)
            made.append(np.full(shape, fill, spec.numpy))
    return made


def tolerance(s: lp.Schedule, terms: float) -> float:
    """What part of its size an element of a result of `s`, which folds so many `terms`, may be off; 0 for integers."""
    types = {s.buffer(x).dtype.name for x in s.buffers} & set(FLOATS)
    return sum(ROUNDINGS * _epsilon(x) for x in types) + ROUNDINGS * _sums_epsilon(types) * terms**0.5


def _epsilon(dtype: str) -> float:
    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype).eps)


def _sums_epsilon(types: set[str]) -> float:
    """Of what is added up in, which is float32 for all that is narrower."""
    return _epsilon("float64" if types == {"float64"} else "float32") if types else 0.0


def difference(found: Sequence[Array], wanted: Sequence[Array], names: Sequence[str], allowed: float) -> str:
    """Where a result is not what is wanted, in a sentence; "" where it is."""
    for name, a, b in zip(names, found, wanted, strict=True):
        wrong = _wrong(a, b, allowed)
        if wrong is not None and wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), a.shape)
            where, other = ", ".join(map(str, at)), f"{_format_number(a[at])}, not {_format_number(b[at])}"
            return f"{int(wrong.sum())} elements of {name} are wrong: at [{where}] it gives {other}"
    return ""


def _format_number(x: Any) -> str:
    return f"{float(x):.6g}"


def _wrong(a: Array, b: Array, allowed: float) -> Array | None:
    """Which elements are further off than is allowed; None where none is."""
    if np.array_equal(a.view(np.uint8) if a.ndim else a, b.view(np.uint8) if b.ndim else b):
        return None
    if a.dtype.kind in "biu":
        return np.asarray(a != b)
    x, y = (v.astype(np.float64) for v in (a, b))
    sure = np.isfinite(y)
    size = float(np.sqrt(np.mean(np.square(y[sure])))) if sure.any() else 0.0
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= allowed * (np.abs(y) + size)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.asarray(~(near | same))


def mostly_numbers(results: Sequence[Array]) -> bool:
    """Whether most elements of results are finite, so that a comparison says something."""
    counts = [(x.size, int(np.isfinite(x.astype(np.float64)).sum())) for x in results if x.dtype.kind not in "biu"]
    return 2 * sum(n for _, n in counts) >= sum(n for n, _ in counts)
