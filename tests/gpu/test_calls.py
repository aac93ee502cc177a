"""Calls on a GPU: in the order of the caller's stream, from any thread; a refused call leaves no trace."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

pytestmark = pytest.mark.gpu
N = 1 << 22


@pytest.fixture(scope="module")
def double(torch: Any) -> Any:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    return schedules.auto(lp.Schedule(x * 2.0), "cuda").build("cuda")


def test_a_kernel_runs_on_the_stream_that_torch_works_on(torch: Any, double: Any) -> None:
    """What is before it on a stream that waits for nobody is done when it runs, and what is after reads its result."""
    side = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(side):
            a = torch.zeros(N, device="cuda")
            for _ in range(30):
                a += 1.0
            b = double(a) + 1.0
        side.synchronize()
        assert bool((b == 61.0).all())


@pytest.fixture(scope="module")
def total() -> Any:
    """A sum in two kernels, with an intermediate."""
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    kernel = schedules.auto(lp.Schedule(x.sum()), "cuda").build("cuda")
    assert kernel.host_source.count("lp_rt.launch") % 2 == 0  # two in each version: with a vector, and without
    return kernel


def test_intermediates_are_each_streams_own(torch: Any, total: Any) -> None:
    """Calls of one program on several streams at once, from several threads, and one after the other on each."""
    wrong: list[float] = []
    streams = [torch.cuda.Stream() for _ in range(4)]

    def work(k: int) -> None:
        torch.cuda.set_device(0)
        with torch.cuda.stream(streams[k % 4]):
            inputs = [torch.full((N + 4096 * i,), float(k + i), device="cuda") for i in range(3)]
            results = [(total(a), a) for _ in range(20) for a in inputs]
            wrong.extend(float(r) for r, a in results if float(r) != float(a[0]) * a.numel())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_captured_program_has_intermediates_of_its_own(torch: Any, total: Any) -> None:
    """Replays on one stream and calls on another use the same kernels, and no memory in common."""
    a, b = torch.ones(N, device="cuda"), torch.full((N,), 3.0, device="cuda")
    out = torch.empty((), device="cuda")
    total(a, out=(out,))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total(a, out=(out,))
    side = torch.cuda.Stream()
    for _ in range(50):
        graph.replay()
        with torch.cuda.stream(side):
            result = total(b)
        torch.cuda.synchronize()
        assert float(out) == N
        assert float(result) == 3 * N


def test_a_call_as_a_graph_is_replayed_on_what_its_arrays_hold(torch: Any, total: Any, double: Any) -> None:
    a = torch.ones(N, device="cuda")
    replay = total.graph(a)
    assert float(replay()) == N
    a.fill_(2.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert float(replay()) == 2 * N
    for _ in range(20):  # calls beside it have memory of their own
        a += 1.0
        out = replay()
        other = total(a)
    assert float(out) == float(other) == 22 * N
    b = torch.empty(N, device="cuda")
    again = double.graph(a, out=(b,))
    assert again() is b
    assert bool((b == 44.0).all())
    with pytest.raises(ValueError, match="on the GPU"):
        double.graph(np.ones(16, np.float32))


@pytest.mark.alone
def test_what_is_kept_for_later_calls_is_given_up_when_memory_ends(torch: Any) -> None:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    t = lp.compute((lp.symbol("n"), 1024), lambda i, j: x[i] * 2.0, name="t")
    nest = lp.Schedule(lp.compute((lp.symbol("n"),), lambda i: t[i, 0] + t[i, 1023], name="y"))
    kernel = nest.bind("t.i", "blockIdx.x").bind("j", "threadIdx.x").bind("y.i", "blockIdx.x").build("cuda")

    def right(n: int) -> None:
        a = torch.arange(n, device="cuda", dtype=torch.float32)
        assert torch.equal(kernel(a), a * 4)

    right(1 << 18)  # 1 GiB is kept
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(free - (1 << 28), dtype=torch.uint8, device="cuda")
    right((1 << 18) - 4096)  # fits only where the block was
    with pytest.raises(lp.TargetError, match="bytes left"):
        kernel(torch.ones(1 << 20, device="cuda"))
    right(1000)
    del held
    torch.cuda.empty_cache()
    right(1 << 20)


def test_a_call_can_be_captured_in_a_graph(torch: Any, double: Any) -> None:
    a, b = torch.ones(N, device="cuda"), torch.empty(N, device="cuda")
    double(a, out=(b,))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        double(a, out=(b,))
        double(b, out=(a,))
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((a == 64.0).all())


def test_threads_call_at_once(torch: Any, double: Any) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(200):
                a = torch.full((1000 + i,), float(k), device="cuda")
                if not bool((double(a) == 2.0 * k).all()):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_refused_calls_change_nothing_and_the_next_one_works(torch: Any, double: Any) -> None:
    a = torch.ones(64, device="cuda")
    out = torch.zeros(64, device="cuda")
    double(a)
    for x, given, message in [
        (a.t().reshape(8, 8).t(), None, "dimensions"),
        (a.double(), None, "holds float64"),
        (a, (a,), "overlaps"),
        (a, (torch.zeros(63, device="cuda"),), "shape"),
        (a.clone().requires_grad_(), None, "requires a gradient"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            double(x, out=given)
    double(a, out=(out,))
    assert bool((out == 2.0).all())


def test_arrays_of_the_host_are_copied_there_and_back(torch: Any, double: Any) -> None:
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(double(x), x * 2)
    np.testing.assert_array_equal(double(torch.from_numpy(x)).numpy(), x * 2)


def test_a_timer_runs_again_and_again_on_arrays_that_stay(torch: Any, double: Any) -> None:
    x = torch.ones(1 << 20, device="cuda")
    with double.timer(x) as seconds, double.timer(np.ones(1 << 20, np.float32)) as from_host:
        assert all(0.0 < run() < 1.0 for run in (seconds, from_host) for _ in range(3))
    assert bool((x == 1.0).all())


def test_too_much_memory_is_said_and_the_next_call_works(torch: Any) -> None:
    n = lp.symbol("n")
    x = lp.placeholder((1,), "float32", name="x")
    big = lp.compute((n * 1024,), lambda i: x[0] * 2.0, name="big")
    kernel = schedules.auto(lp.Schedule(big), "cuda").build("cuda")
    one = np.ones(1, np.float32)
    with pytest.raises((lp.TargetError, MemoryError, ValueError)):
        kernel(one, n=1 << 40)
    assert kernel(one, n=1)[0] == 2.0


def test_no_call_waits_for_the_gpu(torch: Any, double: Any, total: Any) -> None:
    """While the GPU is busy: calls of one kernel and of two, with new outputs and given ones, the first of its shape
    and later ones, on the default stream and beside it, and replays."""
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            a = torch.ones(N + 8 * stream.stream_id % 64 + 24, device="cuda")
            out, sums = (torch.empty_like(a),), (torch.empty((), device="cuda"),)
            replay = total.graph(torch.ones(N, device="cuda"))
            torch.cuda.synchronize()
            torch.cuda._sleep(10**9)
            done = torch.cuda.Event()
            for _ in range(3):
                double(a, out=out)
                total(a, out=sums)
                double(a)
                total(a)
                replay()
            done.record()
            assert not done.query()
            torch.cuda.synchronize()
            assert float(sums[0]) == a.numel()
            assert bool((out[0] == 2.0).all())


GATHER = """
def rows(n: "size", m: "size", A: "float32[n]", p: "int64[m]", B: "out float32[m]"):
    for i in range(m):
        B[i] = A[p[i]]
"""


def test_tests_of_subscripts_are_raised_later_and_no_call_waits_for_them(torch: Any) -> None:
    rows = schedules.auto(lp.Schedule(lp.parse(GATHER)), "cuda").build("cuda")
    a = torch.arange(100.0, device="cuda")
    p = torch.randint(0, 100, (N,), device="cuda")
    wrong = p.clone()
    wrong[N // 2] = 100
    with pytest.raises(lp.BoundsError, match="at index 100"):
        rows(a, wrong)  # the first at its sizes waits
    replay = rows.graph(a, p)
    out = torch.empty(N, device="cuda")
    rows(a, p, out=(out,))
    torch.cuda.synchronize()
    torch.cuda._sleep(10**9)
    done = torch.cuda.Event()
    rows(a, p)
    rows(a, wrong, out=(out,))
    rows(a, p, out=(out,))
    replay()
    done.record()
    assert not done.query()
    with pytest.raises(lp.BoundsError, match=r"at index 100; indices run from 0 to 99\. An earlier call"):
        rows.synchronize()
    rows.synchronize()
    assert bool((out == a[p]).all())
    assert bool((replay() == a[p]).all())
    for again in (lambda: rows(a, p), lambda: rows(a, p, out=(out,)), replay):
        rows(a, wrong)
        torch.cuda.synchronize()
        with pytest.raises(lp.BoundsError, match="An earlier call"):
            again()
        assert bool((rows(a, p) == a[p]).all())


def test_a_kernel_runs_on_the_stream_that_cupy_works_on(double: Any, total: Any) -> None:
    cupy = pytest.importorskip("cupy")
    side = cupy.cuda.Stream(non_blocking=True)
    for _ in range(20):
        with side:
            a = cupy.zeros(N, "float32")
            for _ in range(30):
                a += 1
            b, c = double(a), total(a)
            b += 1
        side.synchronize()
        assert isinstance(b, cupy.ndarray)
        assert bool((b == 61).all())
        assert float(c) == 30 * N


def test_a_thread_goes_on_with_its_own_gpu(torch: Any, double: Any, total: Any) -> None:
    """Needs two GPUs to be of use: arrays of the first are taken while another one is current, others are refused."""
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    a = torch.ones(N, device="cuda:0")
    with torch.cuda.device(1):
        other = torch.ones(N, device="cuda")
        for _ in range(3):
            b, c = double(a), total(a)
            replay = total.graph(a)
            d = replay()
            assert torch.cuda.current_device() == 1
            assert torch.ones(1, device="cuda").get_device() == 1
            with pytest.raises(ValueError, match=r"is on cuda:1, and .* runs on cuda:0; move it there"):
                double(other)
            assert b.get_device() == c.get_device() == 0
        torch.cuda.synchronize(0)
        assert bool((b == 2.0).all())
        assert float(c) == float(d) == N
    assert bool((double(a) == 2.0).all())
