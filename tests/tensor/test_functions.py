"""Functions made of others are NumPy's in values, types and shapes, for NaN, infinities, zeros, integers and bools."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import inputs, run, sample

import loopir as lp

Both = tuple[Callable[..., Any], Callable[..., Any]]
FLOATS = ["float16", "float32", "float64"]
SMALL = ["bool", "int8", "uint8", "int32"]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 7.25, np.inf, -np.inf, np.nan]


def same(name: str) -> Both:
    return getattr(lp, name), getattr(np, name)


def both(fn: Callable[..., Any]) -> Both:
    """`fn` of a library and tensors or arrays."""
    return lambda *x: fn(lp, *x), lambda *x: fn(np, *x)


ELEMENTS: dict[str, Both] = {
    **{name: same(name) for name in ("fmod", "floor_divide", "float_power", "logaddexp2", "isin")},
    "modf": both(lambda m, x, _: m.modf(x)),
    "rint": both(lambda m, x, _: m.rint(x)),
    "not in": both(lambda m, x, y: m.isin(x, y[:2], invert=True)),
    "array_equal": both(lambda m, x, y: m.array_equal(x, y)),
    "itself": both(lambda m, x, _: m.array_equal(x, x, equal_nan=True)),
    "NaN": both(lambda m, x, _: m.array_equal(x, x)),
    "other sizes": both(lambda m, x, _: m.array_equal(x, x[1:])),
    "select": both(lambda m, x, y: m.select([x > y, x < y], [x, y], 1)),
}
SHAPES: dict[str, Both] = {
    "rot90": both(lambda m, x: [m.rot90(x, k, axes) for k in range(-3, 6) for axes in ((0, 1), (1, 0), (-1, 0))]),
    "fliplr": both(lambda m, x: m.fliplr(x)), "flipud": both(lambda m, x: m.flipud(x)),
    "diag": both(lambda m, x: [m.diag(x[0], k) for k in (-2, 0, 1)] + [m.diag(x, k) for k in (-1, 0, 1)]),
    "diagflat": both(lambda m, x: m.diagflat(x, 1)),
    "kron": both(lambda m, x: [m.kron(x[0], x[0]), m.kron(x, x[0]), m.kron(x[0], x), m.kron(x[None], x)]),
    "take": both(lambda m, x: m.take(x, (x[0] * 0).astype("int32"))),
}  # fmt: skip
NORMS: list[tuple[Any, Any]] = [
    *((p, 0) for p in (0, 1, 2, 3, 0.5, np.inf, -np.inf)),
    *((p, axes) for p in ("fro", 1, -1, np.inf, -np.inf) for axes in ((0, 1), (1, 0), (-1, 0))),
    (None, None), (1, None),
]  # fmt: skip
MATRICES: dict[str, Both] = {
    "norm": (lambda x: [lp.norm(x, p, axis) for p, axis in NORMS],
             lambda a: [np.linalg.norm(a, p, axis) for p, axis in NORMS]),
    "norm, dims kept": (lambda x: [lp.norm(x, p, axis, keepdims=True) for p, axis in NORMS],
                        lambda a: [np.linalg.norm(a, p, axis, keepdims=True) for p, axis in NORMS]),
    "cov": both(lambda m, x: [m.cov(x, x[::-1]), m.cov(x[0], x[-1]), m.cov(x, bias=True), m.cov(x, rowvar=False)]),
    "corrcoef": both(lambda m, x: m.corrcoef(x[0], x[1])),
    "average": both(lambda m, x: [m.average(x), m.average(x, 1), m.average(x, 0, x * x + 1),
                                  m.average(x, -1, x[0] * x[0] + 1, keepdims=True)]),
    "average, sums": both(lambda m, x: [*m.average(x, 0, x * x + 1, returned=True), *m.average(x, 1, returned=True)]),
    "powers": (lambda x: [lp.matrix_power(x[:2, :2], n) for n in (0, 1, 2, 5)],
               lambda a: [np.linalg.matrix_power(a[:2, :2], n) for n in (0, 1, 2, 5)]),
    "multi_dot": (lambda x: [lp.multi_dot([x, x.T, x]), lp.multi_dot([x[0], x.T, x, x[0]]), lp.multi_dot([x, x.T])],
                  lambda a: [np.linalg.multi_dot(z) for z in ([a, a.T, a], [a[0], a.T, a, a[0]], [a, a.T])]),
    "vecdot": both(lambda m, x: [m.vecdot(x, x), m.vecdot(x, x[:1], axis=-1), m.vecdot(x, x, axis=0)]),
    "percentile": both(lambda m, x: [m.percentile(x, 30), m.percentile(x, [0, 25, 100], axis=(0, -1), keepdims=True)]),
    "quantile": both(lambda m, x: [m.quantile(x, [0.25, 1.0], axis=1), m.quantile(x, 0.75, (1, 0))]),
    "median": both(lambda m, x: [m.median(x, (0, 1)), m.median(x[None], (0, 2), keepdims=True)]),
}  # fmt: skip
MISSING: dict[str, Both] = {
    "nanmedian": both(lambda m, x: [m.nanmedian(x), m.nanmedian(x, 1), m.nanmedian(x, (0, 1), keepdims=True)]),
    "nanquantile": both(lambda m, x: [m.nanquantile(x, 0.3, 0), m.nanquantile(x, [0.0, 0.5, 1.0], 1)]),
    "nanpercentile": both(lambda m, x: m.nanpercentile(x, 90, -1, keepdims=True)),
    "nancumprod": both(lambda m, x: [m.nancumprod(x), m.nancumprod(x, 1)]),
}


def agree(pair: Both, *arrays: Any, ulps: float = 8, wide: bool = False) -> None:
    """What a function of tensors gives is what NumPy's gives; of results `wide`r than ours, the values."""
    with np.errstate(all="ignore"):
        want = pair[1](*arrays)
    made = pair[0](*inputs(*arrays))
    want = list(want) if isinstance(want, list | tuple) else [want]
    made = list(made) if isinstance(made, list | tuple) else [made]
    func = lp.to_func([x.named(f"r{n}") for n, x in enumerate(made)])
    read = {a.buffer.name for a in func.args}  # what only tells a shape or a type is none of the inputs
    got = lp.interpret(func, {f"x{n}": a for n, a in enumerate(arrays) if f"x{n}" in read})
    for n, w in enumerate(map(np.asarray, want)):
        g = got[f"r{n}"]
        assert g.shape == w.shape
        assert wide or g.dtype == w.dtype
        if w.dtype.kind != "f":
            np.testing.assert_array_equal(g, w)
            continue
        eps = ulps * float(np.finfo(g.dtype).eps)
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=eps, atol=eps)
        np.testing.assert_array_equal(np.signbit(g[w == 0]), np.signbit(w[w == 0])) if not eps else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(ELEMENTS))
def test_of_elements_at_the_edges(name: str, dtype: str) -> None:
    a, b = (v.ravel().astype(dtype) for v in np.meshgrid(EDGES, EDGES))
    agree(ELEMENTS[name], a, b, ulps=0 if name in ("fmod", "modf", "rint", "floor_divide") else 4)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(ELEMENTS)), st.sampled_from(SMALL[1:]), st.integers(2, 5), st.integers(0, 99))
def test_of_integers(name: str, dtype: str, size: int, seed: int) -> None:
    a, b = sample(dtype, (size,), seed), sample(dtype, (size,), seed + 1)
    if name in ("fmod", "floor_divide"):
        a[0], b[0] = np.iinfo(a.dtype).min, 3
    agree(ELEMENTS[name], a, b, ulps=4)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(FLOATS), st.integers(-1200, 1200), st.floats(-8, 8, width=16))
def test_powers_of_two(dtype: str, power: int, x: float) -> None:
    a, i = np.array([x, 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], dtype), np.array([power] * 7, np.int16)
    with np.errstate(all="ignore"):
        want = np.ldexp(a, i)
    made = lp.ldexp(*inputs(a, i))
    assert made.dtype.numpy == want.dtype
    with np.errstate(all="ignore"):
        got = run(made, a, i)
    info = np.finfo(a.dtype)
    rough = float(info.smallest_subnormal) if (np.abs(want) < info.tiny).any() else 0.0
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=rough)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(SHAPES)), st.sampled_from([*FLOATS, *SMALL]), st.integers(1, 3), st.integers(1, 3),
    st.integers(0, 9),
)  # fmt: skip
def test_of_shapes(name: str, dtype: str, rows: int, columns: int, seed: int) -> None:
    agree(SHAPES[name], sample(dtype, (rows, columns), seed), ulps=0)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(MATRICES)), st.sampled_from([*FLOATS[1:], "int8", "int32"]), st.integers(2, 4),
    st.integers(2, 4), st.integers(0, 99),
)  # fmt: skip
def test_of_matrices(name: str, dtype: str, rows: int, columns: int, seed: int) -> None:
    a = sample(dtype, (rows, columns), seed)
    agree(MATRICES[name], a, ulps=400, wide=name in ("cov", "corrcoef", "quantile", "percentile"))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(MISSING)), st.sampled_from(FLOATS[1:]), st.integers(1, 4), st.integers(1, 5),
    st.integers(0, 99), st.sampled_from([0.0, 0.3, 1.0]),
)  # fmt: skip
def test_without_what_is_missing(name: str, dtype: str, rows: int, columns: int, seed: int, share: float) -> None:
    a = sample(dtype, (rows, columns), seed)
    a[np.random.default_rng(seed).random(a.shape) < share] = np.nan
    agree(MISSING[name], a, wide=name == "nanquantile")


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 4), st.integers(0, 3), st.integers(1, 3), st.integers(-2, 1), st.booleans(), st.integers(0, 99)
)  # fmt: skip
def test_put_along_an_axis(rows: int, columns: int, count: int, axis: int, one: bool, seed: int) -> None:
    a = sample("int32", (rows, columns), seed)
    shape = [rows, columns]
    shape[axis] = count
    rng = np.random.default_rng(seed)
    size = a.shape[axis]
    at = rng.integers(-size, size, shape) if size else np.zeros((0, 0), np.int64)
    new = np.full(shape, 9, np.int32) if one else rng.integers(10, 99, shape).astype(np.int32)
    if not a.size or not at.size:
        return
    want = a.copy()
    np.put_along_axis(want, at, new, axis)
    x, i, v = inputs(a, at, new)
    got = run(lp.put_along_axis(x, i, 9 if one else v, axis), *((a, at) if one else (a, at, new)))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("num", [1, 2, 5])
def test_numbers_at_equal_distances(endpoint: bool, dtype: str, num: int) -> None:
    for ours, theirs, ends in ((lp.linspace, np.linspace, (-3.7, 2.2)), (lp.geomspace, np.geomspace, (1.0, 19.0))):
        want = theirs(*ends, num, endpoint=endpoint, dtype=dtype)
        np.testing.assert_allclose(run(ours(*ends, num, endpoint, dtype) * 1), want, rtol=1e-6)
    want = np.logspace(0, 3, num, endpoint, 2.0, "float32")
    np.testing.assert_allclose(run(lp.logspace(0, 3, num, endpoint, 2.0, "float32") * 1), want, rtol=1e-6)


def test_of_sizes_known_at_the_call() -> None:
    n = lp.symbol("n")
    x, v = lp.placeholder((n, 3), "float64", name="x"), lp.placeholder((n,), "float64", name="v")
    made = [lp.diag(v, 1), lp.kron(v, x), lp.rot90(x), lp.nanmedian(x, 0), lp.average(x, 0, v), lp.norm(x, 1, 0),
            lp.fliplr(x), lp.vecdot(x, x), lp.polyval([1, 2], v), lp.unwrap(v), lp.median(x, (0, 1)),
            lp.block([[x, x]]), lp.identity(n), lp.nanmedian(x, 1),
            lp.take_along_axis(x, lp.argsort(x, 1), 1)]  # fmt: skip
    kernel = lp.Schedule(made).build("llvm")
    for size in (1, 2, 5):
        a, b = sample("float64", (size, 3), size), np.arange(1.0, size + 1)
        want = [np.diag(b, 1), np.kron(b, a), np.rot90(a), np.median(a, 0), np.average(a, 0, b),
                np.linalg.norm(a, 1, 0), np.fliplr(a), (a * a).sum(1), b + 2, np.unwrap(b), np.median(a),
                np.hstack([a, a]), np.eye(size), np.median(a, 1), np.sort(a, 1)]  # fmt: skip
        for g, w in zip(kernel(a, b), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


x = lp.placeholder((4, 3), "float32", name="x")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: lp.norm(x, 2, (0, 1)), "norm 2 of x .* a matrix 'fro', 1, inf, -1 and -inf"),
        (lambda: lp.norm(x, "nuc"), "norm 'nuc' of x"),
        (lambda: lp.average(x, None, x[0]), "weights of its shape, or along one axis"),
        (lambda: lp.quantile(x, "half"), "a share is a number from 0 to 1, or a list of them"),
        (lambda: lp.quantile(x[:0], 0.5, 0), "which has no elements along axis 0"),
        (lambda: lp.median(x[:0]), "which has no elements along axis None"),
        (lambda: lp.nanmedian(x, 7), "nanquantile over axis 7 of x"),
        (lambda: lp.matrix_power(x, 2), "matrix_power of x .* square matrices"),
        (lambda: lp.multi_dot([x]), "multi_dot of x .*; two matrices or more"),
        (lambda: lp.ldexp(x, x), "the exponent is an integer"),
        (lambda: lp.rot90(x, 1, (0,)), "a plane has two axes"),
        (lambda: lp.diag(x[None]), "it takes a vector or a matrix"),
        (lambda: lp.put_along_axis(x, lp.arange(3), 0.0), "an index is an integer for each element, of as many"),
        (lambda: lp.select([x > 0], [x, x]), "it takes a list of as many tensors"),
        (lambda: lp.array_equal(x, lp.placeholder((lp.symbol("n"), 3), name="y")), "whether their sizes are is not"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(lp.ExprError, match=said):
        wrong()
