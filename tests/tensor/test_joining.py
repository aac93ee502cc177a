"""Stacks, blocks and splits are NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import inputs, run, sample

import loopir as lp

NAMES = ["hstack", "vstack", "dstack", "column_stack"]
SPLITS: dict[str, Callable[[Any, Any], Any]] = {
    "array_split": lambda m, x: m.array_split(x, 3), "last": lambda m, x: m.array_split(x, [1, 1, 9], axis=-1),
    "hsplit": lambda m, x: m.hsplit(x, [1]), "vsplit": lambda m, x: m.vsplit(x, [0, 2]),
    "dsplit": lambda m, x: m.dsplit(x, [1]),
    "unstack": lambda m, x: m.unstack(x, axis=-2) if hasattr(m, "unstack") else tuple(np.moveaxis(x, -2, 0)),
    "atleast": lambda m, x: [getattr(m, f"atleast_{n}d")(x) for n in (1, 2, 3)],
    "several": lambda m, x: [*m.atleast_2d(x, x[0, 0, 0]), *m.atleast_3d(x[0], x[0, 0])],
    "broadcast": lambda m, x: m.broadcast_arrays(x, x[:1], x[0, 0]),
    "append": lambda m, x: [m.append(x, x), m.append(x, x[:1], axis=0), m.append(x[0], x[0][:, :1], axis=-1)],
    "block": lambda m, x: [m.block([[x, x], [x[:, :, :1], x[:, :, 1:], x]]), m.block([x[0, 0], x[0, 1 % len(x[0])]]),
                           m.block([[x[0], x[0, :, :1]], [x[0, :1], x[0, :1, :1]]]), m.block(x)]
    if isinstance(x, np.ndarray) else
    [m.block([[x, x], [x[:, :, :1], x[:, :, 1:], x]]), m.block([x[0, 0], x[0, 1 % x.shape[1]]]),
     m.block([[x[0], x[0, :, :1]], [x[0, :1], x[0, :1, :1]]]), m.block(x)],
}  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(NAMES), st.sampled_from(["float32", "int8", "bool"]), st.integers(1, 2), st.integers(0, 3),
    st.integers(1, 3), st.integers(0, 9),
)  # fmt: skip
def test_stacks(name: str, dtype: str, rank: int, size: int, count: int, seed: int) -> None:
    a = [
        sample(dtype, (2, size)[:rank] if name != "column_stack" else (3, size)[:rank], seed + n) for n in range(count)
    ]
    want = getattr(np, name)(a)
    made = getattr(lp, name)(inputs(*a))
    assert (made.shape, made.dtype.numpy) == (want.shape, want.dtype)
    np.testing.assert_array_equal(run(made, *a), want)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(sorted(SPLITS)), st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)), st.booleans()
)
def test_parts(name: str, shape: tuple[int, ...], narrow: bool) -> None:
    a = sample("float16" if narrow else "int32", shape)
    want, made = SPLITS[name](np, a), SPLITS[name](lp, inputs(a)[0])
    assert [x.shape for x in made] == [x.shape for x in want]
    for x, w in zip(made, want, strict=True):
        if w.size:
            np.testing.assert_array_equal(run((x + 0) if narrow else x * 1, a), w)


x = lp.placeholder((lp.symbol("n"), 2), "float32", name="x")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: lp.array_split(lp.arange(4), 0), "into 0 parts; one at least"),
        (lambda: lp.unstack(x), "how many parts there are is known at the call"),
        (lambda: lp.vsplit(lp.arange(4), 2), "vsplit of .* it takes 2 dimensions or more"),
        (lambda: lp.block([[x], x]), "block of lists of 2 depths"),
        (lambda: lp.block([]), "block of lists of 0 depths; .* none of them empty"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(lp.ExprError, match=said):
        wrong()


def test_one_tensor_is_no_list() -> None:
    with pytest.raises(TypeError, match="hstack takes the tensors as one list"):
        lp.hstack(x)  # pyright: ignore[reportArgumentType]
