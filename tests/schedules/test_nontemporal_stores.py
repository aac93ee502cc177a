"""Stores past the caches: of vectors at any address, and of results that do not stay there anyway."""

from typing import Any

import numpy as np
import pytest
from meaning import same_in_the_ring
from row_programs import blur, softmax

import loopir as lp
import schedules


def doubled(n: int, dtype: str) -> lp.Schedule:
    x = lp.placeholder((n,), dtype, name="x")
    return lp.Schedule(lp.compute((n,), lambda i: x[i] + x[i], name="y"))


@pytest.mark.parametrize("dtype", ["float32", "uint16", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("first", [0, 1])
def test_stores_past_the_caches_at_any_address(dtype: str, first: int) -> None:
    s = doubled(256, dtype).split("i", 16)
    t = schedules.streamed(s, "y", "i_i")
    assert f"stream_16_{dtype}()" in lp.text(t.func)
    x = np.arange(256).astype(lp.placeholder((1,), dtype, name="p").dtype.numpy)
    same_in_the_ring(s, t, {"x": x}, {})
    kernel, whole = t.build("llvm"), np.empty(256 + first, x.dtype)
    kernel(x, out=(whole[first:],))
    assert (whole[first:] == x + x).all()
    assert "nontemporal" in kernel.source


def test_vectors_that_may_start_anywhere_are_stored_as_ever() -> None:
    x = lp.placeholder((8, 33), "float32", name="x")
    s = lp.Schedule(lp.compute((8, 33), lambda i, j: x[i, j] + 1.0, name="y")).split("j", 16, tail="peel")
    assert "stream" not in lp.text(schedules.streamed(s, "y", "j_i").func)


def test_only_what_does_not_stay_in_the_caches_goes_past_them() -> None:
    half = lp.caches()[2] // 16  # elements of an array of which two are half of the last cache
    small, large = (lp.text(schedules.cpu(doubled(n, "float32")).func) for n in (half // 2, 2 * half))
    assert "stream" not in small
    assert "stream" in large


@pytest.mark.parametrize(("program", "extra"), [(softmax, 0), (blur, 2)])
def test_rows_of_a_large_result_go_past_the_caches(program: Any, extra: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lp, "caches", lambda: (1 << 15, 1 << 19, 1 << 12))
    s = program(24, 128)
    t = schedules.auto(s, "llvm")
    assert "stream_" in lp.text(t.func)
    x = np.random.default_rng(0).integers(0, 9, (24 + extra, 128)).astype(np.float32)
    same_in_the_ring(s, t, {"x": x}, {})
    np.testing.assert_allclose(t.build("llvm")(x), s.build("interpret")(x), rtol=1e-5)
