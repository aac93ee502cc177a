"""The CPU backend against the interpreter: every operation on every type, as a scalar and in masked lanes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
from loopir.ir.dtypes import ALL_DTYPES, BY_NAME, DType
from loopir.ir.ops import REGISTRY, Intrinsic
from schedules.llvm.split_reduction import folded

Array = np.ndarray[Any, Any]
N = 21
"""Not a multiple of the lanes, so that the last vector is masked."""


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


def program(*rows: tuple[str, DType, dict[str, DType]], n: int = N) -> lp.Func:
    """A loop for each row: `y0[i0] = value`, where the value speaks of `i` and of arrays with these types."""
    given = {name: t for _, _, arrays in rows for name, t in arrays.items()}
    params = [f'{name}: "{t}[{n}]"' for name, t in given.items()]
    params += [f'y{k}: "out {result}[{n}]"' for k, (_, result, _) in enumerate(rows)]
    lines = [f"    for i{k} in range({n}):\n        y{k}[i{k}] = {v.replace('[i]', f'[i{k}]')}"
             for k, (v, _, _) in enumerate(rows)]  # fmt: skip
    return lp.parse("\n".join([f"def f({', '.join(params)}):", *lines]))


def lanes(func: lp.Func, width: int = 8) -> lp.Schedule:
    s = lp.Schedule(func)
    for loop in func.body:
        s = s.split(loop.var, width).vectorize(f"{loop.var}_i")
    return s


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


def ulps(found: Array, expected: Array) -> float:
    """The largest distance, counted in numbers that lie between; NaN is where NaN is."""
    assert ((found != found) == (expected != expected)).all(), (found, expected)
    kept = [x[expected == expected].view(f"i{x.dtype.itemsize}").astype(object) for x in (found, expected)]
    low = 1 << (8 * found.dtype.itemsize - 1)
    one, other = (np.where(x < 0, -low - x, x) for x in kept)
    return float(np.max(np.abs(one - other), initial=0))


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
        else:
            assert ulps(found, expected) <= fn.ulp + 1, (found, expected)


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


SAMPLES = {
    "exp": (-110, 95), "exp2": (-155, 130), "tanh": (-12, 12), "sin": (-1e4, 1e4), "cos": (-1e4, 1e4), "erf": (-5, 5),
    "log": (0, 1e4), "rsqrt": (0, 1e4), "sigmoid": (-110, 95),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_expansions_are_within_their_bound(name: str) -> None:
    """On many numbers near and far, with and without fma; the record's bound and half for its rounding."""
    rng = np.random.default_rng(7)
    size = 40_000
    with np.errstate(all="ignore"):
        x = np.concatenate([
            rng.uniform(*SAMPLES[name], size // 2), rng.uniform(-1, 1, size // 4) if name not in ("log", "rsqrt") else
            rng.uniform(0, 2, size // 4), rng.integers(0, 1 << 32, size // 4 - 8).astype(np.uint32).view(np.float32),
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 2.0**26],
        ]).astype(np.float32)  # fmt: skip
        expected = REGISTRY[name].meaning(x)
    func = program((f"{name}(x[i])", BY_NAME["float32"], {"x": BY_NAME["float32"]}), n=size)
    for s in (lp.Schedule(func), lanes(func)):
        for fma in (False, True):
            found = s.build("llvm", fma=fma)(x)
            assert ulps(found, expected) <= REGISTRY[name].ulp


LIBRARY = {
    "log1p": (-1, 1e4), "expm1": (-110, 95), "tan": (-1e4, 1e4), "asin": (-1, 1), "acos": (-1, 1), "atan": (-1e4, 1e4),
    "sinh": (-95, 95), "cosh": (-95, 95), "asinh": (-1e4, 1e4), "acosh": (1, 1e4), "atanh": (-1, 1), "atan2": (-9, 9),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LIBRARY)
def test_what_the_library_computes_is_within_its_bound(name: str, dtype: str) -> None:
    rng, kind = np.random.default_rng(7), BY_NAME[dtype]
    low, high = LIBRARY[name]
    x = np.concatenate([
        rng.uniform(low, high, 9000), rng.uniform(max(low, -1), min(high, 3), 3000), rng.uniform(-1e-4, 1e-4, 1000),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1.0, 1.0],
    ]).astype(dtype)  # fmt: skip
    arguments = {"x": x} | ({"y": rng.permutation(x)} if REGISTRY[name].arity == 2 else {})
    with np.errstate(all="ignore"):
        expected = REGISTRY[name].meaning(*arguments.values())
    call = f"{name}({', '.join(f'{v}[i]' for v in arguments)})"
    func = program((call, kind, dict.fromkeys(arguments, kind)), n=len(x))
    for s in (lp.Schedule(func), lanes(func)):
        assert ulps(s.build("llvm")(*arguments.values()), expected) <= REGISTRY[name].ulp


@pytest.mark.parametrize("name", SAMPLES)
def test_expansions_stay_in_lanes(name: str) -> None:
    """A vector goes to no library function; beyond 2^17, sine and cosine do, in a function of their own."""
    func = program((f"{name}(x[i])", BY_NAME["float32"], {"x": BY_NAME["float32"]}))
    kernel = lanes(func).build("llvm")
    calls = [line for line in kernel.source.splitlines() if " call " in line and "@" in line]
    called = {line.split("@")[1].split("(")[0] for line in calls}
    outside = {c for c in called if not c.startswith("llvm.")}
    assert {c.partition(".v")[0] for c in outside} <= {f"{name}f", f"lp.{name}"} & {"sinf", "cosf", "lp.sin", "lp.cos"}


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_a_fold_of_extremes_is_nan_where_an_element_is(name: str, lanes: int) -> None:
    """Whichever of two is NaN, what was folded or what comes next; of zeros either may come out."""
    x = lp.placeholder((9, 8), "float32", name="x")
    s = folded(lp.Schedule(getattr(lp, name)(x, axis=1)), name, lanes=lanes)
    given = np.arange(72, dtype=np.float32).reshape(9, 8)
    given[range(8), range(8)] = np.nan
    kernel = s.build("llvm")
    expected = np.where(np.arange(9) < 8, np.nan, getattr(np, name)(given, axis=1))
    assert np.array_equal(kernel(given), expected, equal_nan=True)
    calls = [line for line in kernel.source.splitlines() if f"@llvm.{name}imum" in line and " call " in line]
    assert calls
    assert all(" nsz " in line for line in calls)


def test_a_wide_vector_is_stored_by_cache_lines_in_the_order_of_memory() -> None:
    """LLVM orders the registers of one wide store as it likes, and a CPU is slower to write lines in another order."""
    s = lp.Schedule(program(("x[i] * 2.0 + y[i]", BY_NAME["float32"], dict.fromkeys("xy", BY_NAME["float32"])), n=640))
    s, (_, lane) = s.split("i0", 64).with_loops
    source = s.vectorize(lane).build("llvm").source
    stores = [x.split() for x in source.splitlines() if x.strip().startswith("store <")]
    assert len(stores) == 4
    assert all("<16 x float>" in " ".join(x) for x in stores)
    assert (s.vectorize(lane).build("llvm")(*(np.arange(640, dtype="f"),) * 2) == 3 * np.arange(640)).all()


def test_what_a_kernel_also_reads_is_stored_at_once() -> None:
    """Sums that LLVM has in registers from one step of a fold to the next: in parts, they would be in memory."""
    s = lp.Schedule(
        lp.parse("""
def f(x: "float32[9, 640]", y: "out float32[640]"):
    for j in range(10):
        for l in vectorize(64):
            y[j * 64 + l] = 0.0
        for k in range(9):
            for m in vectorize(64):
                y[j * 64 + m] += x[k, j * 64 + m]
""")
    )
    given = np.random.default_rng(0).integers(-9, 9, (9, 640)).astype("float32")
    kernel = s.build("llvm")
    assert (kernel(given) == given.sum(axis=0)).all()
    assert "store <16 x float>" not in kernel.source


def test_a_loop_of_one_iteration_is_none_and_masks_in_it_are_constant() -> None:
    x = lp.placeholder((40, 5, 21), "float32", name="x")
    s = folded(lp.Schedule(lp.sum(x * 2.0, axis=2)), "sum", lanes=8)
    assert "k_o_last" in s.loops()
    kernel = s.build("llvm")
    assert "k_o_last" not in kernel.source
    assert "icmp slt <" not in kernel.source
    given = np.random.default_rng(0).integers(-9, 9, (40, 5, 21)).astype(np.float32)
    np.testing.assert_array_equal(kernel(given), 2 * given.sum(axis=2))


def test_conditions_are_counted_by_masks() -> None:
    x = lp.placeholder((64, 128), "uint8", name="x")
    s = folded(lp.Schedule(lp.sum((x > 100).astype("float32"), axis=1)), "sum", lanes=16)
    kernel = s.build("llvm")
    assert "uitofp <" not in kernel.source
    given = np.random.default_rng(0).integers(0, 255, (64, 128)).astype(np.uint8)
    np.testing.assert_array_equal(kernel(given), (given > 100).sum(axis=1))
