"""grid_sample is torch's in all modes, inside, at the edges and far outside; refusals by message."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import inputs, run

import loopir as lp

torch = pytest.importorskip("torch")
PADDING = ["zeros", "border", "reflection"]


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["bilinear", "nearest", "bicubic"]), st.sampled_from(PADDING), st.booleans(), st.booleans(),
    st.lists(st.integers(1, 4), min_size=2, max_size=2), st.integers(0, 99),
)  # fmt: skip
def test_as_torch(mode: str, padding: str, corners: bool, volume: bool, sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = [2, *sizes] if volume and mode != "bicubic" else sizes
    x = rng.normal(size=(2, 2, *space)).astype(np.float32)
    grid = rng.uniform(-2.5, 2.5, (2, *(3, 2, 1)[: len(space)], len(space))).astype(np.float32)
    image, places = inputs(x, grid)
    got = run(lp.grid_sample(image, places, mode, padding, corners), x, grid)
    wanted = torch.nn.functional.grid_sample(torch.tensor(x), torch.tensor(grid), mode, padding, corners)
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=2e-5)


def test_places_that_are_no_numbers_are_outside() -> None:
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.array([[[[np.nan, 0], [np.inf, 0], [-1e30, 0]]]], np.float32)
    assert run(lp.grid_sample(*inputs(x, grid)), x, grid).tolist() == [[[[0, 0, 0]]]]


def test_refusals() -> None:
    x, grid = inputs(np.ones((1, 1, 2, 2)), np.ones((1, 2, 2, 3)))
    with pytest.raises(lp.ExprError, match="the last of them of a coordinate for each of space"):
        lp.grid_sample(x, grid)
    with pytest.raises(lp.ExprError, match=r"mode='linear' .* they are of bilinear, nearest, bicubic and of zeros"):
        lp.grid_sample(x, grid[..., :2], "linear")
