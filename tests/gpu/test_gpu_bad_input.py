"""What may come in: arrays that start anywhere, views, sizes of 0 and 1 and beyond 2^31, other devices.

A kernel gives the right answer or says what is wrong, and the next call works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

pytestmark = pytest.mark.gpu
Make = Callable[[Any], Any]


def rmsnorm(x: Any) -> Any:
    return x * lp.rsqrt(lp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


SUITE: dict[str, tuple[Make, Make]] = {
    "chain": (lambda x: lp.relu(x * 2.0 + 1.0), lambda x: (x * 2 + 1).relu()),
    "softmax": (lp.softmax, lambda x: x.softmax(-1)),
    "rmsnorm": (rmsnorm, lambda x: x * (x * x).mean(-1, keepdim=True).add(1e-6).rsqrt()),
    "row sum": (lambda x: x.sum(axis=1), lambda x: x.sum(1)),
    "column sum": (lambda x: x.sum(axis=0), lambda x: x.sum(0)),
    "full sum": (lambda x: x.sum(), lambda x: x.sum()),
    "maximum": (lambda x: x.max(axis=1), lambda x: x.amax(1)),
    "transpose": (lambda x: x.T * 1.0, lambda x: x.t().contiguous()),
}


def built(make: Make, shape: tuple[Any, ...], dtype: str) -> Any:
    x = lp.placeholder(shape, dtype, name="x")
    t = make(lp.cast(x, "float32")) if dtype != "int8" else make(x)
    return schedules.auto(lp.Schedule(t.astype(dtype).named("y")), "cuda").build("cuda")


def near(torch: Any, got: Any, want: Any) -> None:
    """Within a few units in the last place of the largest value."""
    assert got.shape == want.shape
    if not want.numel():
        return
    scale = want.double().abs().max().clamp(min=1.0)
    worst = (got.double() - want.double()).abs().max() / scale
    assert float(worst) <= 64 * torch.finfo(got.dtype).eps


def drawn(torch: Any, n: int) -> Any:
    """Small integers, whose sums float32 has exactly: of others a sum that happens to be near 0 may be far off."""
    return torch.randint(-3, 4, (n,), device="cuda").float()


@pytest.fixture(scope="module", params=sorted(SUITE))
def name(request: Any) -> str:
    return request.param


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_any_size_and_any_start(torch: Any, name: str, dtype: str) -> None:
    """One kernel for all sizes; its arrays start where vectors of 16 bytes do, and an element further."""
    make, reference = SUITE[name]
    kernel = built(make, (lp.symbol("n", min=0), lp.symbol("m", min=0)), dtype)
    kind = getattr(torch, dtype)
    for n, m in ((0, 5), (5, 0), (0, 0), (1, 1), (1, 8), (3, 7), (17, 31), (64, 1024), (33, 2048), (3, 10007)):
        if name in ("softmax", "rmsnorm", "maximum") and m == 0:
            continue  # nothing to divide by, or no maximum: torch refuses, too
        memory = drawn(torch, n * m + 8).to(kind)
        for start in (0, 1, 8):
            a = memory[start : start + n * m].view(n, m)
            near(torch, kernel(a), reference(a.double()).to(kind))
            want = reference(a.double()).to(kind)
            room = torch.full((want.numel() + 9,), 7.0, device="cuda", dtype=kind)
            out = room[start : start + want.numel()].view(want.shape)
            assert kernel(a, out=(out,)) is out
            near(torch, out, want)
            assert bool((room[:start] == 7).all())
            assert bool((room[start + want.numel() :] == 7).all())


def test_fixed_sizes_and_an_odd_start(torch: Any, name: str) -> None:
    make, reference = SUITE[name]
    kernel = built(make, (64, 1024), "float32")
    for start in (0, 1, 2, 0):
        a = drawn(torch, 64 * 1024 + 4)[start : start + 64 * 1024].view(64, 1024)
        near(torch, kernel(a), reference(a.double()).float())


@pytest.mark.filterwarnings("ignore:.*not contiguous")
def test_views_are_copied_other_devices_are_refused_and_the_next_call_works(torch: Any) -> None:
    kernel = built(SUITE["chain"][0], (lp.symbol("n"), lp.symbol("m")), "float32")
    a = torch.randn(16, 16, device="cuda")
    cases = [
        (torch.empty(16, 16, device="meta"), ValueError, "meta device, which has no memory"),
        (a.to_sparse(), TypeError, "sparse"),
        (a.half(), TypeError, "holds float16"),
        (a[0], ValueError, "dimension"),
        (a.clone().requires_grad_(), TypeError, "requires a gradient"),
        (torch.complex(a, a).conj().imag, TypeError, "lazy view"),
    ]
    for x, error, message in cases:
        with pytest.raises(error, match=message):
            kernel(x)
        near(torch, kernel(a), (a * 2 + 1).relu())
    for x in (a.t(), a[:, ::2], a[:1].expand(16, 16), a[::2]):
        near(torch, kernel(x), (x * 2 + 1).relu())
    kernel(a, out=((wide := torch.zeros(16, 32, device="cuda"))[:, ::2],))
    near(torch, wide[:, ::2], (a * 2 + 1).relu())
    with pytest.raises(ValueError, match=r"a graph is replayed on the arrays themselves, and .* is not contiguous"):
        kernel.graph(a.t())
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(64, dtype="float32").reshape(8, 8)
    for view in (x[::-1], x[:, ::-1], cupy.broadcast_to(x[:1], (8, 8))):
        np.testing.assert_array_equal(cupy.asnumpy(kernel(view)), cupy.asnumpy(view) * 2 + 1)
    np.testing.assert_array_equal(cupy.asnumpy(kernel(x)), np.arange(64, dtype=np.float32).reshape(8, 8) * 2 + 1)
    host = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(kernel(host[::-1]), host[::-1] * 2 + 1)
    np.testing.assert_array_equal(kernel(host), host * 2 + 1)


MANY = 2**31 + 4099


@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
def test_more_elements_than_an_int_counts(torch: Any, symbolic: bool) -> None:
    """int8 and bfloat16 arrays beyond 2^31 elements, long and wide."""

    def of(make: Make, shape: tuple[int, ...], dtype: str) -> Any:
        return built(make, tuple(lp.symbol(f"n{k}") for k in range(len(shape))) if symbolic else shape, dtype)

    a = torch.randint(-3, 4, (MANY,), device="cuda", dtype=torch.int8)
    assert torch.equal(of(lambda x: x * 2 + 1, (MANY,), "int8")(a), a * 2 + 1)
    want = int(a[: 2**30].sum()) + int(a[2**30 :].sum())
    x = lp.placeholder((lp.symbol("n") if symbolic else MANY,), "int8", name="x")
    total = schedules.auto(lp.Schedule(lp.cast(x, "int32").sum()), "cuda").build("cuda")
    assert int(total(a)) == want
    rows, columns = 2**16 + 3, 2**15 + 8
    b = a[: rows * columns].view(rows, columns) if rows * columns <= MANY else None
    if b is None:
        b = torch.randint(-3, 4, (rows, columns), device="cuda", dtype=torch.int8)
    del a
    assert torch.equal(of(lambda x: x.T + 1, (rows, columns), "int8")(b), b.t() + 1)
    for axis in (0, 1):
        x = lp.placeholder((lp.symbol("n"), lp.symbol("m")) if symbolic else (rows, columns), "int8", name="x")
        sums = schedules.auto(lp.Schedule(lp.cast(x, "int32").sum(axis=axis)), "cuda").build("cuda")
        assert torch.equal(sums(b), b.sum(axis, dtype=torch.int32))
    c = b.bfloat16()
    del b
    got = of(lp.softmax, (rows, columns), "bfloat16")(c)
    for part in (slice(0, 9), slice(rows - 9, rows)):
        near(torch, got[part], c[part].double().softmax(-1).bfloat16())
