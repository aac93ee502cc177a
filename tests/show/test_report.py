"""What a report says: what bounds a kernel, what limits its blocks, and a time that follows from the counts."""

import pytest

import loopir as lp
import schedules
from schedules.cuda.matmul_wgmma import matmul_wgmma


def gelu(n: object) -> lp.Schedule:
    x = lp.placeholder((n,), "float32", name="x")
    return schedules.auto(lp.Schedule(lp.gelu(x)), "cuda")


def test_an_elementwise_kernel_is_bound_by_memory() -> None:
    told = gelu(1 << 26).report()
    (kernel,) = told.kernels
    assert kernel.bound == "memory"
    assert told.compulsory == 2 * 4 * (1 << 26)
    assert told.seconds == pytest.approx(told.compulsory / told.gpu.copy_bandwidth, rel=0.05)
    assert "bound by memory" in str(told)
    assert "moves 537 MB of memory, 537 MB of the L2 cache; " in str(told)
    assert kernel.bytes(told.gpu)["shared memory"] == 0
    assert "<pre " in told._repr_html_()


def test_stores_of_parts_of_sectors_take_the_cache_longer() -> None:
    """Elements that a thread stores one by one, beside whole vectors of the same."""
    x = lp.placeholder((1 << 22,), "float32", name="x")
    s = lp.Schedule((x + 1.0).named("y")).split("i", 1024).bind("i_o", "blockIdx.x").split("i_i", 4)
    s = s.bind("i_i_o", "threadIdx.x")
    (apart,), (whole,) = (
        made.report(arch="sm_90a").kernels for made in (s.unroll("i_i_i"), s.vectorize("i_i_i"))
    )  # fmt: skip
    gpu = lp.machine("sm_90a")
    assert whole.seconds["partial stores"] == 0.0
    assert apart.seconds["partial stores"] == pytest.approx(16 * (1 << 22) * gpu.partial_write / gpu.l2_bandwidth)
    assert apart.total > whole.total


def test_sizes_are_asked_for() -> None:
    s = gelu(lp.symbol("n"))
    assert s.report(n=1 << 20).seconds < s.report(n=1 << 26).seconds
    with pytest.raises(ValueError, match=r"a report is of given sizes, here report\(n=4096\)"):
        s.report()
    with pytest.raises(ValueError, match="sizes"):
        s.report(m=3)


def test_a_product_is_bound_by_instructions_and_its_naive_nest_takes_longer() -> None:
    A, B = (lp.placeholder((1024, 1024), "float32", name=x) for x in "AB")
    naive = lp.Schedule(A @ B)
    rows, columns = naive.loops()[:2]
    naive = naive.bind(rows, "blockIdx.x").bind(columns, "threadIdx.x")
    tiled = schedules.matmul_gpu(lp.Schedule(A @ B), naive.stages[0])
    one, other = naive.report(), tiled.report()
    assert other.seconds < one.seconds / 2
    assert other.kernels[0].work.plain == one.kernels[0].work.plain == 2 * 1024**3
    assert "limited by" in str(other)


def test_blocks_that_have_a_processor_alone_each_wait_for_their_first_tile() -> None:
    """Three blocks of most of the shared memory, one after the other on each processor, or one for all three tiles."""
    gpu = lp.machine("sm_90a")
    rows = 3 * gpu.processors * 128
    s = lp.Schedule(
        lp.placeholder((rows, 512), "bfloat16", name="a") @ lp.placeholder((512, 256), "bfloat16", name="b")
    )
    with lp.scheduling_for(gpu):
        (apart,) = matmul_wgmma(s, "matmul", block=(128, 256), stages=3, roles=False).report(arch="sm_90a").kernels
        (stays,) = matmul_wgmma(s, "matmul", block=(128, 256)).report(arch="sm_90a").kernels
    assert (apart.resident, apart.work.blocks, apart.start) == (1, 3 * gpu.processors, 3 * gpu.latency)
    assert (stays.resident, stays.work.blocks, stays.start) == (1, gpu.processors, gpu.latency)
