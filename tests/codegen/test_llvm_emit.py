"""The CPU backend against the interpreter: every operation on every type, as a scalar and in masked lanes."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
from loopir.ir.dtypes import BY_NAME, DType
from loopir.ir.ops import REGISTRY
from schedules.llvm.split_reduction import folded

Array = np.ndarray[Any, Any]
N = 21
"""Not a multiple of the lanes, so that the last vector is masked."""


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


def ulps(found: Array, expected: Array) -> float:
    """The largest distance, counted in numbers that lie between; NaN is where NaN is."""
    assert ((found != found) == (expected != expected)).all(), (found, expected)
    kept = [x[expected == expected].view(f"i{x.dtype.itemsize}").astype(object) for x in (found, expected)]
    low = 1 << (8 * found.dtype.itemsize - 1)
    one, other = (np.where(x < 0, -low - x, x) for x in kept)
    return float(np.max(np.abs(one - other), initial=0))


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
    "erfc": (-7, 28), "lgamma": (3, 1e4), "tgamma": (-5, 180),
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
