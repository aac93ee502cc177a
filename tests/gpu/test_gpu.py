"""On a GPU, kernels give what the interpreter gives. Run with `pytest -m gpu`; skipped where there is no GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
import schedules
from loopir.ir.dtypes import ALL_DTYPES, DType, bool_
from loopir.testing.generate import operation_programs

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]
RNG = np.random.default_rng(0)


def values(t: DType, count: int, *, small: bool = False) -> np.ndarray[Any, Any]:
    """Random elements with the awkward ones among them."""
    if t.kind == "bool":
        return RNG.integers(0, 2, count).astype(bool)
    if t.is_integer:
        info = np.iinfo(t.numpy)
        x = RNG.integers(max(info.min, -9), 10, count).astype(t.numpy)
        if not small:
            x[:6] = [info.min, info.max, 0, 1, info.max // 2, info.min // 2]
        return x
    x = (RNG.standard_normal(count) * 4).astype(t.numpy)
    if not small:
        x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    return x


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], t: DType, ulp: float, least: float = 0.0) -> None:
    """Equal, or within `ulp` units in the last place of the float type `t`, or of `least`; NaN where NaN is."""
    if not t.is_float or ulp == 0:
        np.testing.assert_array_equal(got.astype(np.float64) if t.is_float else got,
                                      want.astype(np.float64) if t.is_float else want)  # fmt: skip
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    info = ml_dtypes.finfo(t.numpy)
    eps, tiny = float(info.eps), float(info.smallest_subnormal)
    exact = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= ulp * np.maximum(eps * np.maximum(np.abs(b), least), tiny)
    assert (exact | near).all(), (got[~(exact | near)][:3], want[~(exact | near)][:3])


def on_both(schedule: Any, *arrays: Any) -> tuple[list[Any], list[Any]]:
    got, want = schedule.build("cuda", fma=False)(*arrays), lp.Schedule(schedule.func).build("interpret")(*arrays)
    return (list(got), list(want)) if isinstance(got, tuple) else ([got], [want])


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_every_operation_of_a_type(t: DType) -> None:
    func, ops = operation_programs.operations(t)
    got, want = on_both(schedules.gpu(lp.Schedule(func)), *(values(t, 300) for _ in "xyz"))
    for f, a, b in zip(ops, got, want, strict=True):
        # a narrow result is a float32 one rounded: at most one unit away
        ulp = 1 if t.is_narrow and f.ulp else f.ulp + 1 if f.ulp else 0
        try:
            least = 1.0 if f.name == "lgamma" else 0.0  # whose terms cancel near its zeros
            same(np.asarray(a), np.asarray(b), t if f.result == "same" else bool_, ulp, least)
        except AssertionError as error:
            raise AssertionError(f"{f.name} of {t}: {error}") from None


@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
def test_every_conversion(source: DType) -> None:
    func, _ = operation_programs.conversions(source)
    got, want = on_both(schedules.gpu(lp.Schedule(func)), values(source, 200))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


def matmul(n: int | None, m: int, k: int) -> Any:
    rows = lp.symbol("n") if n is None else n
    A, B = lp.placeholder((rows, k), "float32", name="A"), lp.placeholder((k, m), "float32", name="B")
    r = lp.reduce_axis(k, name="k")
    C = lp.compute((rows, m), lambda i, j: lp.sum(A[i, r] * B[r, j], axis=r), name="C")
    return lp.compute((rows, m), lambda i, j: lp.maximum(C[i, j], 0.0), name="D")


@pytest.mark.parametrize("size", [(64, 64, 64), (33, 65, 17), (1, 1, 1), (128, 256, 64)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_matmul_tiled_and_bound(size: tuple[int, int, int], symbolic: bool) -> None:
    n, m, k = size
    s = lp.Schedule(matmul(None if symbolic else n, m, k))
    s = s.tile("C.i", "C.j", 16, 16).bind("i_o", "blockIdx.y").bind("j_o", "blockIdx.x")
    s = s.bind("i_i", "threadIdx.y").bind("j_i", "threadIdx.x")
    s = s.split("D.i", 4).bind("i_1_o", "blockIdx.x").bind("i_1_i", "threadIdx.x")
    a, b = (RNG.integers(-8, 9, shape).astype(np.float32) for shape in ((n, k), (k, m)))
    assert (s.build("cuda")(a, b) == np.maximum(a @ b, 0)).all()


def test_vectors_move_at_once_and_guards_hold() -> None:
    x = lp.placeholder((64, 256), "float32", name="x")
    s = lp.Schedule((x * 2.0 + 1.0).named("y")).split("j", 4).vectorize("j_i")
    s = s.bind("i", "blockIdx.x").bind("j_o", "threadIdx.x")
    kernel = s.build("cuda")
    assert "lp_u4*" in kernel.source
    a = RNG.standard_normal((64, 256), dtype=np.float32)
    assert (kernel(a) == a * 2 + 1).all()


def test_barriers_where_threads_depend_on_one_another() -> None:
    nest = lp.parse(
        """
def reverse(A: "float32[9, 64]", D: "out float32[9, 64]"):
    for b in bind("blockIdx.x", 9):
        with alloc("float32[64]", scope="shared") as S:
            for t in bind("threadIdx.x", 64):
                S[t] = A[b, t]
            for r in range(3):
                for t in bind("threadIdx.x", 32):
                    S[t] = S[t] + S[63 - t]
                for t in bind("threadIdx.x", 32):
                    S[t + 32] = S[31 - t]
            for t in bind("threadIdx.x", 64):
                D[b, t] = S[63 - t]
"""
    )
    kernel = lp.Schedule(nest).build("cuda")
    assert "__syncthreads" in kernel.source
    a = RNG.integers(-8, 9, (9, 64)).astype(np.float32)
    assert (kernel(a) == lp.interpret(nest, [a])["D"]).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (300, 33)])
def test_reductions(dtype: str, shape: tuple[int, int]) -> None:
    t = next(t for t in ALL_DTYPES if t.name == dtype)
    x = lp.placeholder((lp.symbol("n"), shape[1]), dtype, name="x")
    outs = [x.sum(axis=1), x.max(axis=0), x.argmax(axis=1), x.min(), x.any(axis=1), x.prod(axis=1)]
    if t.kind == "bool":
        outs = [x.sum(axis=1), x.any(axis=0), x.all(), x.argmax(axis=1)]
    s = schedules.gpu(lp.Schedule([o.named(f"o{n}") for n, o in enumerate(outs)]))
    a = values(t, shape[0] * shape[1], small=True).reshape(shape)
    if t.is_float:
        a = RNG.choice([-2, -1, 1, 2], shape).astype(t.numpy)  # sums and products are exact in any order
    got, want = on_both(s, a)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


def test_softmax_over_several_kernels() -> None:
    x = lp.placeholder((lp.symbol("n"), 100), "float32", name="x")
    e = lp.exp(x - x.max(axis=1, keepdims=True)).named("e")
    s = schedules.gpu(lp.Schedule((e / e.sum(axis=1, keepdims=True)).named("p")))
    a = RNG.standard_normal((77, 100), dtype=np.float32)
    exact = np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    assert np.abs(s.build("cuda")(a) - exact).max() < 2e-7


def test_the_host_runs_time_loops() -> None:
    nest = lp.parse(
        """
def jacobi(T: "size", n: "size", a: "inout float32[n]", b: "inout float32[n]", count: "int32[T]"):
    for t in range(T):
        for i in bind("blockIdx.x", n - 2):
            b[i + 1] = a[i] + a[i + 2]
        for j in bind("blockIdx.x", n - 2):
            a[j + 1] = b[j + 1] - a[j + 1]
"""
    )
    kernel = lp.Schedule(nest).build("cuda")
    a, b = (RNG.integers(-3, 4, 50).astype(np.float32) for _ in range(2))
    want = lp.interpret(nest, [a, b, np.zeros(4, np.int32)])
    kernel(a, b, np.zeros(4, np.int32))
    assert (a == want["a"]).all()
    assert (b == want["b"]).all()


def test_torch_tensors_are_used_in_place() -> None:
    torch = pytest.importorskip("torch")
    x = lp.placeholder((lp.symbol("n"),), "bfloat16", name="x")
    kernel = schedules.gpu(lp.Schedule((x + 1).named("y"))).build("cuda")
    a = torch.randn(1000, device="cuda", dtype=torch.bfloat16)
    out = kernel(a)
    assert out.device == a.device
    assert torch.equal(out, a + 1)
    with pytest.warns(RuntimeWarning, match="contiguous"):
        assert torch.equal(kernel(a[::2]), a[::2] + 1)
    with pytest.raises(ValueError, match="overlaps"):
        kernel(a[:500], out=(a[100:600],))


def test_empty_arrays_and_the_call_after_an_error() -> None:
    x = lp.placeholder((lp.symbol("n", min=0),), "float32", name="x")
    kernel = schedules.gpu(lp.Schedule((x + 1.0).named("y"))).build("cuda")
    assert kernel(np.empty(0, np.float32)).shape == (0,)
    with pytest.raises(TypeError, match="float64"):
        kernel(np.zeros(3))
    assert (kernel(np.zeros(3, np.float32)) == 1).all()


def test_no_memory_left_is_told_and_survived() -> None:
    nest = lp.parse(
        """
def big(n: "size", x: "float32[n]", y: "out float32[n]"):
    with alloc("float32[n, 100000000000]") as t:
        for i in range(n):
            t[i, 0] = x[i]
        for j in range(n):
            y[j] = t[j, 0]
"""
    )
    kernel = lp.Schedule(nest).build("cuda")
    with pytest.raises(lp.TargetError, match="bytes left"):
        kernel(np.zeros(4, np.float32))
    other = lp.placeholder((4,), "float32", name="x")
    assert (lp.Schedule((other + 1.0).named("y")).build("cuda")(np.zeros(4, np.float32)) == 1).all()


LOOKUP = """
def lookup(n: "size", m: "size", A: "float32[n, 64]", p: "{t}[m]", q: "int32[m]", B: "out float32[m, 64]"):
    for i in bind("blockIdx.x", m):
        for j in bind("threadIdx.x", 64):
            B[i, j] = A[p[i], j] + A[q[i] * 2 - 1, j] if i % 2 == 0 else A[p[i], (j + 1) % 64]
"""


@pytest.mark.parametrize("t", ["int32", "int64", "uint32"])
def test_an_index_from_memory_that_is_outside_raises_and_touches_nothing(t: str) -> None:
    """One far away would end the context; the next call runs."""
    nest = lp.parse(LOOKUP.format(t=t))
    kernel = lp.Schedule(nest).build("cuda")
    a = RNG.integers(-8, 9, (10, 64)).astype(np.float32)
    p, q = RNG.integers(0, 10, 300).astype(t), RNG.integers(1, 5, 300).astype(np.int32)
    want = lp.interpret(nest, [a, p, q])["B"]
    np.testing.assert_array_equal(kernel(a, p, q), want)
    vast = {"int32": [-(2**31), 2**31 - 1], "int64": [2**62, -(2**63), 2**32], "uint32": [2**32 - 1]}[t]
    for bad in [10, *vast]:
        wrong = p.copy()
        wrong[123] = bad
        with pytest.raises(IndexError, match=rf"reads A\[p\[i\], .* outside dimension 0, at index {bad};"):
            kernel(a, wrong, q)
        np.testing.assert_array_equal(kernel(a, p, q), want)
    scaled = q.copy()
    scaled[124] = 2**30
    with pytest.raises(IndexError, match=r"A\[q\[i\] \* 2 - 1, j\] outside dimension 0, at index 2147483647"):
        kernel(a, p, scaled)
    scaled[124], scaled[123] = q[124], 2**30  # an arm that is not taken
    np.testing.assert_array_equal(kernel(a, p, scaled), want)


def test_a_length_from_memory_that_is_outside_ends_and_raises() -> None:
    nest = lp.parse("""
def rows(n: "size", m: "size", first: "int64[m + 1]", A: "float32[n]", B: "out float32[m]"):
    for i in bind("blockIdx.x", m):
        for j in range(index(first[i + 1]) - first[i]):
            B[i] = sum(A[first[i] + j], over=j, init=0.0)
""")
    kernel = lp.Schedule(nest).build("cuda")
    a = RNG.integers(-8, 9, 100).astype(np.float32)
    first = np.array([0, 10, 10, 64, 100])
    want = lp.interpret(nest, [first, a], {"m": 4})["B"]
    np.testing.assert_array_equal(kernel(first, a, m=4), want)
    for bad in (101, 2**62):
        with pytest.raises(IndexError, match=r"reads A\[first\[i\] \+ j\]|computes with first\[i \+ 1\]"):
            kernel(np.array([0, 10, 10, 64, bad]), a, m=4)
    np.testing.assert_array_equal(kernel(first, a, m=4), want)
