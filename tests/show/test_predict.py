"""loopir.predict, and what the predictor counts: grids beside one another, the host's choices, machines."""

from __future__ import annotations

import pytest

import loopir as lp
import schedules


@pytest.mark.parametrize(("rows", "times"), [(65536, 2), (1024, 1)])
def test_grids_beside_one_another_read_again_what_the_cache_cannot_hold(rows: int, times: int) -> None:
    x = lp.placeholder((rows, 1024), "float32", name="x")
    s = schedules.gpu(lp.Schedule([lp.sum(x, axis=1), lp.max(x, axis=1)]), arch="sm_90a")
    blocks = [next(y for y in s.loops(x) if s.loop(y).kind == "blockIdx.x") for x in s.stages]
    both = s.merge(*dict.fromkeys(blocks), side_by_side=True)
    assert lp.predict(both, "cuda").bytes == pytest.approx(times * rows * 4096, rel=0.15)


def test_the_host_chooses_a_kernel_for_the_sizes() -> None:
    """Of a kernel for all sizes what it moves was counted on the branch that is written first: 34 of 98 MB."""
    n, k = lp.symbol("n"), lp.symbol("k")
    s = schedules.gpu(lp.Schedule(lp.softmax(lp.placeholder((n, k), "float32", name="x"))), arch="sm_90a")
    for sizes in ({"n": 8192, "k": 512}, {"n": 8192, "k": 1500}, {"n": 1024, "k": 16384}):
        moved = lp.predict(s, "cuda", sizes=sizes).bytes
        assert moved == pytest.approx(8 * sizes["n"] * sizes["k"], rel=0.15)


def test_faster_memory_makes_a_copy_faster() -> None:
    x = lp.placeholder((1 << 24,), "float32", name="x")
    s = schedules.gpu(lp.Schedule(x * 2.0))
    seconds = {
        arch: lp.predict(s, "cuda", arch=arch).seconds for arch in ("sm_86", "sm_89", "sm_80", "sm_90a", "sm_100a")
    }
    assert sorted(seconds, key=lambda arch: -seconds[arch]) == list(seconds)
    for arch, found in seconds.items():
        assert found == pytest.approx((8 << 24) / lp.machine(arch).copy_bandwidth, rel=0.2)


def test_products_of_8_bits_are_twice_as_fast_as_of_16() -> None:
    def tensor_seconds(dtype: str) -> float:
        a, b = (lp.placeholder((4096, 4096), dtype, name=name) for name in "ab")
        wide = [lp.cast(x, {"int8": "int32"}.get(dtype, "float32")) for x in (a, b)]
        s = schedules.auto(lp.Schedule(wide[0] @ lp.transpose(wide[1], (1, 0))), "cuda", arch="sm_90a")
        (kernel,) = s.report().kernels
        return kernel.seconds["tensor cores"]

    assert tensor_seconds("int8") == pytest.approx(tensor_seconds("bfloat16") / 2, rel=0.01)


def test_a_price_is_of_either_target_and_any_size() -> None:
    n = lp.symbol("n")
    s = lp.Schedule(lp.placeholder((n, 64), "float32", name="x") * 2.0)
    small, large = (lp.predict(s.parallel("i"), "llvm", sizes={"n": size}) for size in (64, 65536))
    assert small.seconds < large.seconds
    assert lp.predict(s, "llvm").kernels == 1
    assert lp.buffer_bytes(s, {"n": 10})["x"] == 2560


def test_a_launch_of_no_blocks_has_a_price() -> None:
    n = lp.symbol("n", min=0)
    x = lp.placeholder((n,), "float32", name="x")
    s = lp.schedules.auto(lp.Schedule(x * 2.0), "cuda", arch="sm_90a")
    assert 0.0 < lp.predict(s, "cuda", arch="sm_90a", sizes={"n": 0}).seconds < 1.0e-4
