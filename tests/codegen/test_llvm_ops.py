"""Operations and conversions in LLVM IR give what the interpreter gives."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_llvm_emit import Array, N, lanes, program, ulps

import loopir as lp
import loopir.intrinsics
from loopir.ir.dtypes import ALL_DTYPES, BY_NAME, DType
from loopir.ir.ops import REGISTRY, Intrinsic


def values_of(t: DType, seed: int = 0) -> Array:
    """Ends of the range, specials and small numbers, in a random order."""
    rng = np.random.default_rng(seed)
    if t.kind == "bool":
        return rng.integers(0, 2, N).astype(bool)
    if t.is_float:
        info = ml_dtypes.finfo(t.numpy)
        odd = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.nan, np.inf, -np.inf, 3.0, -7.25, 100.0, 1e-3]
        edges = [float(info.max), float(info.min), float(info.tiny), float(info.smallest_subnormal), 2.0**31, 2.0**63]
        with np.errstate(all="ignore"):
            return rng.permutation(np.array([*odd, *edges, -129.0])).astype(t.numpy)
    info = np.iinfo(t.numpy)
    low, high = int(info.min), int(info.max)
    more = [-1, -2, -7] if t.kind == "int" else [4, 9, 11]
    edges = [low, low + 1, high, high - 1, 0, 0, 1, 2, 3, 5, 7, 8, 16, 31, 32, 63, 64, 100, *more]
    return rng.permutation(np.array(edges, t.numpy))


def as_tuple(x: Any) -> tuple[Array, ...]:
    return x if isinstance(x, tuple) else (x,)


def both_ways(func: lp.Func, *arrays: Array) -> list[tuple[Array, Array]]:
    """What the CPU gives, as loops and in lanes, each with what the interpreter does."""
    with np.errstate(all="ignore"):
        expected = as_tuple(lp.Schedule(func).build("interpret")(*arrays))
    ways = [as_tuple(s.build("llvm", fma=False)(*arrays)) for s in (lp.Schedule(func), lanes(func))]
    return [pair for found in ways for pair in zip(found, expected, strict=True)]


def assert_same(found: Array, expected: Array) -> None:
    """Bit for bit, but for which NaN it is."""
    same = found.view(np.uint8) == expected.view(np.uint8)
    same = same.reshape(*found.shape, -1).all(-1) | ((found != found) & (expected != expected))
    assert same.all(), (found[~same], expected[~same], np.flatnonzero(~same))


OPERATIONS = [
    fn
    for fn in REGISTRY.values()
    if not fn.doc.startswith("Part of") and "private" not in fn.doc and fn.lane is None  # a GPU's lanes: tests/ir
]


@pytest.mark.parametrize("fn", OPERATIONS, ids=repr)
def test_operations(fn: Intrinsic) -> None:
    """No operation traps: divisions by 0, shifts out of range and ends of ranges are among the values."""
    types = [t for t in ALL_DTYPES if t.kind in fn.kinds]
    rows = []
    for t in types:
        names = [f"x{n}_{t}" for n in range(fn.arity)]
        value = f"{fn.name}({', '.join(f'{x}[i]' for x in names)})"
        rows.append((value, BY_NAME["bool"] if fn.result == "bool" else t, dict.fromkeys(names, t)))
    arrays = [values_of(t, n) for t in types for n in range(fn.arity)]
    for found, expected in both_ways(program(*rows), *arrays):
        if fn.ulp == 0 or fn.result == "bool":
            assert_same(found, expected)
            continue
        near = np.abs(expected.astype(np.float64)) < (
            1.0 if fn.name == "lgamma" else 0.0
        )  # where Python's loses digits
        assert ulps(found[~near], expected[~near]) <= fn.ulp + 1, (found, expected)
        apart = np.abs(found[near].astype(np.float64) - expected[near].astype(np.float64))
        assert (apart <= 8 * float(ml_dtypes.finfo(found.dtype).eps)).all(), (found, expected)


@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
def test_casts(source: DType) -> None:
    """NaN, infinities and numbers out of range among them."""
    rows = [(f"{to}(x[i])", to, {"x": source}) for to in ALL_DTYPES if to != source]
    for found, expected in both_ways(program(*rows), values_of(source)):
        assert_same(found, expected)


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_float64_to_16_bits_rounds_as_numpy_does(to: str) -> None:
    """At every number halfway between two, and just beside it: float16 is rounded once, with no float32 in between."""
    t = BY_NAME[to]
    count = int(np.array(np.inf, t.numpy).view(np.uint16))
    ends = np.arange(count, dtype=np.uint16).view(t.numpy).astype(np.float64)
    half = np.append((ends[:-1] + ends[1:]) / 2, 2 * ends[-1] - (ends[-2] + ends[-1]) / 2)
    x = np.concatenate([half * (1 + e) for e in (0, 2.0**-40, -(2.0**-40), 2.0**-52, -(2.0**-52))])
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        expected = x.astype(t.numpy)
    func = program((f"{to}(x[i])", t, {"x": BY_NAME["float64"]}), n=len(x))
    for s in (lp.Schedule(func), lanes(func)):
        assert_same(s.build("llvm")(x), expected)
