"""schedules.elementwise: right at every size on threads as the interpreter runs them, whole vectors where they fit."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from schedules.common.fusion import inlined
from schedules.cuda.elementwise import elementwise


def chain(shape: tuple[object, ...], dtype: str) -> lp.Schedule:
    x = lp.placeholder(shape, dtype, name="x")
    scale = lp.placeholder(shape[-1:], dtype, name="scale")
    return inlined(lp.Schedule(lp.relu(x * scale + 1)))


def filled(s: lp.Schedule, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for a in s.func.args:
        if a.access == "in":
            shape = [sizes.get(lp.text(d)) if lp.text(d) in sizes else int(lp.text(d)) for d in a.buffer.shape]
            arrays[a.buffer.name] = random.integers(-9, 9, shape).astype(a.buffer.dtype.numpy)
    return arrays


def check(s: lp.Schedule, sizes: dict[str, int], seed: int, **options: int) -> lp.Schedule:
    """The schedule's threads compute what the expression says, without a race; its last stage is what was scheduled."""
    scheduled = elementwise(s, s.stages[-1], **options)
    arrays = filled(s, sizes, seed)
    want = lp.interpret(s.func, arrays, sizes, domain="ring")
    (program,) = lp.lower(scheduled, "cuda")
    got = lp.interpret(program, arrays, sizes, domain="ring", seed=seed)
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)
    return scheduled


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.sampled_from(["float32", "float16", "float64", "int8"]),
    st.sampled_from([2, 4]),
    st.integers(1, 3),
    st.integers(0, 9),
)
def test_any_shape(shape: list[int], dtype: str, threads: int, vectors: int, seed: int) -> None:
    check(chain(tuple(shape), dtype), {}, seed, threads=threads, vectors=vectors)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 2), st.integers(0, 9))
def test_any_symbolic_size(m: int, n: int, vectors: int, seed: int) -> None:
    s = chain((lp.symbol("m"), lp.symbol("n")), "float32")
    scheduled = check(s, {"m": m, "n": n}, seed, threads=2, vectors=vectors)
    assert "vectorize(4)" in str(scheduled)
    # rows of whole vectors, and others; of each whole vectors, and the rest; of several, whole blocks first
    assert len(scheduled.stages) == (4 if vectors == 1 else 6)


def test_rows_of_whole_blocks_need_no_guard_and_divide_nothing_by_a_row() -> None:
    s = chain((4, 64), "float32")
    scheduled = check(s, {}, 0, threads=4, vectors=2)
    assert "if " not in str(scheduled)
    assert "// 64" not in str(scheduled)
    source = lp.compile_source(scheduled).source
    assert source.count("lp_u4*>(scale_v") == source.count("lp_u4*>(x_v") == 1


def test_a_scalar_and_a_stage_with_no_free_loop_are_left_alone() -> None:
    x = lp.placeholder((), "float32", name="x")
    s = lp.Schedule(x + 1)
    assert elementwise(s, s.stages[-1]) is s


def test_what_does_not_run_along_the_output_is_taken_element_by_element() -> None:
    x = lp.placeholder((8, 16), "float32", name="x")
    y = lp.placeholder((16, 8), "float32", name="y")
    s = inlined(lp.Schedule(x.T + y))
    scheduled = check(s, {}, 1, threads=4)
    assert "vectorize(4)" in str(scheduled)  # the other one runs along


@pytest.mark.parametrize(("n", "m"), [(3, 40), (2, 37), (1, 0), (5, 8), (0, 3)])
def test_rows_of_unknown_length_share_without_a_division(n: int, m: int) -> None:
    rows, length = lp.symbol("n", min=0), lp.symbol("m", min=0)
    x, w = lp.placeholder((rows, length), "float32", name="x"), lp.placeholder((length,), "float32", name="w")
    base = lp.Schedule((x * w).named("y"))
    s = elementwise(base, "y", threads=4)
    (program,) = lp.lower(s, "cuda")
    aligned, others = lp.text(program).split("else:\n        with kernel")
    assert "// m" not in aligned, "which row it is, the block knows"
    assert "m % 4" in aligned
    assert "% m" in others, "rows that are no whole vectors are taken as one"
    assert "lp_u4*" in lp.compile_source(s).source, "whole vectors where the length allows, asked at the launch"
    arrays = [np.arange(n * m, dtype=np.float32).reshape(n, m), np.arange(m, dtype=np.float32)]
    want = lp.interpret(base.func, arrays, domain="ring")["y"]
    np.testing.assert_array_equal(lp.interpret(program, arrays, domain="ring")["y"], want)


def pairwise(n: object, m: object, k: int, dtype: str) -> lp.Schedule:
    """What two arrays of records of `k` elements have in common, for each pair of these."""
    a, b = lp.placeholder((n, k), dtype, name="a"), lp.placeholder((m, k), dtype, name="b")
    out = lp.maximum(a[:, None, 0], b[None, :, 0])
    for i in range(1, k):
        out = out * lp.maximum(a[:, None, i], b[None, :, i]) + b[None, :, k - i]
    return inlined(lp.Schedule(out))


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(2, 4),
    st.sampled_from(["float32", "float16", "int8", "float64"]),
    st.integers(1, 2),
    st.booleans(),
    st.integers(0, 9),
)
def test_any_records(n: int, m: int, k: int, dtype: str, vectors: int, symbolic: bool, seed: int) -> None:
    sizes = {"n": n, "m": m} if symbolic else {}
    shape = (lp.symbol("n"), lp.symbol("m")) if symbolic else (n, m)
    check(pairwise(*shape, k, dtype), sizes, seed, threads=2, vectors=vectors)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_records_are_read_as_whole_vectors(k: int) -> None:
    s = pairwise(8, 64, k, "float32")
    made = str(elementwise(s, s.stages[-1]))
    copy = made.split("as b_local")[1].split("out[")[0]
    assert f"unroll({k})" in copy
    assert "vectorize(4)" in copy


def test_elements_between_records_are_not_read() -> None:
    x = lp.placeholder((64, 40), "float32", name="x")
    s = inlined(lp.Schedule(x[:, 0] * x[:, 39]))
    assert "alloc" not in str(elementwise(s, s.stages[-1]))
