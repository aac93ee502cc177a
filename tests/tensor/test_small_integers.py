"""Integers of few bits are averaged, measured and solved in float64, as NumPy does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from running import run

import loopir as lp

SAME = ("corrcoef", "cov", "median", "nanstd", "nanvar", "norm", "sinc", "std", "var")
OTHERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "gradient": (lambda x: lp.gradient(x, axis=0), lambda a: np.gradient(a.astype(np.float64), axis=0)),
    "trapezoid": (lp.trapezoid, lambda a: np.trapezoid(a.astype(np.float64))),
    "quantile": (lambda x: lp.quantile(x, 0.3, 1), lambda a: np.quantile(a.astype(np.float64), 0.3, 1)),
    "det": (lambda x: lp.det(x[:2, :2]), lambda a: np.linalg.det(a[:2, :2])),
    "logaddexp": (lambda x: lp.logaddexp(x[0], x[1]), lambda a: np.logaddexp(a[0], a[1])),
    "interp": (lambda x: lp.interp(x, x[0], x[1]), lambda a: np.interp(a, a[0], a[1])),
    **{n: (getattr(lp, n), getattr(np, n, None) or getattr(np.linalg, n)) for n in SAME},
}


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(OTHERS)), st.sampled_from(["bool", "int8", "uint8", "int16", "uint16"]), st.data())
def test_as_numpy(name: str, dtype: str, data: st.DataObject) -> None:
    a = data.draw(arrays.arrays(dtype, st.tuples(st.integers(2, 3), st.integers(2, 4))))
    if name == "interp":
        a[0] = np.sort(a[0])
        if len(set(a[0].tolist())) < a.shape[1]:
            return
    ours, theirs = OTHERS[name]
    want = np.asarray(theirs(a))
    got = run(ours(lp.placeholder(a.shape, dtype, name="x")), a)
    assert got.dtype == want.dtype
    rough = {"float16": 4e-3, "float32": 1e-5}.get(got.dtype.name, 1e-9)
    scale = max(1.0, float(np.abs(a.astype(np.float64)).max()))
    np.testing.assert_allclose(got, want, rtol=rough, atol=rough if got.dtype == np.float16 else rough * scale**2)


@pytest.mark.parametrize("descending", [False, True])
def test_bools_in_order_are_bools(descending: bool) -> None:
    a = np.array([True, False, True, False])
    x = lp.placeholder((4,), "bool", name="x")
    got = run([lp.sort(x, descending=descending), lp.topk(x, 3, largest=descending)[0]], a)
    want = np.sort(a)[::-1] if descending else np.sort(a)
    assert [g.dtype.name for g in got] == ["bool", "bool"]
    assert [g.tolist() for g in got] == [want.tolist(), want[:3].tolist()]
