"""schedules.transpose: any permutation by tiles, right at every size as the interpreter runs the threads."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.common.transpose import find_transposed_read, transpose


def permuted(shape: tuple[object, ...], order: tuple[int, ...], dtype: str = "float32") -> lp.Schedule:
    x = lp.placeholder(shape, dtype, name="x")
    out = tuple(shape[d] for d in order)
    return lp.Schedule(
        lp.compute(out, lambda *at: x[tuple(at[order.index(d)] for d in range(len(shape)))] + 1, name="y")
    )


def check(s: lp.Schedule, scheduled: lp.Schedule, x: np.ndarray, seed: int = 0) -> None:
    sizes = dict(zip(s.func.sizes, x.shape, strict=False))
    want = lp.interpret(s.func, {"x": x}, sizes, domain="ring")
    (program,) = lp.lower(scheduled, "cuda")
    got = lp.interpret(program, {"x": x}, sizes, domain="ring", seed=seed)
    np.testing.assert_array_equal(got["y"], want["y"])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=3).flatmap(
        lambda shape: st.tuples(st.just(tuple(shape)), st.sampled_from([*permutations(range(len(shape)))]))
    ),
    st.sampled_from([4, 8]),
    st.integers(0, 9),
)
def test_any_permutation_of_any_shape(case: tuple[tuple[int, ...], tuple[int, ...]], tile: int, seed: int) -> None:
    shape, order = case
    s = permuted(shape, order)
    if find_transposed_read(s, "y") is None:
        with pytest.raises(lp.ScheduleError, match="reads nothing across the direction"):
            transpose(s, "y")
        return
    x = np.random.default_rng(seed).integers(0, 99, shape).astype(np.float32)
    check(s, transpose(s, "y", tile=tile, threads=8), x, seed)


def test_symbolic_sizes_and_aligned_vectors() -> None:
    s = permuted((lp.symbol("m"), lp.symbol("n")), (1, 0))
    scheduled = transpose(s, "y", tile=4, threads=8)
    for m, n in ((1, 1), (4, 4), (5, 9), (8, 3)):
        check(s, scheduled, np.arange(m * n, dtype=np.float32).reshape(m, n))
    s = permuted((8, 16), (1, 0))
    scheduled = transpose(s, "y", tile=8, threads=16, vector=2)
    assert str(scheduled).count("vectorize(2)") == 2
    check(s, scheduled, np.arange(128, dtype=np.float32).reshape(8, 16))


def test_it_is_chosen_from_the_structure() -> None:
    assert "shared" in str(schedules.gpu(permuted((64, 64), (1, 0))))
    assert "shared" not in str(schedules.gpu(permuted((64, 4), (1, 0))))
    assert "shared" not in str(schedules.gpu(permuted((4, 64, 64), (1, 0, 2))))


@pytest.mark.parametrize("shape", [(8, 12), (8, 11), (4, 4), (1, 3)])
def test_sides_of_unknown_length_have_a_version_for_whole_tiles(shape: tuple[int, int]) -> None:
    s = permuted((lp.symbol("m"), lp.symbol("n")), (1, 0))
    scheduled = transpose(s, "y", tile=4, threads=8)
    check(s, scheduled, np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape))
    assert "n % 4 == 0 and m % 4 == 0" in str(scheduled)
    source = lp.compile_source(transpose(s, "y")).source
    assert source.count("__global__") == 2
    assert "lp_u2*" in source
