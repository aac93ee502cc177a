"""schedules.row_blocks: softmax and norms in one kernel, at any size and type; exact where their folds are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

RNG = np.random.default_rng(0)
Stages = Callable[[lp.Tensor], lp.Tensor]


def layernorm(x: lp.Tensor) -> lp.Tensor:
    mean = lp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * lp.rsqrt(lp.var(x, axis=-1, keepdims=True, mean=mean) + 1e-5) * 2.0 + 1.0


def rmsnorm(x: lp.Tensor) -> lp.Tensor:
    return x * lp.rsqrt((x * x).sum(axis=-1, keepdims=True) / 10.0 + 1e-5)


def mean(x: lp.Tensor) -> lp.Tensor:
    return lp.relu(lp.mean(x, axis=-1) * 3.0)


def fold_of_folds(x: lp.Tensor) -> lp.Tensor:
    return ((x.max(axis=-1, keepdims=True) - x) * x).sum(axis=-1)


EXACT: dict[str, Stages] = {
    "softmax": lp.softmax, "layernorm": layernorm, "rmsnorm": rmsnorm, "mean": mean, "fold of folds": fold_of_folds,
}  # fmt: skip
ONE_PASS: dict[str, Stages] = {
    "online softmax": lambda x: lp.softmax(x, online=True),
    "logsumexp": lambda x: lp.logsumexp(x, axis=-1) + 0.0,
    "variance": lambda x: lp.var(x, axis=-1, passes=1) * 1.0,
}


def both(stages: Stages, shape: Any, sizes: Any, dtype: str = "float32", **options: int) -> tuple[Any, Any, Any]:
    x = lp.placeholder(shape, dtype, name="x")
    base = schedules.inlined(lp.Schedule(stages(x).named("y")))
    s = schedules.row_blocks(base, **options)
    (program,) = lp.lower(s, "cuda")
    assert lp.text(program).count("with kernel(") == 1
    array = RNG.integers(0, 9, sizes).astype(base.func.args[0].buffer.dtype.numpy)
    return base.func, program, array


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((lp.symbol("n"), lp.symbol("m")), (3, 70)),
        ((lp.symbol("n"), lp.symbol("m")), (1, 1)),
        ((lp.symbol("n"), lp.symbol("m", multiple_of=4)), (2, 36)),
        ((lp.symbol("n"), 20), (11, 20)),
        ((5, 256), (5, 256)),
        ((1, 1, 256), (1, 1, 256)),
        ((2, lp.symbol("n"), 130), (2, 3, 130)),
    ],
    ids=str,
)
def test_any_shape(name: str, shape: Any, sizes: Any) -> None:
    func, program, array = both(EXACT[name], shape, sizes, threads=64)
    want = lp.interpret(func, [array], domain="ring")["y"]
    for seed in range(2):
        np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring", seed=seed)["y"], want)


@pytest.mark.parametrize("name", sorted(ONE_PASS))
def test_one_pass(name: str) -> None:
    func, program, array = both(ONE_PASS[name], (lp.symbol("n"), lp.symbol("m")), (3, 150), threads=64)
    np.testing.assert_allclose(lp.interpret(program, [array])["y"], lp.interpret(func, [array])["y"], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types(dtype: str) -> None:
    func, program, array = both(lp.softmax, (4, 64), (4, 64), dtype, threads=32)
    want = lp.interpret(func, [array], domain="ring")["y"]
    np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring")["y"], want)


@pytest.mark.parametrize("name", sorted(EXACT | ONE_PASS))
def test_they_compile_in_vectors_without_spills(name: str) -> None:
    x = lp.placeholder((lp.symbol("n"), 4096), "bfloat16", name="x")
    s = schedules.row_blocks(schedules.inlined(lp.Schedule((EXACT | ONE_PASS)[name](x).named("y"))))
    made = lp.compile_source(s)
    assert "lp_u4*" in made.source
    assert [k.spill_stores for k in made.resources.values()] == [0]


@pytest.mark.parametrize("name", ["softmax", "layernorm", "rmsnorm"])
@pytest.mark.parametrize("length", [1024, 5003, 8192, 32768])
def test_a_row_is_moved_once_in_each_direction(name: str, length: int) -> None:
    """The bytes that the nest moves in global memory are the compulsory ones; guards are counted as if they held."""
    x = lp.placeholder((4096, length), "bfloat16", name="x")
    s = schedules.auto(lp.Schedule(EXACT[name](x).named("y")), "cuda")
    moved = s.cost.by_buffer
    whole = -(-length // 256) * 256
    assert (moved["x"] + moved["y"]) * length == s.cost.compulsory * whole
    assert all(s.buffer(b).scope != "global" for b in moved if b not in "xy"), "all else stays in the block"


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize(
    ("shape", "threads"), [((3, 70), 64), ((2, 256), 64), ((5, 20), 16), ((2, 3, 130), 32)], ids=str
)
def test_rows_in_registers_mean_the_same(name: str, shape: tuple[int, ...], threads: int) -> None:
    x = lp.placeholder(shape, "bfloat16", name="x")
    base = schedules.inlined(lp.Schedule(EXACT[name](x).named("y")))
    array = RNG.integers(0, 9, shape).astype(base.func.args[0].buffer.dtype.numpy)
    want = lp.interpret(base.func, [array], domain="ring")["y"]
    for keep in (True, False):
        (program,) = lp.lower(schedules.row_blocks(base, threads=threads, keep=keep), "cuda")
        np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring", seed=1)["y"], want)


@pytest.mark.parametrize(("n", "m"), [(3, 16), (5, 40), (2, 13), (1, 1032)])
def test_the_host_picks_a_kernel_for_a_length_that_is_not_known(n: int, m: int) -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "bfloat16", name="x")
    base = schedules.inlined(lp.Schedule(rmsnorm(x).named("y")))
    (program,) = lp.lower(schedules.row_blocks(base), "cuda")
    text = lp.text(program)
    assert text.count("with kernel(") == 6
    assert "if m % 8 == 0" in text.split("with kernel(")[0]
    array = RNG.integers(0, 9, (n, m)).astype(base.func.args[0].buffer.dtype.numpy)
    want = lp.interpret(base.func, [array], domain="ring")["y"]
    np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring")["y"], want)


@pytest.mark.parametrize("m", [16, 60, 96, 100, 124, 128, 132])
def test_rows_nearly_as_long_as_the_longest_have_a_kernel(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("schedules.cuda.row_blocks"), "LONGEST", (16, 64, 128))
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    base = schedules.inlined(lp.Schedule(rmsnorm(x).named("y")))
    (program,) = lp.lower(schedules.row_blocks(base), "cuda")
    assert "< 3 or" in lp.text(program)
    array = RNG.integers(0, 9, (2, m)).astype(np.float32)
    want = lp.interpret(base.func, [array], domain="ring")["y"]
    np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring")["y"], want)


@pytest.mark.parametrize("name", ["softmax", "layernorm"])
def test_a_vector_is_one_row(name: str) -> None:
    base, program, array = both(EXACT[name], (70,), (70,))
    want = lp.interpret(base, [array], domain="ring")["y"]
    np.testing.assert_array_equal(lp.interpret(program, [array], domain="ring")["y"], want)


@pytest.mark.parametrize("shape", [(1, 4096), (4096,), (1, 1, 1000)], ids=str)
def test_one_row_costs_no_more_than_two(shape: tuple[int, ...]) -> None:
    def seconds(*shape: int) -> float:
        x = lp.placeholder(shape, "float32", name="x")
        return schedules.auto(lp.Schedule(layernorm(x)), "cuda", arch="sm_90a").report(arch="sm_90a").seconds

    assert seconds(*shape) <= seconds(2, shape[-1])


def test_a_vector_of_a_length_that_is_not_known_is_refused() -> None:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    with pytest.raises(lp.ScheduleError, match="one row, of a length that is not known"):
        schedules.row_blocks(schedules.inlined(lp.Schedule(lp.softmax(x))))


def test_what_has_no_rows_is_refused() -> None:
    x = lp.placeholder((8, 9), "float32", name="x")
    for t in (x + 1.0, x.sum(), (x - x.sum(axis=0)) / x.sum(axis=1, keepdims=True)):
        with pytest.raises(lp.ScheduleError):
            schedules.row_blocks(lp.Schedule(t))


@pytest.mark.parametrize("n", [4, 6])
def test_short_rows_of_any_length_share_blocks_where_none_is_left_out(n: int) -> None:
    """Four rows, a warp each, if their number is a multiple of four; else a row has a block."""
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "bfloat16", name="x")
    s = schedules.gpu(lp.Schedule(lp.softmax(lp.cast(x, "float32")).astype("bfloat16").named("y")))
    assert 'bind("threadIdx.y", 4)' in lp.text(s.func)
    a = np.random.default_rng(0).standard_normal((n, 40)).astype(x.dtype.numpy)
    want = np.exp(a.astype(np.float32) - a.astype(np.float32).max(axis=1, keepdims=True))
    got = np.asarray(s.build("interpret")(a)).astype(np.float32)
    np.testing.assert_allclose(got, want / want.sum(axis=1, keepdims=True), rtol=2**-7)
    assert lp.testing.memory_report(s, [a]).fault is None


def test_long_rows_of_short_elements_are_near_in_shared_memory() -> None:
    for dtype, scope in (("bfloat16", "shared"), ("float32", "local")):
        x = lp.placeholder((4096, 32768), dtype, name="x")
        s = schedules.gpu(lp.Schedule(lp.softmax(lp.cast(x, "float32")).astype(dtype).named("y")), arch="sm_90a")
        assert s.buffer("x_local").scope == scope
        # read as whole vectors, by no statement an element at a time
        assert "lp_from_bf16(x_local[" not in lp.compile_source(s, "sm_90a").source


def channel_norm(*shape: int, dtype: str = "float32") -> lp.Schedule:
    """A norm over all axes but the second, as of a batch of images."""
    x = lp.placeholder(shape, dtype, name="x").astype("float32")
    axes = (0, *range(2, len(shape)))
    d = x - lp.mean(x, axis=axes, keepdims=True)
    return lp.Schedule((d * lp.rsqrt(lp.mean(d * d, axis=axes, keepdims=True) + 1e-5)).astype(dtype))


@pytest.mark.parametrize(("shape", "dtype"), [((3, 5, 4, 8), "float32"), ((4, 6, 16), "bfloat16"), ((5, 3), "float32")])
def test_rows_need_not_be_the_outer_loops_of_the_last_stage(shape: tuple[int, ...], dtype: str) -> None:
    s = channel_norm(*shape, dtype=dtype)
    made = schedules.row_blocks(s, keep=False)
    lp.testing.assert_equivalent(s, made)


def test_a_norm_of_channels_is_one_launch_where_the_cache_has_their_rows() -> None:
    with lp.scheduling_for(lp.machine("sm_90a")):
        made = schedules.auto(channel_norm(8, 64, 28, 28, dtype="bfloat16"), "cuda", arch="sm_90a")
        assert lp.predict(made, "cuda", arch="sm_90a").kernels == 1
        with pytest.raises(lp.ScheduleError, match="rows of out are too long for the cache"):
            schedules.row_blocks(channel_norm(64, 64, 112, 112))


@pytest.mark.parametrize("shape", [(3, 5, 4, 8), (2, 3, 5, 5)])
def test_rows_of_several_dimensions_stay_in_registers_however_threads_share_them(shape: tuple[int, ...]) -> None:
    """Where threads divide no inner dimension, they step through the row, not through its dimensions."""
    s = channel_norm(*shape)
    made = schedules.row_blocks(s, threads=32)
    assert made.buffer("x_local").scope == "local"
    lp.testing.assert_equivalent(s, made)
    a = RNG.integers(0, 9, shape).astype(np.float32)
    assert lp.testing.memory_report(made, [a]).fault is None


def group_norm(n: int, channels: int, groups: int, side: int) -> lp.Schedule:
    x = lp.placeholder((n, channels, side, side), "float32", name="x")
    v = x.reshape((n, groups, channels // groups, side, side))
    d = v - lp.mean(v, axis=(2, 3, 4), keepdims=True)
    norm = d * lp.rsqrt(lp.mean(d * d, axis=(2, 3, 4), keepdims=True) + 1e-5)
    return lp.Schedule(norm.reshape((n, channels, side, side)) * 2.0)


@pytest.mark.parametrize(("channels", "groups", "side"), [(6, 3, 4), (10, 2, 5)])
def test_channels_of_a_group_are_one_row(channels: int, groups: int, side: int) -> None:
    s = group_norm(2, channels, groups, side)
    made = schedules.row_blocks(schedules.inlined(s), rows=1)
    assert f'bind("blockIdx.x", {2 * groups})' in str(made)
    lp.testing.assert_equivalent(s, made)


def test_few_rows_have_as_many_threads_as_make_the_last_turn_short() -> None:
    """A processor has two blocks of 1024 threads, so that 309 of them take two turns, as long as each other."""
    with lp.scheduling_for(lp.machine("sm_90a")):
        s = channel_norm(13, 309, 51, 51, dtype="bfloat16")
        made = importlib.import_module("schedules.cuda.row_blocks").few_row_blocks(s)
        assert lp.predict(made, "cuda").seconds < 0.97 * lp.predict(schedules.row_blocks(s), "cuda").seconds
