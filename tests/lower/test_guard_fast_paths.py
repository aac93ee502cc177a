"""One test for all lanes of a vector says whether sine and cosine need their slow path."""

from collections.abc import Callable

import numpy as np
import pytest

import loopir as lp
from loopir.intrinsics.ops.math import MAX_REDUCED
from schedules.common.fusion import inlined
from schedules.cuda.elementwise import elementwise


def lowered(expression: Callable[[lp.Tensor], lp.Tensor], dtype: str, n: int = 64) -> tuple[lp.Schedule, str]:
    x = lp.placeholder((n,), dtype, name="x")
    s = inlined(lp.Schedule(expression(lp.cast(x, "float32")).astype(dtype)))
    s = elementwise(s, s.stages[-1], threads=4)
    (program,) = lp.lower(s, "cuda")
    values = np.random.default_rng(0).standard_normal(n, np.float32)
    values[[3, 17, 18, 40]] = MAX_REDUCED, np.nan, -np.inf, 1e30
    values = values.astype(s.func.args[0].buffer.dtype.numpy)
    name = s.func.args[-1].buffer.name
    want, got = (lp.interpret(f, {"x": values})[name] for f in (s.func, program))
    assert got.tobytes() == want.tobytes()
    return s, lp.text(program)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_both_versions_are_there_and_mean_the_same(dtype: str) -> None:
    s, text = lowered(lambda x: lp.sin(x) * lp.cos(x), dtype)
    few = "_few" if dtype == "bfloat16" else ""
    assert text.count(f"sin_near{few}(") == text.count(f"cos_near{few}(") == 1
    assert text.count("if ") == 1
    assert f"lp_sin_near<{2 if few else 3}>(" in lp.compile_source(s).source.partition("__global__")[2]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_multiplied_by_itself_has_no_sign(dtype: str) -> None:
    s, text = lowered(lambda x: lp.sin(x) * lp.sin(x) + lp.cos(x) * lp.cos(x), dtype)
    few = "_few" if dtype == "bfloat16" else ""
    assert text.count(f"sin_near{few}_squared(") == text.count(f"cos_near{few}_squared(") == 1
    assert "lp_sin_near_squared<" in lp.compile_source(s).source.partition("__global__")[2]
    assert "squared" not in lowered(lambda x: lp.sin(x) * lp.cos(x), dtype)[1]


@pytest.mark.parametrize(
    "expression",
    [lambda x: lp.sin(lp.cos(x)), lambda x: lp.where(x > 0, lp.sin(x), x), lambda x: lp.exp(x)],
    ids=["nested", "selected", "no slow path"],
)
def test_what_cannot_be_asked_first_is_left(expression: Callable[[lp.Tensor], lp.Tensor]) -> None:
    assert "_near(" not in lowered(expression, "float32")[1]


def fused(a: np.ndarray, b: float, c: np.ndarray | float) -> np.ndarray:
    return (a.astype(np.float64) * np.float32(b) + c).astype(np.float32)


def test_two_parts_are_enough_for_all_numbers_of_few_bits() -> None:
    """The reduction as the GPU makes it, beside three parts: what is left is the same but for its last place."""
    x = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(all="ignore"):
        x = x[np.abs(x) < MAX_REDUCED]
    n = fused(x, 0.63661975, 12582912.0) - np.float32(12582912.0)
    two = fused(n, -7.549790126404332e-08, fused(n, -1.570796251296997, x))
    true = x.astype(np.longdouble) - n.astype(np.longdouble) * (np.longdouble("1.5707963267948966192313216916398"))
    assert np.abs(two - true).max() < 2**-25
    assert (np.abs(two - true) <= 0.52 * np.spacing(np.abs(two))).all()
