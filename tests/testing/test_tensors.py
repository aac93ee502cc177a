"""Random expressions over whole tensors are, interpreted, what NumPy says they are."""

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.testing.generate.tensors import Expr, exprs


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(exprs(largest=3), st.integers(0, 3), st.integers(0, 99))
def test_an_expression_is_what_numpy_says(e: Expr, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [tuple(d if isinstance(d, int) else rows for d in x.shape) for x in e.inputs]
    arrays = [rng.integers(-4, 5, shape).astype(x.dtype.name) for shape, x in zip(shapes, e.inputs, strict=True)]
    with np.errstate(all="ignore"):
        wanted = e.reference(*arrays)
    assert np.array_equal(lp.Schedule(e.tensor).build("interpret")(*arrays), wanted)
